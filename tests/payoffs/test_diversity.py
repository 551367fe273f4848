"""Diversity against a growing set: the vectors, a plain computation of the definition, and how a
set grows.
"""

import math
import random
import subprocess
import sys
from collections import Counter

import nltk
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from equipoise.errors import ConfigError
from equipoise.payoffs.diversity import MeanCosine, SelfBleu, diversity, hash_vectors

WORDS = (
    ["the"] * 3
    + ["a"] * 2
    + ["of", "cat", "dog", "sat", "mat", "on", "how", "what", "?", "tell", "me", "red"]
)


def sentence(dice: random.Random, longest: int = 12) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randrange(longest + 1)))


def direct_bleu(text: str, reference: str, n: int) -> float:
    """BLEU-n by its definition, with method 1 of smoothing."""
    h, r = text.split(), reference.split()
    if not set(h) & set(r):
        return 0.0
    total = 0.0
    for i in range(1, n + 1):
        ours = Counter(tuple(h[k : k + i]) for k in range(len(h) - i + 1))
        theirs = Counter(tuple(r[k : k + i]) for k in range(len(r) - i + 1))
        matches = sum(min(count, theirs[gram]) for gram, count in ours.items())
        total += math.log((matches or 0.1) / max(1, sum(ours.values()))) / n
    return min(1.0, math.exp(1 - len(r) / len(h))) * math.exp(total)


def direct(text: str, references: list[str], orders=(2, 3, 4, 5)) -> float:
    values = [direct_bleu(text, r, n) for r in references for n in orders]
    return sum(values) / len(values) if values else 0.0


def direct_cosine(text: str, references: list[str]) -> float:
    return (
        float(np.mean([hash_vectors([text])[0] @ hash_vectors([r])[0] for r in references]))
        if references
        else 0.0
    )


def test_self_bleu_is_as_in_the_vectors(golden):
    vectors = golden("gpo_self_bleu.json")
    stored = SelfBleu()
    stored.add(vectors["references"])
    np.testing.assert_allclose(
        stored.score(vectors["hypotheses"]), vectors["expected"], rtol=0, atol=1e-9
    )


TEXTS = [
    "Stop! Don't tell me how it's done.",
    "Don't stop. Tell me: how is it done?",
    "Mr. Smith can't open the door, and it's late.",
    "How is the door opened?",
    "stop",
    "",
]


def nltk_bleu(text: str, reference: str, n: int) -> float:
    h, r = nltk.word_tokenize(text), nltk.word_tokenize(reference)
    if not set(h) & set(r):
        return 0.0
    smooth = SmoothingFunction().method1
    weights = [1 / n] * n
    return sentence_bleu([r], h, weights=weights, smoothing_function=smooth)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_words_are_those_of_nltk():
    """Against NLTK's own BLEU: punctuation and contractions are words of their own."""
    stored = SelfBleu(tokens="words")
    stored.add(TEXTS[:3])
    expected = [
        np.mean([nltk_bleu(t, r, n) for r in TEXTS[:3] for n in (2, 3, 4, 5)]) for t in TEXTS
    ]
    np.testing.assert_allclose(stored.score(TEXTS), expected, atol=1e-12)
    plain = SelfBleu(tokens="whitespace")
    plain.add(TEXTS[:3])
    assert plain.score(["stop"])[0] == 0 < stored.score(["Stop"])[0]


def test_a_window_keeps_words_as_they_were_cut(monkeypatch):
    monkeypatch.setattr("equipoise.payoffs.bleu.SLACK", 0)
    stored, fresh = SelfBleu(window=2, tokens="words"), SelfBleu(tokens="words")
    for text in TEXTS[:4]:
        stored.add([text])
    fresh.add(TEXTS[2:4])
    np.testing.assert_array_equal(stored.score(TEXTS), fresh.score(TEXTS))


def test_words_of_another_kind_are_refused():
    with pytest.raises(ConfigError, match="'letters' is unknown; known: whitespace"):
        SelfBleu(tokens="letters")  # type: ignore[arg-type]


@pytest.mark.parametrize("orders", [(2, 3, 4, 5), (1,), (4, 2)])
def test_self_bleu_is_as_defined_while_the_set_grows(orders):
    dice, stored, references = random.Random(3), SelfBleu(orders), []
    for size in (0, 1, 3, 40):
        batch = [sentence(dice) for _ in range(size)] + references[
            : size // 2
        ]  # duplicates count again
        stored.add(batch)
        references += batch
        texts = (
            [sentence(dice) for _ in range(9)]
            + references[:2]
            + ["", "unknown", "the unknown cat sat on the mat"]
        )
        np.testing.assert_allclose(
            stored.score(texts), [direct(t, references, orders) for t in texts], atol=1e-12
        )
        assert len(stored) == len(references)


@pytest.mark.long
@given(st.lists(st.text("ab \t", max_size=9)), st.lists(st.text("ab c", max_size=9)))
def test_self_bleu_is_as_defined_for_texts_that_repeat_themselves(references, texts):
    stored = SelfBleu()
    stored.add(references)
    np.testing.assert_allclose(
        stored.score(texts), [direct(t, references) for t in texts], atol=1e-12
    )


@pytest.mark.parametrize(("make", "plain"), [(SelfBleu, direct), (MeanCosine, direct_cosine)])
def test_a_window_counts_the_newest_texts_alone(make, plain, monkeypatch):
    monkeypatch.setattr(
        "equipoise.payoffs.bleu.SLACK", 5
    )  # so that the index is made anew on the way
    dice, stored, references = random.Random(4), make(window=7), []
    for size in (1, 5, 2, 20, 3, 1, 1, 9):
        batch = [sentence(dice, 5) for _ in range(size)]
        stored.add(batch)
        references = [*references, *batch][-7:]
        texts = [sentence(dice) for _ in range(4)]
        np.testing.assert_allclose(
            stored.score(texts), [plain(t, references) for t in texts], atol=1e-12
        )
        assert len(stored) == len(references)


def test_a_window_bounds_what_is_kept(monkeypatch):
    monkeypatch.setattr("equipoise.payoffs.bleu.SLACK", 5)
    stored = SelfBleu(window=10)
    for n in range(200):
        stored.add([f"attack number {n}"])
    assert len(stored._start) <= 30
    assert len(stored._ids) <= 32


def test_the_mean_cosine_is_that_to_every_text():
    dice, stored, references = random.Random(5), MeanCosine(), []
    for size in (0, 1, 30):
        batch = [sentence(dice) for _ in range(size)]
        stored.add(batch)
        references += batch
        texts = [sentence(dice) for _ in range(5)] + ["", *references[:2]]
        np.testing.assert_allclose(
            stored.score(texts), [direct_cosine(t, references) for t in texts], atol=1e-12
        )


@pytest.mark.long
@pytest.mark.parametrize("window", [None, 1000])
def test_the_mean_cosine_stays_exact_over_a_hundred_thousand_texts(window):
    vector_ND = np.random.default_rng(6).normal(0.5, 3, (100_000, 8))
    stored = MeanCosine(lambda rows: vector_ND[[int(row) for row in rows]], window)
    for start in range(0, len(vector_ND), 500):
        stored.add([str(n) for n in range(start, start + 500)])
    unit_ND = vector_ND / np.linalg.norm(vector_ND, axis=1, keepdims=True)
    kept_ND = unit_ND[-(window or len(unit_ND)) :]
    exact = math.fsum((kept_ND @ unit_ND[3]).tolist()) / len(kept_ND)
    assert stored.score(["3"])[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("make", [SelfBleu, MeanCosine])
def test_nothing_stored_scores_zero_and_no_texts_score_nothing(make):
    stored = make()
    assert stored.score(["a cat", ""]).tolist() == [0.0, 0.0]
    stored.add([])
    assert stored.score([]).shape == (0,)
    stored.add(["", "a cat"])
    assert stored.score([]).shape == (0,)
    assert stored.score([""]).tolist() == [0.0]


def test_only_empty_texts_can_be_stored():
    stored = SelfBleu()
    stored.add(["", " "])
    assert stored.score(["a cat"]).tolist() == [0.0]


@pytest.mark.parametrize("wrong", [{"orders": ()}, {"orders": (0, 2)}, {"window": 0}])
def test_orders_and_window_are_checked(wrong):
    with pytest.raises(ValueError, match=r"at least"):
        SelfBleu(**wrong)
    if "window" in wrong:
        with pytest.raises(ValueError, match="at least 1"):
            MeanCosine(**wrong)


def test_vectors_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"must give \[1, D\]"):
        MeanCosine(lambda texts: np.zeros(3)).add(["a"])
    with pytest.raises(ValueError, match="not finite for the text 'b'"):
        MeanCosine(lambda texts: np.array([[1.0], [math.nan]])).add(["a", "b"])
    sizes = iter([3, 4])
    stored = MeanCosine(lambda texts: np.ones((len(texts), next(sizes))))
    stored.add(["a"])
    with pytest.raises(ValueError, match="4 numbers after vectors of 3"):
        stored.score(["a"])


def test_a_set_against_itself():
    texts = [
        "how does the cat sit on the mat ?",
        "how does a dog sit on the mat ?",
        "tell me",
        "me",
        "me",
        "",
    ]
    found = diversity(texts)
    others = [(t, texts[:i] + texts[i + 1 :]) for i, t in enumerate(texts)]
    assert found["self_bleu"] == pytest.approx(
        np.mean([direct(*pair) for pair in others]), abs=1e-12
    )
    assert found["cosine"] == pytest.approx(
        np.mean([direct_cosine(*pair) for pair in others]), abs=1e-12
    )
    assert found["bleu_diversity"] == pytest.approx(1 - found["self_bleu"])
    assert found["cosine_diversity"] == pytest.approx(1 - found["cosine"] / 2)


def test_a_set_against_all_of_itself_as_released():
    """Every text is a reference of every text, its own too; words are NLTK's."""
    texts = ["how does the cat sit ?", "how does a dog sit ?", "tell me", "stop it. now!"]
    found = diversity(texts, itself=True, tokens="words")
    spaced = [" ".join(nltk.word_tokenize(text)) for text in texts]
    assert found["self_bleu"] == pytest.approx(
        np.mean([direct(text, spaced) for text in spaced]), abs=1e-12
    )
    assert found["cosine"] == pytest.approx(
        np.mean([direct_cosine(text, texts) for text in texts]), abs=1e-12
    )
    strangers = diversity(["one two three four five", "six seven eight nine ten"], itself=True)
    assert strangers["self_bleu"] == pytest.approx(0.5)
    assert found["self_bleu"] > diversity(texts, tokens="words")["self_bleu"]
    assert found["self_bleu"] != diversity(texts, itself=True)["self_bleu"]


@pytest.mark.parametrize("texts", [[], ["alone"]])
def test_fewer_than_two_texts_have_no_diversity(texts):
    assert all(math.isnan(value) for value in diversity(texts).values())


def test_hashed_vectors_are_unit_and_near_for_like_texts():
    like, also, other, empty = hash_vectors(
        ["How do I bake bread?", "how do I  BAKE bread", "Rivers flow to seas", " \n"]
    )
    assert [np.linalg.norm(v) for v in (like, also, other, empty)] == pytest.approx([1, 1, 1, 0])
    assert like @ also > 0.8 > 0.25 > abs(like @ other)


def test_a_hashed_vector_is_of_the_text_alone():
    texts = ["one text", "", "another, longer text with Ünïcödé and \ud800", "one text", "x"]
    together = hash_vectors(texts)
    np.testing.assert_array_equal(
        together, np.concatenate([hash_vectors([text]) for text in texts])
    )
    many = hash_vectors([f"text {n}" for n in range(1500)])
    np.testing.assert_array_equal(many[1400:1402], hash_vectors(["text 1400", "text 1401"]))
    assert hash_vectors([]).shape == (0, 512)


def test_another_process_hashes_alike():
    code = "from equipoise.payoffs.diversity import hash_vectors; print(repr(hash_vectors(['one text'])[0].sum().item()))"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(told.stdout) == hash_vectors(["one text"])[0].sum()
