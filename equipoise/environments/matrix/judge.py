"""The judge of finite games: the rules themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Prompt


class MatrixPayoff(Judge):
    """Scores each seat what the rules pay; unjudged where a move failed or is illegal."""

    kind: Literal["matrix"] = "matrix"
    known_utilities: ClassVar = ("score",)

    def prepare(self) -> None:
        game = self.judge_context.game
        if game.payoff_AM() is None:
            raise ConfigError(f"judge: 'matrix' judges finite games; '{game.kind}' is none")

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        return [self._judgement(match) for match in matches]

    def _judgement(self, match: Match) -> Judgement:
        game = self.judge_context.game
        for turn in match.turns:
            if turn.move.finish == "error":
                return self.judgement(match, None, f"{turn.seat} did not move: {turn.move.error}")
        moves = {turn.seat: turn.move.text for turn in match.turns}
        try:
            payoffs = game.outcome(moves)
        except ValueError as error:
            return self.judgement(match, None, str(error))
        scores = {seat: {"score": payoff} for seat, payoff in payoffs.items()}
        return self.judgement(match, scores)
