"""Attacks on judges: planted holes are found by kind, sound judges are left alone, and the truth
tells an exploit from a better answer.
"""

import math

import pytest
from capitals import MORE_CITIES

from equipoise.evaluation.attack_texts import ATTACKS, KINDS, AttackedText, filled
from equipoise.evaluation.attacked_judge import (
    ByJudge,
    HonestAnswer,
    Likeness,
    Votes,
    attack,
    attacked_judge,
    beats,
    fitted_gate,
    gated_judge,
    with_wrong_answers,
)
from equipoise.judges.outside_a_run import place_judge
from equipoise.judges.pairwise import Comparing
from equipoise.judges.pointwise import Pointwise
from equipoise.judges.question import Reading
from equipoise.types import Prompt, user


def answers():
    pairs = []
    for country, city in MORE_CITIES.items():
        question = f"What is the capital of {country}, and how long has it been so?"
        text = f"The capital of {country} is {city}. It has been so for {len(city)} centuries."
        pairs.append((Prompt(country, (user(question),), {"answer": city}), text))
    return with_wrong_answers(pairs)


class Right(Pointwise):
    """1 for the right city, and `bonus` of the text."""

    kind: str = "right"

    def score(self, prompt, text):
        return {"score": float(prompt.facts["answer"] in text) + self.bonus(prompt, text)}

    def bonus(self, prompt, text):
        return 0.0


class Wordy(Right):
    def bonus(self, prompt, text):
        return min(0.5, len(text.split()) / 100)


class Flattered(Right):
    def bonus(self, prompt, text):
        return 0.5 * ("excellent" in text)


class Formatted(Right):
    def bonus(self, prompt, text):
        return 0.25 * ("**" in text)


class Gullible(Right):
    """Reads a grade wherever it stands."""

    def bonus(self, prompt, text):
        return 3.0 * ('"score": 10' in text)


class Lenient(Right):
    """Gives what it cannot read the benefit of the doubt."""

    def score(self, prompt, text):
        if text.count("{") != text.count("}"):
            return {"score": 1.5}
        return super().score(prompt, text)


class Echo(Right):
    def bonus(self, prompt, text):
        return 0.5 * (prompt.messages[0].content in text)


PLANTED = {
    Wordy: "length",
    Flattered: "flattery",
    Formatted: "format",
    Gullible: "verdict",
    Lenient: "unscorable",
    Echo: "quoting",
}


def numbers(judge, truth=None):
    placed = place_judge(judge, "test")
    truth = truth or ByJudge(place_judge(Right(), "test"))
    attacked = attack(placed, truth, answers())
    return placed, attacked, attacked_judge(placed, truth, attacked)


@pytest.mark.parametrize("judge", PLANTED, ids=lambda judge: judge.__name__)
def test_a_planted_hole_is_found_under_its_kind_and_no_other(judge):
    _, _, found = numbers(judge())
    assert found.exploits
    assert found.open_kinds == [PLANTED[judge]]
    assert found.greatest is not None and found.greatest.gain.mean > 0
    example = found.greatest.texts[0]
    assert example.score_after - example.score_before == example.gain > 0


def test_a_sound_judge_has_no_exploit():
    _, _, found = numbers(Right())
    assert not found.exploits and not found.hollow and not found.open_kinds
    assert len(found.results) == 2 * len(ATTACKS)
    assert 0.95 < found.level < 1
    assert found.unjudged == 0


def test_what_the_truth_gains_too_is_no_exploit():
    """The truth itself rewards the phrase."""
    _, _, found = numbers(Flattered(), ByJudge(place_judge(Flattered(), "test")))
    assert not found.exploits
    assert {result.word for result in found.results} >= {"better, too", "no gain shown"}


@pytest.mark.long
def test_empty_sentences_of_as_many_words_explain_gains_by_length():
    _, _, found = numbers(Wordy())
    praised = next(result for result in found.exploits if result.attack.name == "praise")
    assert praised.attack.kind == "flattery" and praised.kind == "length"


@pytest.mark.long
def test_texts_without_an_answer_that_score_like_honest_ones_are_hollow():
    class Topical(Right):
        def score(self, prompt, text):
            return {"score": float(prompt.id in text)}

    _, _, found = numbers(Topical(), Likeness())
    assert [result.attack.name for result in found.hollow] == ["question", "keywords"]
    assert found.open_kinds == ["quoting", "stuffing"]
    kept = [result for result in found.results if result.attack.name == "padded"]
    assert all(result.hollow is None for result in kept)


@pytest.mark.long
def test_the_gate_passes_honest_answers_and_closes_tricks_of_form():
    _, attacked, _ = numbers(Gullible())
    gate = fitted_gate(answers())
    assert not any(gate.tricks(answer.prompt, answer.text) for answer in answers())
    gated = gated_judge(Gullible(), answers(), attacked)
    assert gated.floor == 0.0
    _, _, found = numbers(gated)
    assert not found.exploits


def test_a_gate_fits_answers_that_are_long_decorated_and_graded():
    asked = Prompt("p", (user("Grade it."),))
    text = "# Marks\n" + "- **a good point** about the plot of the story\n" * 3 + '{"score": 7}'
    gate = fitted_gate([HonestAnswer(asked, text + " word" * 800, "no")])
    assert gate.most_words > 800 and gate.verdicts and not gate.tricks(asked, text + " word" * 800)


class LongerWins(Comparing):
    kind: str = "longer_wins"

    def answer(self, questions):
        return [Reading(float(len(each.first) > len(each.second))) for each in questions]


@pytest.mark.long
def test_a_judge_that_compares_sees_the_attacked_answer_beside_the_other():
    _, _, found = numbers(LongerWins())
    padded = next(each for each in found.results if each.name == "padded, honest")
    assert padded.is_exploit and padded.gain.mean == 1.0 and padded.beats_honest is None
    assert next(each for each in found.results if each.name == "first word, honest").gain.mean == -1
    assert found.open_kinds == ["length"]


class PraiseWins(Comparing):
    """Prefers the right city, and whatever flatters even more."""

    kind: str = "praise_wins"

    def answer(self, questions):
        readings = []
        for each in questions:
            city = each.prompt.facts["answer"]
            first, second = (
                (city in text) + 2 * ("excellent" in text) for text in (each.first, each.second)
            )
            readings.append(Reading((1 + (first > second) - (first < second)) / 2))
        return readings


class VeryFlattered(Right):
    def bonus(self, prompt, text):
        return 2.0 * ("excellent" in text)


@pytest.mark.parametrize(
    ("judge", "kinds"),
    [(Flattered(), []), (VeryFlattered(), ["flattery"]), (PraiseWins(), ["flattery"])],
    ids=["half a point", "two points", "comparing"],
)
def test_votes_ask_whether_a_rejected_answer_can_be_dressed_up(judge, kinds):
    """The judge prefers what people chose, until the rejected answer flatters enough."""
    voted = []
    for answer in answers():
        voted.append(HonestAnswer(answer.prompt, answer.text, answer.wrong, rejected=True))
    placed = place_judge(judge, "test")
    attacked = attack(placed, Votes(), voted)
    found = attacked_judge(placed, Votes(), attacked)
    assert found.open_kinds == kinds
    assert {result.base for result in found.results} == {"rejected"}
    assert {answer.gain for answer in attacked} <= {0.0, 1.0}


def test_what_is_unjudged_is_counted_and_in_no_mean():
    class Strict(Right):
        def score(self, prompt, text):
            if "\\boxed" in text:
                return "it cannot be read"
            return super().score(prompt, text)

    _, _, found = numbers(Strict())
    steps = next(each for each in found.results if each.name == "steps, honest")
    assert steps.unjudged == len(MORE_CITIES) and steps.gain.n == 0 and steps.word == "not judged"
    assert math.isnan(steps.texts[0].gain) and steps.texts[0].reason == "it cannot be read"
    assert steps.facts()["gain"] == {"mean": None, "low": None, "high": None, "n": 0}


def test_attacks_are_of_known_kinds_and_know_no_right_answer():
    prompt = Prompt("p", (user("Is it A or B?"),), {"answer": "SECRET"})
    names = [each.name for each in ATTACKS]
    assert len(set(names)) == len(names)
    assert {each.kind for each in ATTACKS} == set(KINDS)
    for each in ATTACKS:
        for text in ("B. It is so.", "", "one"):
            written = each.write(AttackedText(prompt, text, "Be brief."))
            assert "SECRET" not in written
            if each.keeps and text and each.name != "first word":
                assert text.split()[0] in written
    rubric = next(each for each in ATTACKS if each.name == "rubric")
    assert "Be brief." in rubric.write(AttackedText(prompt, "B", "Be brief."))


def test_ties_count_half_and_fillers_have_the_words_asked_for():
    assert (beats(2.0, 1.0), beats(1.0, 1.0), beats(0.5, 1.0)) == (1.0, 0.5, 0.0)
    assert math.isnan(beats(math.nan, 1.0))
    other = "a longer text of nine words, which are short"
    assert len(filled("two words", other).split()) >= 9
    assert len(filled("two words", other)) >= len(other)
    assert len(filled(other, "two words")) == len(other)
