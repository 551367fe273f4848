"""Opponents' log-probabilities: once per (player, text), from the ledger after that, and only
between equal readers.
"""

import numpy as np
import pytest

from equipoise.data import opponent_logprobs as logprobs
from equipoise.data.opponent_logprobs import opponent_logprobs
from equipoise.errors import ConfigError
from equipoise.ledger.ledger import Ledger
from equipoise.types import Pair, PlayerId, user

LEARNER, OLD = PlayerId("policy", 2), PlayerId("policy", 1)


class Scorer:
    """Finds a text as likely as it is short; `bias` tells players apart; every call is counted."""

    def __init__(self, bias: float, encoding: str = "same") -> None:
        self.bias, self.encoding, self.asked, self.whole = bias, encoding, [], []

    def act(self, views, seeds):
        raise AssertionError("nobody is asked to move here")

    def close(self):
        pass

    def logprobs(self, chats, texts, *, whole=False, cut=()):
        self.asked += texts
        self.whole.append(whole)
        ends = [0.0 if was_cut else 0.25 for was_cut in cut or [False] * len(texts)]
        scored = zip(texts, ends, strict=True)
        return [(-len(text) - self.bias - end, len(text)) for text, end in scored]


def pairs(*texts: str) -> list[Pair]:
    return [
        Pair(f"p{i}", 0, f"q{i}", (user(f"q{i}"),), text, text + "!", 1.0, 0.0)
        for i, text in enumerate(texts)
    ]


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def test_each_opponent_scores_each_text_once(ledger, monkeypatch):
    monkeypatch.setattr(logprobs, "CHUNK", 3)
    actors = {LEARNER: Scorer(0.0), OLD: Scorer(0.5)}
    steps: list[int] = []
    chosen, rejected = opponent_logprobs(
        ledger, actors.__getitem__, LEARNER, [LEARNER, OLD], pairs("a", "bb", "ccc"), steps.append
    )
    assert np.array_equal(chosen, [[-1.25, -2.25, -3.25], [-1.75, -2.75, -3.75]])
    assert np.array_equal(rejected, chosen - 1)
    assert sum(steps) == 12
    assert sorted(actors[OLD].asked) == sorted(["a", "a!", "bb", "bb!", "ccc", "ccc!"])
    again, _ = opponent_logprobs(
        ledger, actors.__getitem__, LEARNER, [OLD], pairs("a", "bb", "dddd")
    )
    assert np.array_equal(again, [[-1.75, -2.75, -4.75]])
    assert actors[OLD].asked[6:] == ["dddd", "dddd!"]


def test_an_answer_that_was_cut_has_no_end_and_is_another(ledger):
    """One text to one question: cut, then not, on either side of a pair."""
    actors = {LEARNER: Scorer(0.0)}
    cut = [
        Pair("1", 0, "q", (user("q"),), "yes", "no", 1.0, 0.0, chosen_cut=True),
        Pair("2", 0, "q", (user("q"),), "yes", "no", 1.0, 0.0, rejected_cut=True),
        Pair("3", 0, "q", (user("q"),), "yes", "no", 1.0, 0.0),
    ]
    for _ in range(2):  # scored, and read again
        chosen, rejected = opponent_logprobs(ledger, actors.__getitem__, LEARNER, [LEARNER], cut)
        assert np.array_equal(chosen, [[-3, -3.25, -3.25]])
        assert np.array_equal(rejected, [[-2.25, -2, -2.25]])
    assert len(actors[LEARNER].asked) == 4


def test_the_same_answer_to_another_question_is_another_text(ledger):
    actors = {LEARNER: Scorer(0.0)}
    opponent_logprobs(ledger, actors.__getitem__, LEARNER, [LEARNER], pairs("yes", "yes"))
    assert len(actors[LEARNER].asked) == 4


def test_generations_that_read_differently_are_not_compared(ledger):
    actors = {LEARNER: Scorer(0.0), OLD: Scorer(0.0, encoding="other")}
    with pytest.raises(ConfigError, match="reads text differently"):
        opponent_logprobs(ledger, actors.__getitem__, LEARNER, [OLD], pairs("a"))


def test_another_player_may_read_in_its_own_way_but_whole(ledger):
    stranger = PlayerId("stranger")
    actors = {LEARNER: Scorer(0.0), OLD: Scorer(0.0), stranger: Scorer(1.0, encoding="other")}
    chosen, _ = opponent_logprobs(ledger, actors.__getitem__, LEARNER, [OLD, stranger], pairs("a"))
    assert np.array_equal(chosen, [[-1.25], [-2.25]])
    assert (actors[OLD].whole, actors[stranger].whole) == ([False], [True])


def test_a_player_without_log_probabilities_is_refused(ledger):
    class Silent:
        def act(self, views, seeds):
            return []

        def close(self):
            pass

    actors = {LEARNER: Scorer(0.0), OLD: Silent()}
    with pytest.raises(ConfigError, match="has no log-probabilities"):
        opponent_logprobs(ledger, actors.__getitem__, LEARNER, [OLD], pairs("a"))
