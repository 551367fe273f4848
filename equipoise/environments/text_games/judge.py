"""The judge of games of many turns: the library's own rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from equipoise.environments.text_games.game import Result, TextGame
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Prompt


class GameOutcome(Judge):
    """Scores each seat what the game pays it, by playing the match again.

    Utilities of a seat: `score`, `win` (1 for the best-paid, shared among equals) and `illegal`,
    its illegal answers. A match with a failed move, or that found no end, is unjudged.
    """

    kind: Literal["game_outcome"] = "game_outcome"
    known_utilities: ClassVar = ("score", "win", "illegal")

    def prepare(self) -> None:
        game = self.judge_context.game
        if not isinstance(game, TextGame):
            raise ConfigError(
                "judge: 'game_outcome' judges the games open_spiel and textarena; "
                f"this is {game.kind}"
            )

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        game = self.judge_context.game
        assert isinstance(game, TextGame)
        judgements = []
        for match in matches:
            result = game.replay(match, prompts[match.prompt])
            judgements.append(self.judgement(match, _scores(result), result.reason))
        return judgements


def _scores(result: Result) -> dict[str, dict[str, float]] | None:
    if result.returns is None:
        return None
    best = max(result.returns.values())
    winners = [seat for seat, value in result.returns.items() if value == best]
    return {
        seat: {
            "score": float(value),
            "win": float(seat in winners) / len(winners),
            "illegal": float(result.illegal.get(seat, 0)),
        }
        for seat, value in result.returns.items()
    }
