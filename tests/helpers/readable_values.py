"""Values as text that a reader can follow, for the files of tests/records."""

import json
import math
from dataclasses import asdict, is_dataclass

import numpy as np

MANY = 30  # items of a list are shown
UNLIKE = ("seconds", "path", "took", "memory", "host", "version")  # parts of names that differ


def plain(value):
    """The value as JSON may hold it: six digits of a number, nothing that machines differ in."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {"": type(value).__name__, **asdict(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        kept = {str(key): plain(item) for key, item in value.items()}
        return {k: v for k, v in kept.items() if not any(part in k for part in UNLIKE)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if abs(value) < 1e-9:
            return 0.0
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value if isinstance(value, int | str | None) else str(value)


def shown(value):
    """The value to read: lists of numbers and texts in a line."""
    return "\n".join(_lines(plain(value), ""))


def _lines(value, indent):
    if isinstance(value, list) and len(value) > MANY:
        value = [*value[:MANY], f"… {len(value)}"]
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict | list) and len(text) > 90:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = [*_lines(item, indent + " ")]
            mark = f"{key}:" if isinstance(value, dict) else "-"
            if len(inner) == 1:
                yield f"{indent}{mark} {inner[0].strip()}"
            else:
                yield f"{indent}{mark}"
                yield from inner
    elif isinstance(value, dict | list):
        yield f"{indent}{text}"
    else:
        yield from (f"{indent}{line}" for line in str(value).split("\n"))
