"""The device of tensors, its memory, and the machine's; nothing else chooses it.

Where the accelerator has TF32 (10 bits after the point), all who play, judge and learn multiply
float32 in it, so that what plays is what was trained. NVIDIA_TF32_OVERRIDE=0 switches it off.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError, ModelError, first_line
from equipoise.system.effects import Text
from equipoise.system.files import read_json, user_cache
from equipoise.system.folder import make_folder, write_text
from equipoise.system.yaml_text import parse_yaml

DeviceName = Annotated[
    Text, Field(description="auto (an accelerator if there is one), cpu, cuda, cuda:1 …")
]
FASTER = 1.5  # times, in products of 512 x 1024 and 1024 x 1024 numbers
CONTAINER = Path("/sys/fs/cgroup/memory.max")


def choose_device(name: str = "auto") -> Any:
    """The torch device of a name; "auto": an accelerator, else the CPU. Raises ModelError."""
    import torch
    from transformers.utils.import_utils import enable_tf32

    if has_tf32():
        enable_tf32(True)
    if name == "auto":
        return accelerator() or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"device '{name}' is not known: {first_line(error)}") from error
    working = accelerator()
    available = ("cpu", "meta", None if working is None else working.type)
    if device.type not in available:
        raise ModelError(f"device '{name}' is asked for, but {explain_device()}; use cpu or auto")
    return device


def explain_device() -> str:
    """The choice of "auto" on this machine and the reason, in one line."""
    import torch

    working = accelerator()
    if working is not None:
        count = torch.accelerator.device_count()
        model = torch.cuda.get_device_name() if working.type == "cuda" else working.type
        products = "TF32 (NVIDIA_TF32_OVERRIDE=0: in full)" if has_tf32() else "full"
        return (
            f"{working.type} is used: torch {torch.__version__} finds {count} × {model}, which "
            f"multiplies float32 in {products}"
        )
    count = torch.get_num_threads()
    threads = f"the CPU is used, with {count} thread{'s' if count > 1 else ''}"
    built_for = torch.accelerator.current_accelerator()
    if built_for is None:
        return f"{threads}: torch {torch.__version__} is built for CPUs alone"
    kind = built_for.type
    missing = "NVIDIA driver" if kind == "cuda" else f"working {kind} device"
    return f"{threads}: torch {torch.__version__} is built for {kind} and finds no {missing}"


@cache
def bfloat16_is_faster() -> bool:
    """True if the CPU multiplies matrices in bfloat16 much faster than in float32.

    Tried once for a machine, its threads and torch, and kept in the user's cache, so that a run
    that is resumed computes as it did.
    """
    import torch

    file = user_cache() / "products.json"
    key = f"{platform.node()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    tried: dict[str, float] = read_json(file) if file.is_file() else {}
    if key not in tried:
        seconds = dict.fromkeys((torch.float32, torch.bfloat16), math.inf)
        for dtype in [*seconds] * 8:  # in turns, since others compute here, too
            a = torch.ones(512, 1024, dtype=dtype)
            b = torch.ones(1024, 1024, dtype=dtype)
            began = time.perf_counter()
            torch.matmul(a, b)
            seconds[dtype] = min(seconds[dtype], time.perf_counter() - began)
        tried[key] = round(seconds[torch.float32] / seconds[torch.bfloat16], 2)
        make_folder(file.parent)
        write_text(file, json.dumps(tried, indent=1))
    return tried[key] >= FASTER


def return_unused_memory() -> None:
    """Give the accelerator back what freed tensors took, so that other processes may have it."""
    if "torch" not in sys.modules:
        return
    import torch

    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


def has_tf32() -> bool:
    """True if this machine's accelerator computes products of float32 in TF32."""
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" or accelerator() is None:
        return False
    from transformers.utils.import_utils import is_torch_tf32_available

    return is_torch_tf32_available()


def accelerator() -> Any:
    import torch

    if not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_accelerator()


def machine_memory(device: Any) -> float:
    """Bytes of a torch device; on a CPU the machine's, or its container's if they are fewer."""
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
    for module in ("equipoise.learners.answer_trainer", "peft"):
        import_module(module)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    import resource

    # bytes on macOS
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def accelerator_count() -> int:
    """The number of accelerators that this process may use; 0: it computes on the CPU."""
    import torch

    return 0 if accelerator() is None else torch.accelerator.device_count()


# -- accelerators that are not here


@dataclass(frozen=True, slots=True)
class Hardware:
    """Equal accelerators, for plans: of each the bytes of memory, the operations a second with
    dense bfloat16, and the bytes a second from its memory and to a neighbour (one way).
    """

    kind: str
    count: int
    memory: float
    speed: float
    bandwidth: float
    link: float

    @property
    def name(self) -> str:
        """Its name to read: `8 × H100-80GB`."""
        return f"{self.count} × {self.kind}"

    @classmethod
    def read(cls, text: str) -> Hardware:
        """The accelerators of `8xH100-80GB`, or of `GPUS,MEMORY,TFLOPS,BANDWIDTH` (GB, dense
        bfloat16, GB/s). Raises ConfigError.
        """
        if "," in text:
            return cls._of_numbers(text)
        match = re.fullmatch(r"(?:(\d+)\s*[x×*]\s*)?(\S+)", text.strip(), re.IGNORECASE)
        known = accelerators()
        count, wanted = (int(match[1] or 1), match[2].lower()) if match else (1, text)
        kinds = [kind for kind in known if kind.lower() == wanted]
        kinds = kinds or [kind for kind in known if kind.lower().startswith(f"{wanted}-")]
        if count < 1 or len(kinds) != 1:
            several = f"'{text}' may be {' or '.join(kinds)}" if count and kinds else ""
            hint = several or nearest(wanted.upper(), list(known))
            hint = hint if count else "there must be one or more"
            raise ConfigError(
                f"--on {text}: {hint}; write COUNTxNAME, as 8xH100-80GB, or "
                "GPUS,MEMORY,TFLOPS,BANDWIDTH, as 8,80,989,3350 (GB, dense bfloat16, GB/s)"
            )
        memory, tflops, bandwidth, link = known[kinds[0]]
        return cls(kinds[0], count, memory * 1e9, tflops * 1e12, bandwidth * 1e9, link * 1e9)

    @classmethod
    def _of_numbers(cls, text: str) -> Hardware:
        try:
            count, memory, tflops, bandwidth, *rest = map(float, text.split(","))
            if rest or count % 1 or not min(count, memory, tflops, bandwidth) > 0:
                raise ValueError
        except ValueError:
            raise ConfigError(
                f"--on {text}: needs four positive numbers GPUS,MEMORY,TFLOPS,BANDWIDTH (GB, "
                "dense bfloat16, GB/s), as 8,80,989,3350"
            ) from None
        kind = f"GPU of {memory:g} GB"
        return cls(kind, int(count), memory * 1e9, tflops * 1e12, bandwidth * 1e9, PCIE)


PCIE = 32e9  # bytes a second between two accelerators of which nothing else is known


@cache
def accelerators() -> dict[str, tuple[float, float, float, float]]:
    """Name -> memory, TFLOPS, bandwidth, link, as the table has them."""
    table = files("equipoise.models") / "accelerators.yaml"
    rows = parse_yaml(table.read_text(encoding="utf-8"), "accelerators.yaml")
    return {name: tuple(values) for name, values in rows.items()}
