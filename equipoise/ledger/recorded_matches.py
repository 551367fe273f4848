"""Recorded matches as a sequence that holds their ids, and reads a part of them at a time."""

from collections.abc import Iterator, Sequence
from typing import overload

from equipoise.ledger.ledger import Ledger
from equipoise.types import Match

AT_ONCE = 256
"""Matches that are read together."""


class RecordedMatches(Sequence[Match]):
    """Matches of a ledger in the order of their ids; of a million, the ids alone are in memory."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ledger: Ledger, ids: Sequence[str]) -> None:
        self._ledger = ledger
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | list[Match]:
        if isinstance(index, int):
            return self._read([self._ids[index]])[0]
        return self._read(self._ids[index])

    def __iter__(self) -> Iterator[Match]:
        for start in range(0, len(self._ids), AT_ONCE):
            yield from self._read(self._ids[start : start + AT_ONCE])

    def __eq__(self, other: object) -> bool:
        """The same matches in the same order, whether they are recorded or in a list."""
        return isinstance(other, Sequence) and list(self) == list(other)

    def _read(self, ids: Sequence[str]) -> list[Match]:
        recorded = self._ledger.matches_of(ids)
        return [recorded[match] for match in ids]
