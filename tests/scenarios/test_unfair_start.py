"""Ratings that players start with already rule the first generation's matching."""

import pytest

from equipoise.errors import ConfigError
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import play

SCORES = "{sums: 60, asker: 10, guard: 50, helper: 20, veteran: 40, novice: 30}"
NEAREST = {
    "sums": {"guard"},
    "guard": {"sums", "veteran"},
    "veteran": {"guard", "novice"},
    "novice": {"veteran", "helper"},
    "helper": {"novice", "asker"},
    "asker": {"helper"},
}


def unfair(scores: str = SCORES) -> list[str]:
    return [
        f"training_ratings={{kind: reputation, initial: {scores}}}",
        "schedule={kind: sparta, alpha: 0, k: 1}",
        "prompts.count=60",
        "prompts.per_generation=24",
        "prompts.held_out=4",
        "prompts.test=0",
        "player_defaults.max_new_tokens=2",
        "generations=1",
    ]


@pytest.mark.long
def test_the_first_generation_meets_its_nearest(tmp_path):
    config = recipe_loader.load("sparta_clerks", unfair())
    with new_run(config, tmp_path / "run") as run:
        opened = OpenRun(run)
        matches = play(opened, opened.prompts.train(0), 0)
        seated = [match.seats for match in matches]
    firsts = set()
    for seats in seated:
        first, second = (seats[seat].name for seat in ("1", "2"))
        assert second in NEAREST[first]
        firsts.add(first)
    assert firsts == set(NEAREST)


@pytest.mark.long
def test_a_player_without_a_task_score_is_refused_before_anything_is_played():
    with pytest.raises(
        ConfigError, match="has no task score of guard, helper, veteran, novice; add"
    ):
        recipe_loader.load("sparta_clerks", unfair("{sums: 60, asker: 10}"))
