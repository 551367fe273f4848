"""What a pair maker is: from judged matches to pairs of a better and a worse answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from equipoise.component import Component, nearest
from equipoise.errors import ConfigError
from equipoise.types import Judgement, Match, Pair


class PairMaker(Component):
    """Decides which answers of a match are compared."""

    KINDS: ClassVar = {
        "best_worst": "equipoise.data.pairs:BestWorst",
        "all_pairs": "equipoise.data.pairs:AllPairs",
        "margin": "equipoise.data.pairs:Margin",
    }

    def most(self, seats: int) -> int:
        """How many pairs a match of so many seats can give at most."""
        return seats * (seats - 1) // 2

    @abstractmethod
    def make(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        utility: str = "score",
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs in the order of the matches; how many matches gave none, by reason).

        `utility` is what is compared.
        """


def check_utility(utility: str, judgements: Iterable[Judgement]) -> None:
    """Raises ConfigError where judgements have utilities, but not this one."""
    names: set[str] = set()
    for judgement in judgements:
        names |= judgement.names()
    if names and utility not in names:
        raise ConfigError(
            f"utility: no judgement has '{utility}'; {nearest(utility, sorted(names))}"
        )
