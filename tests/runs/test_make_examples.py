"""What sums up the moves that a learner is taught."""

from unittest.mock import MagicMock

import pytest

from equipoise.runs.make_examples import Lessons, make_examples, part_means, repeated_share
from equipoise.types import Episode, Judgement, Match, Move, PlayerId, Turn, View


def episode(match: str, role: str, **parts: float) -> Episode:
    return Episode(match, 0, match, 0, role, "g", sum(parts.values()), parts)


def match(name: str, text: str) -> Match:
    seats = {"1": PlayerId("policy")}
    turn = Turn("1", View(), Move(text))
    return Match(name, 0, "train", "answers", "p", seats, 0, (turn,))


def test_means_are_of_a_role_and_of_those_that_have_the_part():
    made = [
        episode("a", "attack", score=1.0, diversity=-0.5),
        episode("b", "attack", score=0.0),
        episode("c", "defence", score=0.25),
    ]
    assert part_means(made) == {
        "attack.score": 0.5,
        "attack.diversity": -0.5,
        "defence.score": 0.25,
    }


def test_a_repeated_text_is_one_that_another_move_of_the_role_has():
    texts = {"a": "open", "b": "open", "c": "take", "d": "open", "e": "no"}
    made = [episode(name, "attack", score=1.0) for name in "abcd"]
    made.append(episode("e", "defence", score=1.0))
    shares = repeated_share(made, [match(name, text) for name, text in texts.items()])
    assert shares == pytest.approx({"attack": 0.5, "defence": 0.0})


@pytest.mark.parametrize("needs", ["pairs", "episodes"])
@pytest.mark.parametrize("seats", ["own", "all"])
def test_each_learner_is_taught_by_its_own_judge_from_its_matches(needs, seats, monkeypatch):
    """Two learners with a judge each, and a third judge that teaches neither."""
    taught = {}

    def noting(lessons):
        ids = ([m.id for m in lessons.matches], [j.id for j in lessons.judgements], lessons.t)
        taught[lessons.learner.name] = ids
        return []

    for name in ("record_pairs", "record_episodes"):
        kind = name.removeprefix("record_")
        monkeypatch.setattr(Lessons, name, noting if kind == needs else None)
    teachers = {"ann": "strict", "ben": "kind"}
    run = MagicMock()
    run.config.training_matches = seats
    run.config.learner_of.return_value.needs = needs

    def judge_of(learner):
        judge = MagicMock()
        judge.name = teachers[learner]
        return judge

    run.config.judge_of = judge_of
    ann, ben = PlayerId("ann", 2), PlayerId("ben", 1)
    sitting = {"m1": (ann, ben), "m2": (ben, ben), "m3": (ann, PlayerId("ann", 1))}
    matches = [
        Match(name, 2, "train", "answers", "p", dict(zip("12", who, strict=True)), 0, ())
        for name, who in sitting.items()
    ]
    judgements = [
        Judgement(f"{judge}-{name}", name, judge, {"1": {"score": 1.0}})
        for judge in ("kind", "strict", "idle")
        for name in sitting
    ]
    for learner in (ann, ben):
        make_examples(run, matches, judgements, learner, 2)
    own = {"ann": ["m1", "m3"], "ben": ["m1", "m2"]}
    for name, teacher in teachers.items():
        played = own[name] if seats == "own" else list(sitting)
        assert taught[name] == (played, [f"{teacher}-{each}" for each in sitting], 2)
