"""The packages that a borrowed card lacks, as one archive that fits beside the source.

    python -m tools.gpu_packages FILE.tar.xz [--present torch transformers …] [--python 3.12]
        [--most 64]

A card that is borrowed for minutes has no network: what Equipoise needs there beyond `--present`
(and what those bring along) is downloaded here, by the exact versions of constraints.txt, as wheels
for `--python` on Linux; unpacked; stripped of tests, headers and static libraries; packed; and
refused where the archive is larger than `--most` MiB. On the card:

    mkdir -p site && tar -xf FILE.tar.xz -C site && export PYTHONPATH=$PWD/site:$PWD
    python -m benchmarks.gpu_short --out OUT
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PRESENT = ("torch", "transformers", "huggingface_hub", "peft", "accelerate")
EXTRAS = ("train",)
# Read by no step on a card: data sets of the hub, and the judge of mathematics.
LEFT_OUT = ("datasets", "math-verify")
# Packages that some releases of what a card has bring along, and others do not.
ALWAYS = ("pydantic",)
STRIPPED = re.compile(
    r"(^|/)(tests?|include|__pycache__)/"
    r"|\.(pyi|a|h|hpp|pxd|pyx)$"
    r"|(flight|substrait|gandiva)[\w.]*$"  # parts of pyarrow that nothing here asks for
)
MIB = 2**20


def main(argv: Sequence[str] | None = None) -> None:
    """Make the archive, and print each package's share; exit code 1 where it is too large."""
    parser = argparse.ArgumentParser(
        prog="tools.gpu_packages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--present", nargs="+", default=list(PRESENT), help="what the card has")
    parser.add_argument("--python", default="3.12", help="the card's version of Python")
    parser.add_argument("--most", type=float, default=64, help="MiB of the archive, at most")
    o = parser.parse_args(argv)
    names = sorted(missing(o.present))
    pinned = versions()
    unknown = [name for name in names if name not in pinned]
    if unknown:
        raise SystemExit(f"constraints.txt names no version of {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        wheels = download([f"{name}=={pinned[name]}" for name in names], o.python, Path(folder))
        packed = pack(wheels, Path(folder) / "site", o.file)
    for wheel, size in packed.items():
        print(f"{size / MIB:7.1f} MiB unpacked  {wheel}")
    size = o.file.stat().st_size / MIB
    print(f"{size:7.1f} MiB  {o.file}, of at most {o.most:g}")
    sys.exit(0 if size <= o.most else 1)


def missing(present: Sequence[str]) -> set[str]:
    """The packages that Equipoise needs for training beyond those of a card, and theirs."""
    there = set(closure(present)) - set(closure(ALWAYS))
    needed = closure(["equipoise"], EXTRAS)
    left_out = set(map(canonicalize_name, LEFT_OUT))
    own = {name for name in needed if name not in left_out} - there - {"equipoise"}
    # What only packages that are left out need is not needed either.
    return own & set(closure(sorted(direct(own, left_out | there))))


def direct(own: set[str], without: set[str]) -> set[str]:
    """Equipoise's own requirements among `own`."""
    return {
        name for name in requirements("equipoise", EXTRAS) if name in own and name not in without
    }


def closure(names: Sequence[str], extras: Sequence[str] = ()) -> list[str]:
    """Packages with all that they require, as they are installed here; `extras`: of the first."""
    found: list[str] = []
    waiting = [(canonicalize_name(name), tuple(extras)) for name in names]
    while waiting:
        name, own_extras = waiting.pop()
        if name in found:
            continue
        found.append(name)
        waiting += [(each, ()) for each in requirements(name, own_extras)]
    return found


def requirements(name: str, extras: Sequence[str] = ()) -> Iterator[str]:
    """What an installed package requires on Linux, by canonical names."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name)


def versions() -> dict[str, str]:
    """Canonical name -> version, of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line.partition(";")[0].strip() for line in lines if "==" in line]
    pairs = [line.split("==") for line in pinned if not line.startswith(("#", "-"))]
    return {canonicalize_name(name.strip()): version.split()[0] for name, version in pairs}


def download(requirements: Sequence[str], python: str, folder: Path) -> list[Path]:
    """The wheels of exact versions, without what they require."""
    place = folder / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(place),
    ]
    command += ["--only-binary", ":all:", "--python-version", python, "--implementation", "cp"]
    for system in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"):
        command += ["--platform", f"{system}_x86_64"]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip download: {done.stderr.strip().splitlines()[-1]}")
    return sorted(place.glob("*.whl"))


def pack(wheels: Sequence[Path], site: Path, file: Path) -> dict[str, int]:
    """Unpack the wheels without what no import needs, and pack them together; wheel -> bytes."""
    sizes: dict[str, int] = {}
    for wheel in wheels:
        before = _size(site)
        with zipfile.ZipFile(wheel) as archive:
            kept = [name for name in archive.namelist() if _is_needed(name)]
            archive.extractall(site, kept)
        sizes[wheel.name] = _size(site) - before
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:xz", preset=6) as archive:
        for path in sorted(site.iterdir()):
            archive.add(path, path.name)
    return sizes


def _is_needed(name: str) -> bool:
    """Whether a file of a wheel is; of its metadata the name and version, which imports ask for."""
    if ".dist-info/" in name:
        return name.endswith(("METADATA", "entry_points.txt", "RECORD", "WHEEL"))
    return not STRIPPED.search(name)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
