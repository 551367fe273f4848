"""The judge of finite games: the rules themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Prompt


class MatrixPayoff(Judge):
    """Scores each seat what the game's rules pay it. A match with a failed or illegal
    move is unjudged.
    """

    kind: Literal["matrix"] = "matrix"

    def prepare(self) -> None:
        """Raises ConfigError for a game that is not finite."""
        game = self.judge_context.game
        if game.payoff_AM() is None:
            raise ConfigError(
                f"judge: 'matrix' judges finite games; '{game.kind}' is none"
            )

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match: seat -> {"score": its pay-off}."""
        return [self._one(self.judge_context.game, match) for match in matches]

    def _one(self, game: Game, match: Match) -> Judgement:
        for turn in match.turns:
            if turn.move.finish == "error":
                return self.judgement(
                    match, None, f"{turn.seat} did not move: {turn.move.error}"
                )
        try:
            payoffs = game.outcome({turn.seat: turn.move.text for turn in match.turns})
        except ValueError as error:
            return self.judgement(match, None, str(error))
        return self.judgement(
            match, {seat: {"score": payoff} for seat, payoff in payoffs.items()}
        )
