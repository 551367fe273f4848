"""What a judge is: it says how each seat of a match did, or why it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.types import Judgement, Match, Prompt, record_id


class Judge(Component):
    """Judges matches. One judgement a match, in order; what cannot be judged has `scores=None` and a reason."""

    KINDS: ClassVar = {
        "exact": "equipoise.judges.rules:Exact",
        "math": "equipoise.judges.rules:Math",
        "refusal": "equipoise.judges.rules:Refusal",
        "shorter": "equipoise.judges.rules:Shorter",
        "call": "equipoise.judges.rules:Call",
        "gold": "equipoise.judges.rules:Gold",
        "clerk": "equipoise.judges.clerk:Clerk",
        "matrix": "equipoise.judges.matrix:MatrixPayoff",
    }

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match; `prompts` by id."""
        raise TypeError(f"{type(self).__name__} must define judge()")

    def at(self, game: Game) -> Judge:
        """This judge at the table of `game`; judges that need to know the rules take them here."""
        return self

    def judgement(self, match: Match, scores: dict[str, dict[str, float]] | None, reason: str = "") -> Judgement:
        """The record of this judge's word on `match`."""
        return Judgement(record_id("judgement", match.id, self.kind), match.id, self.kind, scores, reason)
