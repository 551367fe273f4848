"""The device of tensors: the only place that chooses it, with the reason."""

from __future__ import annotations

from typing import Any

from equipoise.errors import ModelError, first_line


def choose_device(name: str = "auto") -> Any:
    """The torch device for "auto" (an accelerator that works here, else the CPU), or
    for a device's name.

    Raises ModelError for a name that torch does not know, or an accelerator that is not
    there.
    """
    import torch

    if name == "auto":
        return _accelerator() or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(
            f"device '{name}' is not known: {first_line(error)}"
        ) from error
    working = _accelerator()
    available = ("cpu", "meta", None if working is None else working.type)
    if device.type not in available:
        raise ModelError(
            f"device '{name}' is asked for, but {explain_device()}; use cpu or auto"
        )
    return device


def explain_device() -> str:
    """What "auto" chooses on this machine and why, in one line."""
    import torch

    working = _accelerator()
    if working is not None:
        count = torch.accelerator.device_count()
        return (
            f"{working.type} is used: torch {torch.__version__} finds "
            f"{count} × {_model_name(working)}"
        )
    count = torch.get_num_threads()
    threads = f"the CPU is used, with {count} thread{'s' if count > 1 else ''}"
    built_for = torch.accelerator.current_accelerator()
    if built_for is None:
        return f"{threads}: torch {torch.__version__} is built for CPUs alone"
    kind = built_for.type
    missing = "NVIDIA driver" if kind == "cuda" else f"working {kind} device"
    return f"{threads}: torch {torch.__version__} is built for {kind} and finds no {missing}"


def _accelerator() -> Any:
    """The accelerator that torch was built for, where it also works; a build without a
    driver has none.
    """
    import torch

    if not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_accelerator()


def _model_name(device: Any) -> str:
    import torch

    return torch.cuda.get_device_name() if device.type == "cuda" else device.type
