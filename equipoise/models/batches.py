"""Rows of token ids, read by a judging model in batches of like length, equal rows once."""

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
    model_name: str,
    remedy: str,
) -> list[T]:
    """`read` of each row, in order; rows of like length are read together, `batch_size` at a time.

    Equal rows are read once, so their results are equal to the last digit. Raises ModelError when
    the memory does not suffice; its message names `model_name`, and `remedy` as the settings to
    lower.
    """
    longest_first = sorted(dict.fromkeys(map(tuple, rows)), key=len, reverse=True)
    results: dict[tuple[int, ...], T] = {}
    for start in range(0, len(longest_first), batch_size):
        batch = longest_first[start : start + batch_size]
        try:
            results.update(zip(batch, read(batch), strict=True))
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"{model_name} ran out of memory on {len(batch)} texts of up to "
                f"{len(batch[0])} tokens; lower {remedy} ({str(error).splitlines()[0]})"
            ) from error
    return [results[tuple(row)] for row in rows]
