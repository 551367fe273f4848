"""How much memory this machine has, and how much of it the program itself takes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

CONTAINER = Path("/sys/fs/cgroup/memory.max")
TRAINING = ("equipoise.learners.answer_trainer", "peft")


def machine_memory(device: Any) -> float:
    """Bytes that a torch device has in all; on a CPU those of the machine, or of the container
    around this process if they are fewer.
    """
    if device.type == "cuda":
        import torch

        return float(torch.cuda.mem_get_info(device)[1])
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if CONTAINER.is_file():
        limit = CONTAINER.read_text().strip()
        if limit.isdigit():
            total = min(total, int(limit))
    return float(total)


def program_memory() -> float:
    """Bytes of this process with all that sampling and training import."""
    for module in TRAINING:
        import_module(module)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    import resource

    # bytes on macOS
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
