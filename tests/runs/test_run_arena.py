"""Recorded answers of two players side by side, as the arena of a run judges them."""

from math import inf
from unittest.mock import MagicMock

import pytest

from equipoise.errors import ConfigError
from equipoise.runs import arena as arena_module
from equipoise.runs.arena import RunArena
from equipoise.types import Judgement, Move, PlayerId, Turn, View, user

FIRST, SECOND = PlayerId("ann", 3), PlayerId("ben", 1)


@pytest.fixture
def meet(monkeypatch):
    """meet(score range, scores of the first, of the second) -> the arena and its meetings."""

    def meeting(limits, first_scores, second_scores):
        scores = list(zip(first_scores, second_scores, strict=True))
        asked = {}

        def judged(run, stage, judge, context, matches, prompts, t):
            asked.update(stage=stage, matches=matches, t=t)
            by_seat = [dict(zip("12", each, strict=True)) for each in scores]
            return [
                Judgement(
                    f"j{n}",
                    match.id,
                    "judge",
                    {s: {"score": value} for s, value in own.items() if value is not None} or None,
                )
                for n, (match, own) in enumerate(zip(matches, by_seat, strict=True))
            ]

        monkeypatch.setattr(arena_module, "record_judgements", judged)
        monkeypatch.setattr(arena_module, "judge_context", lambda run, t: None)
        run = MagicMock()
        run.config.seed, run.config.utility = 7, "score"
        run.prompts.held_out = []
        arena = RunArena(run)

        def answers(player, samples):
            return {
                f"p{n}": [Turn("9", View((user(f"q{n}"),)), Move(f"{player} {n}"))]
                for n in range(len(scores))
            }

        monkeypatch.setattr(arena, "answers", answers)
        judge = MagicMock(kind="judge", score_range=limits)
        judge.name = "judge"
        return asked, arena.meetings(FIRST, SECOND, 1, judge)

    return meeting


def test_scores_without_a_scale_count_by_their_order_seen_from_the_first(meet):
    asked, met = meet((-inf, inf), [7.0, 5.0, 2.0, None], [5.0, 5.0, 900.0, 1.0])
    assert [each.value for each in met] == [1.0, 0.0, -1.0, None]
    assert {(each.first, each.second) for each in met} == {("ann@3", "ben@1")}
    assert asked["t"] == 3, "as old as the older of the two"
    for n, match in enumerate(asked["matches"]):
        assert match.seats == {"1": FIRST, "2": SECOND}
        assert match.prompt == f"p{n}"
        assert [turn.seat for turn in match.turns] == ["1", "2"]
        assert [turn.move.text for turn in match.turns] == [f"ann@3 {n}", f"ben@1 {n}"]


def test_chances_to_win_are_those_of_the_first(meet):
    _, met = meet((0.0, 1.0), [1.0, 0.75, 0.0, None], [0.0, 0.25, 1.0, None])
    assert [each.value for each in met] == [1.0, 0.5, -1.0, None]


def test_a_chance_beyond_one_is_refused(meet):
    with pytest.raises(ConfigError, match=r"a score is the chance to win, in \[0, 1\]; it gave 7"):
        meet((0.0, 1.0), [7.0], [0.0])
