"""What a pair maker is: from judged matches to pairs of a better and a worse answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from equipoise.component import Component, nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
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

    def faults(self, game: Game) -> Iterator[str]:
        """What keeps it from making pairs of this game's matches, one message each."""
        if self.most(len(game.seats)) == 0:
            yield (
                f"a match of game '{game.kind}' has one answer, and a pair takes two; "
                "set game.samples to 2 or more"
            )

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
