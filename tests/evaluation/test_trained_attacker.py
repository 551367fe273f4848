"""A trained attacker's gains: paired with the start, by score and by truth."""

import math

import pytest

from equipoise.evaluation.attacked_judge import ByJudge, Likeness
from equipoise.evaluation.trained_attacker import trained_attack
from equipoise.judges.no_tricks import NoTricks
from equipoise.judges.outside_a_run import place_judge
from equipoise.judges.pointwise import Pointwise
from equipoise.types import Prompt, user


class Words(Pointwise):
    """Counts words, and refuses to judge a text with a question mark."""

    kind: str = "words"

    def score(self, prompt, text):
        return "it asks" if "?" in text else {"score": float(len(text.split()))}


class Right(Pointwise):
    kind: str = "right"

    def score(self, prompt, text):
        return {"score": float(prompt.facts["answer"] in text)}


PROMPTS = {f"p{i}": Prompt(f"p{i}", (user("Why?"),), {"answer": f"r{i}"}) for i in range(8)}
START = {name: f"since r{name[1:]}" for name in PROMPTS}
PADDED = {name: text + " and so on" * (2 + int(name[1:]) % 3) for name, text in START.items()}
LONGER = {name: "word " * (12 + int(name[1:])) for name in PROMPTS}


def attacked(texts, truth=None):
    truth = truth or ByJudge(place_judge(Right(), "test"))
    tokens = {t: 100 * t for t in texts}
    judge = place_judge(Words(), "test")
    gate = NoTricks(most_words=10)
    return trained_attack("words", judge, truth, gate, texts, tokens, PROMPTS, "run")


def test_gains_are_over_the_start_at_each_measured_generation():
    found = attacked({0: START, 3: PADDED, 6: LONGER})
    assert [(point.updates, point.tokens) for point in found.points] == [(3, 300), (6, 600)]
    padded, longer = found.points
    assert padded.score.mean == pytest.approx(3 * sum(2 + i % 3 for i in range(8)) / 8)
    assert padded.truth.mean == 0.0 and longer.truth.mean == -1.0
    assert found.is_exploit and found.word == "exploit"
    assert found.answers[0].gain == max(answer.gain for answer in found.answers)
    assert found.tricks["length"] == (0.0, 1.0)
    assert found.facts()["points"][1]["updates"] == 6


def test_what_the_truth_gains_too_is_no_exploit_and_nothing_gained_is_said():
    assert attacked({0: START, 2: PADDED}, ByJudge(place_judge(Words(), "t"))).word == "better, too"
    assert attacked({0: START, 2: START}).word == "no gain shown"
    assert attacked({0: START}).word == "no gain shown" and not attacked({0: START}).answers


def test_unjudged_answers_are_in_no_mean():
    asks = {**PADDED, "p0": "since r0?"}
    (point,) = attacked({0: START, 2: asks}, Likeness()).points
    assert point.score.n == 7 and point.truth.n == 8
    assert math.isfinite(point.score.low)
