import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.utilities import VARIANTS, reward
from equipoise.payoffs.bleu import SelfBleu, bleu, text_bleu

WORDS = st.lists(st.sampled_from(["a", "b", "c", "the", "dog"]), max_size=12).map(" ".join)


def test_a_worked_example():
    # 4 words of 5 match, 2 pairs of 4, no triple of 3 nor quadruple of 2; the hypothesis is one
    # word shorter
    log = (math.log(4 / 5) + math.log(2 / 4) + math.log(0.1 / 3) + math.log(0.1 / 2)) / 4
    assert text_bleu("the cat sat the mat", "the cat lay on the mat") == pytest.approx(
        math.exp(1 - 6 / 5 + log)
    )


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_the_same_text_is_1_and_nothing_shared_is_0(unit):
    assert text_bleu("one two three four", "one two three four", unit) == pytest.approx(1)
    assert text_bleu("abcde", "xyz", unit) == 0
    assert text_bleu("", "xyz", unit) == text_bleu("xyz", "", unit) == 0


@pytest.mark.long
@given(WORDS, WORDS)
def test_over_words_it_is_what_repetition_is_measured_by(text, other):
    known = SelfBleu(orders=(4,))
    known.add([other])
    assert text_bleu(text, other) == pytest.approx(known.score([text])[0], abs=1e-12)


def test_over_characters_it_is_what_the_released_reward_paid(golden):
    cases = [case for case in golden("gtalign_reward.json") if case["task"] == "medium"]
    for case in cases:
        parsed = parse(case["completion"])
        quality = text_bleu(parsed.response, case["ground_truth"], "characters")
        paid = reward(parsed, quality, 0.0, "as_released", terms=VARIANTS["as_released"])
        assert paid.user == pytest.approx(case["expected"]["user_reward"], abs=1e-9)
    assert len(cases) >= 6


def test_characters_flatter_what_shares_no_phrase():
    text, ideal = (
        "Buy low and sell high every day",
        "There is this expectation in the market for next year",
    )
    assert text_bleu(text, ideal) == 0
    assert text_bleu(text, ideal + " and", "characters") > 1e-80


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        bleu(["a"], ["a"], order=0)
    with pytest.raises(ValueError, match="above 0"):
        bleu(["a"], ["a"], unmatched=0)


@pytest.mark.filterwarnings("ignore:\\nThe hypothesis")
@pytest.mark.parametrize("text", ["", "a", "xyz", "the", "the cat sat", "tac eht", "the cat " * 9])
def test_over_characters_it_is_nltks_without_smoothing_however_small(text):
    """Where an n-gram is not shared both are below 1e-70, yet in the same order."""
    translate = pytest.importorskip("nltk.translate.bleu_score")
    ideal = "the cat sat on the mat"
    expected = translate.sentence_bleu([ideal], text)
    assert text_bleu(text, ideal, "characters") == pytest.approx(expected, rel=1e-12, abs=0)
