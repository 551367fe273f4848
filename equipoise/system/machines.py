"""Which machine this is, and whether a disk is one that several machines share."""

from __future__ import annotations

import platform
from pathlib import Path

NETWORK_DISKS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "wekafs",
    }
)
BOOT = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mounts")


def machine() -> str:
    """Equal for processes under one kernel, that is, for those whose file locks each other can see;
    containers of one machine are one.
    """
    return BOOT.read_text().strip() if BOOT.exists() else platform.node()


def network_disk(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of network disk that a path lies on; "" where it is none, or where the system does
    not say.
    """
    if not mounts.exists():
        return ""
    place = path.absolute().resolve()
    kinds: dict[Path, str] = {}
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        # Blanks in a mount's path are written in octal.
        kinds[Path(where.encode().decode("unicode_escape"))] = kind
    for folder in (place, *place.parents):
        if folder in kinds:
            return kinds[folder] if kinds[folder] in NETWORK_DISKS else ""
    return ""
