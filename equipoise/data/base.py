"""What a pair maker is: from judged matches to pairs of a better and a worse answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from equipoise.component import Component
from equipoise.types import Judgement, Match, Pair, Prompt


class PairMaker(Component):
    """Decides which answers of a match are set against each other."""

    KINDS: ClassVar = {
        "best_worst": "equipoise.data.pairs:BestWorst",
        "all_pairs": "equipoise.data.pairs:AllPairs",
        "margin": "equipoise.data.pairs:Margin",
    }

    def make(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        prompts: Mapping[str, Prompt],
        utility: str = "score",
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs, how many matches gave none and why); `prompts` by id, for makers that use what a row carries."""
        raise TypeError(f"{type(self).__name__} must define make()")
