"""Rows of token ids are read by a judging model in batches of like length, equal ones
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from equipoise.errors import ModelError

T = TypeVar("T")


def read_once(
    rows: Sequence[Sequence[int]],
    batch_size: int,
    read: Callable[[list[tuple[int, ...]]], Sequence[T]],
    who: str,
    remedy: str,
) -> list[T]:
    """What `read` makes of each row, in order; rows of like length are read together,
    `batch_size` at a time.

    Equal rows are read once, so what is made of them is equal to the last digit. Raises
    ModelError when memory does not suffice for `who`; `remedy` says what to lower.
    """
    longest_first = sorted(dict.fromkeys(map(tuple, rows)), key=len, reverse=True)
    known: dict[tuple[int, ...], T] = {}
    for start in range(0, len(longest_first), batch_size):
        batch = longest_first[start : start + batch_size]
        try:
            known.update(zip(batch, read(batch), strict=True))
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"{who} ran out of memory on {len(batch)} texts of up to {len(batch[0])} tokens; lower {remedy} "
                f"({str(error).splitlines()[0]})"
            ) from error
    return [known[tuple(row)] for row in rows]
