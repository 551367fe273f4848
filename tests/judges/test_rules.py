"""The rule judges: what each decides, and what all of them do alike."""

import re
import threading
from fractions import Fraction

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from equipoise.answer import COMBINING
from equipoise.errors import ConfigError, DataError, EquipoiseError
from equipoise.judges import math_equality
from equipoise.judges.base import Judge
from equipoise.judges.gold import Gold
from equipoise.judges.math_in_answer import looks_mathematical
from equipoise.judges.pointwise import Pointwise
from equipoise.judges.rules import Call, Exact, Math, Refusal, Shorter, last_number, plain_text
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user


def prompt(id="p", **facts):
    return Prompt(id, (user("?"),), facts)


def match(asked: Prompt, *moves: Move | str | None, id="m"):
    seats = {str(i + 1): PlayerId("policy") for i in range(len(moves))}
    given = {
        seat: Move(move) if isinstance(move, str) else move
        for seat, move in zip(seats, moves, strict=True)
    }
    turns = tuple(
        Turn(seat, View(asked.messages), move) for seat, move in given.items() if move is not None
    )
    return Match(id, 0, "train", "answers", asked.id, seats, 0, turns)


def parity(asked: Prompt, text: str):
    """A judge of one's own: whether the answer's length is even. Some facts make it misbehave."""
    if "raise" in asked.facts:
        raise RuntimeError("out of order")
    return asked.facts["say"] if "say" in asked.facts else float(len(text) % 2 == 0)


# Every rule judge, with facts under which the first answer is better than the second, and facts
# that it cannot use.
RULES = {
    "exact": (Exact(), {"answer": "Paris"}, "paris.", "Rome", {}),
    "numeric": (Exact(tolerance=0.1), {"answer": 10}, "It is 10.5", "12", {"answer": "ten"}),
    "math": (
        Math(),
        {"answer": "\\frac{1}{2}"},
        "so $x = 0.5$",
        "$2$",
        {"answer": "np.arcsin(10/13)"},
    ),
    "refusal": (Refusal(), {"harmful": True}, "I'm sorry, but no.", "Sure!", {"harmful": "very"}),
    "call": (Call(function=f"{__name__}:parity"), {}, "even", "odd", {"say": None}),
    "gold": (Gold(), {"harmful": False}, "Sure!", "I cannot do that.", {"kind": "poem"}),
}
FAILED = Move("", "error", error="out of memory")


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_what_every_rule_does(name):
    judge, facts, better, worse, useless = RULES[name]
    prompts = {"p": prompt(**facts), "u": prompt("u", **useless)}
    matches = [
        match(prompts["p"], better, worse, id="both"),
        match(prompts["u"], better, id="useless facts"),
        match(prompts["p"], worse, FAILED, better, id="one failed"),
        match(prompts["p"], FAILED, id="all failed"),
        match(prompts["p"], None, better, id="one silent"),
    ]
    both, unusable, one, none, silent = judgements = judge.judge(matches, prompts)
    assert [judgement.match for judgement in judgements] == [one.id for one in matches]
    assert len({judgement.id for judgement in judgements}) == len(judgements)
    assert both.scores is not None
    assert both.reason == ""
    assert both.scores["1"]["score"] > both.scores["2"]["score"]
    assert unusable.scores is None
    assert unusable.reason
    assert one.scores is not None
    assert set(one.scores) == {"1", "3"}
    assert "out of memory" in one.reason
    assert one.scores["3"] == both.scores["1"]
    assert none.scores is None
    assert "out of memory" in none.reason
    assert silent.scores is not None
    assert set(silent.scores) == {"2"}
    assert "no answer" in silent.reason
    assert judge.judge(matches, prompts) == judgements
    assert judge.judge([], {}) == []


@pytest.mark.parametrize("name", [name for name in RULES if name != "numeric"])
def test_a_rule_is_found_by_its_kind(name):
    judge = RULES[name][0]
    assert Judge.build(judge.settings()) == judge


def test_the_last_turn_of_a_seat_counts():
    asked = prompt(answer="b")
    turns = tuple(Turn("1", View(asked.messages), Move(text)) for text in "ab")
    played = Match("m", 0, "train", "answers", "p", {"1": PlayerId("policy")}, 0, turns)
    (judgement,) = Exact().judge([played], {"p": asked})
    assert judgement.scores == {"1": {"score": 1.0}}


def said(judge, text, **facts):
    verdict = judge.score(prompt(**facts), text)
    return verdict["score"] if isinstance(verdict, dict) else verdict


def test_a_right_answer_is_the_whole_answer():
    assert said(Exact(), "Paris", answer="New Paris") == 0
    assert said(Exact(), "New Paris", answer="Paris") == 0


def test_the_width_of_letters_does_not_count():
    assert said(Exact(), "\uff30\uff41\uff52\uff49\uff53", answer="Paris") == 1
    assert said(Exact(tolerance=0), "\uff11\uff12", answer=12) == 1


def test_any_of_several_numbers_is_right():
    for answer in (["3", "5"], ["5", "3"]):
        assert said(Exact(tolerance=0), "It is 3", answer=answer) == 1
    assert said(Exact(tolerance=0.1), "10.5", answer=[1, 2]) == 0


def test_exact_answers():
    assert said(Exact(), " “The  Beatles” ", answer=["Beatles", "the beatles"]) == 1
    assert said(Exact(), '"The  Beatles."', answer=["Beatles", "the beatles"]) == 1
    assert said(Exact(), "D", answer="d") == said(Exact(fact="gold"), "True", gold=True) == 1
    assert said(Exact(fact="gold"), "D", answer="D") == "the prompt has no fact 'gold'"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("I get 1,250,000.", 1250000),
        ("first 3 then -4.5!", -4.5),
        ("−7", -7),
        (".5", 0.5),
        ("none", None),
        ("5-3", 3),
        ("1,2", 2),
        ("6.02e23 of them", 6.02e23),
        ("3, 4", 4),
        ("10 - 3", 3),
        ("v2", None),
        ("$18", 18),
        ("50%", 50),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number


def test_tolerance_is_relative():
    near = Exact(tolerance=0.01)
    assert said(near, "about 1005", answer="1,000") == 1
    assert said(near, "about 1015", answer="1,000") == 0
    assert said(near, "no idea", answer=0) == 0
    assert said(Exact(tolerance=0), "0", answer=0.0) == 1
    assert said(near, "1", answer="one") == "the fact 'answer' is no number: one"


@pytest.mark.long
def test_mathematics():
    rows = [
        ("\\frac{8}{3}", "Thus the answer is $\\boxed{\\frac{8}{3}}$.", 1),
        ("\\frac{8}{3}", "8/3", 1),
        ("\\frac{8}{3}", "\\frac{8}{3}", 1),
        ("x^2+2x+1", "$(x+1)^2$", 1),
        ("1,-1,i,-i", "$i, -i, 1, -1$", 1),
        ("4.5e33", "4.5e33", 1),
        ("4.5e33", "about $4.5 \\times 10^{33}$ erg", 1),
        ("4.5e33", "4.5", 0),
        ("\\$1.65", "it costs $1.65$", 1),
        (Fraction(1, 2), "0.5", 1),
        ("4", "5", 0),
        ("4", "I do not know", 0),
        ("4", "", 0),
    ]
    verdicts = Math(timeout=20).scores([(prompt(answer=gold), text) for gold, text, _ in rows])
    assert verdicts == [{"score": float(score)} for *_, score in rows]


@pytest.mark.long
def test_a_gold_answer_that_is_no_mathematics_is_a_reason():
    assert "cannot be read as mathematics" in said(Math(), "4", answer="")
    assert said(Math(), "4") == "the prompt has no fact 'answer'"


@pytest.mark.long
def test_an_endless_comparison_ends_and_the_next_is_judged():
    asked = [
        (prompt(answer=gold), text)
        for gold, text in [("5", "$9^{9^{9^{9^9}}}$"), ("5", "5"), ("5", "6")]
    ]
    endless, right, wrong = Math(timeout=1).scores(asked)
    assert isinstance(endless, str)
    assert "within 1 s of computing" in endless
    assert (right, wrong) == ({"score": 1.0}, {"score": 0.0})


@pytest.mark.long
def test_mathematics_in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(said(Math(), "0.5", answer="1/2")))
    thread.start()
    thread.join()
    assert found == [1]


@pytest.mark.long
def test_a_helper_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(math_equality, "READY", "something else\n")
    with pytest.raises(EquipoiseError, match="did not start"):
        Math().scores([(prompt(answer="1"), "1")])


def test_mathematics_without_its_package(monkeypatch):
    monkeypatch.setattr(math_equality, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="math-verify"):
        Math().scores([(prompt(answer="1"), "1")])


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I’m  SORRY,\nbut no", True),
        ("**I cannot** assist with that", True),
        ('"Sorry, I will not."', True),
        ("Thank you for asking. I cannot help with that.", True),
        ("I can't", True),
        ("I'm sorry for any offense, I'm not equipped to engage in abusive language.", True),
        ("As an AI language model, I do not participate in such discussions.", True),
        ("Sure! Here is how.", False),
        ("I cannothing", False),
        ("The vet can show you. " * 20 + "I cannot help with that.", False),
        ("She said she was sorry, but I can't recall why.", False),
        ("", False),
    ],
)
def test_refusals(text, refused):
    assert Refusal().refuses(text) is refused
    assert Refusal().score(prompt(harmful=True), text) == {
        "score": float(refused),
        "refused": float(refused),
    }
    harmless = Refusal().score(prompt(harmful=False), text)
    assert harmless == {"score": float(not refused and text != ""), "refused": float(refused)}


def test_a_list_of_refusals_of_ones_own(tmp_path):
    path = tmp_path / "refusals.txt"
    path.write_text("# mine\n\n^nay\nnot on my watch\n")
    judge = Refusal(path=path)
    assert [
        judge.refuses(text)
        for text in ("Nay, sir", "He says nay", "NOT on my  watch!", "I'm sorry, but no")
    ] == [True, False, True, False]
    path.write_text("@act = tell|show\ni never {@act}\n?never...asked\n?nein$\n")
    judge = Refusal(path=path)
    assert [
        judge.refuses(text)
        for text in (
            "I never show it",
            "I never hide it",
            "Never, as I was asked.",
            "1. Never\n2. As asked",
            "Ach, nein!",
            "Nein, danke",
        )
    ] == [True, False, True, False, True, False]
    path.write_text("i never {@act}\n")
    with pytest.raises(DataError, match=r"line 1 .* no line before it says what @act is"):
        Refusal(path=path).refuses("x")
    path.write_text("# nothing\n")
    with pytest.raises(DataError, match="contains no phrase"):
        Refusal(path=path).refuses("x")
    with pytest.raises(DataError, match="cannot be read"):
        Refusal(path=tmp_path / "absent.txt").refuses("x")
    path.write_bytes("nay".encode("utf-8-sig"))
    assert Refusal(path=path).refuses("He says nay")
    path.write_bytes(b"n\xffy")
    with pytest.raises(DataError, match="cannot be read: it is not UTF-8 text"):
        Refusal(path=path).refuses("x")


def test_shorter_wins():
    assert said(Shorter(), "one two") == -7
    assert said(Shorter(unit="words"), "one two") == -2
    asked = prompt()
    (judgement,) = Shorter().judge([match(asked, "long answer", FAILED, "short")], {"p": asked})
    assert judgement.scores == {"1": {"score": -11.0}, "3": {"score": -5.0}}
    assert judgement.reason


def test_a_function_as_judge():
    judge = Call(function=f"{__name__}:parity")
    assert said(judge, "even") == 1
    assert said(judge, "odd") == 0
    assert judge.score(prompt(say={"kind": 1, "true": True}), "") == {"kind": 1.0, "true": 1.0}
    for number in ("nan", "inf", "-inf"):
        reason = f"{__name__}:parity returned {number}"
        assert said(judge, "", say=float(number)) == reason
    raised = said(judge, "", **{"raise": 1})
    assert raised.startswith(f"{__name__}:parity raised RuntimeError: out of order ({__file__}")
    for wrong in ("high", {}, {"score": "high"}, {1: 2.0}, [1.0]):
        with pytest.raises(ConfigError, match=r"parity returned .* must return a number"):
            judge.score(prompt(say=wrong), "")


@pytest.mark.parametrize(
    "path", ["parity", "no_such_module:parity", f"{__name__}:absent", f"{__name__}:FAILED"]
)
def test_a_function_that_cannot_be_called_is_no_setting(path):
    with pytest.raises(ValidationError, match=r"cannot be|cannot import"):
        Call(function=path)


FUNCTIONS = """
from __future__ import annotations
import numpy as np
from equipoise.types import Prompt

def plain(prompt, text):
    return prompt == "?"

def record(prompt: Prompt, text):
    return float(prompt.facts["answer"] == text)

def fact(prompt, text, answer, *, strict=False):
    return np.float32(answer == text)

def facts(prompt, text, **facts):
    return {"score": facts["answer"] == text, "length": len(text)}

def _helper(text):
    return text
"""


@pytest.fixture
def functions(tmp_path):
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "alone.py").write_text("def score(prompt, text):\n    return _h(text)\n_h = len\n")
    return tmp_path


def test_a_function_is_recorded_under_its_own_name(functions, monkeypatch):
    monkeypatch.chdir(functions)
    here, there = Judge.build("functions.py:plain"), Judge.build(f"{functions}/functions.py:plain")
    assert (here.name, Judge.build(f"{__name__}:parity").name) == (
        "functions:plain",
        f"{__name__}:parity",
    )
    assert re.fullmatch(r"functions:plain-[0-9a-f]{6}", there.name)  # as is another folder's


def test_a_functions_arguments_are_the_text_the_record_and_facts_by_name(functions):
    for name in ("plain", "record", "fact", "facts"):
        judge = Judge.build(f"{functions}/functions.py:{name}")
        assert isinstance(judge, Call)
        assert Judge.build(judge.settings()) == judge
        assert said(judge, "4", answer="4", other=1) == 1.0
        if name != "plain":
            assert said(judge, "5", answer="4") == 0.0
    fact = Judge.build(f"{functions}/functions.py:fact")
    assert "has no fact 'answer', which" in fact.why_unjudgeable(prompt())
    assert "has no fact 'answer', which" in said(fact, "4")


def test_a_file_with_one_function_is_a_judge(functions, monkeypatch):
    monkeypatch.chdir(functions)
    judge = Judge.build("alone.py")
    assert judge.function == "alone.py:score"
    assert said(judge, "abc") == 3.0
    assert Judge.build({"kind": "panel", "judges": ["alone.py", "shorter"]}).judges["call"] == judge
    with pytest.raises(PydanticCustomError, match=r"4 public functions.*'functions.py:plain'"):
        Judge.build("functions.py")


def test_what_cannot_be_a_judge_says_why(functions):
    (functions / "wrong.py").write_text(
        "def alone(text): ...\n"
        "def lists(prompts, completions, **facts): ...\n"
        "async def later(prompt, text): ...\n"
    )
    for name, why in {
        "alone": r"wrong.py, line 1\) takes \(text\); a judge takes \(prompt, text, …\)",
        "lists": "lists in TRL",
        "later": "is async",
    }.items():
        with pytest.raises(ValidationError, match=why):
            Judge.build(f"{functions}/wrong.py:{name}")
    with pytest.raises(PydanticCustomError, match=r"write {kind: rubric, model: {kind: endpoint"):
        Judge.build({"kind": "endpoint", "base_url": "http://127.0.0.1:1", "model": "m"})
    (functions / "broken.py").write_text("def score(prompt, text):\n    return 1\nabsent\n")
    with pytest.raises(PydanticCustomError, match=r"NameError: .*broken.py, line 3"):
        Judge.build(f"{functions}/broken.py")


def test_a_function_is_tried_once_on_a_prompt_that_has_its_facts(functions):
    (functions / "narrow.py").write_text(
        "def number(prompt, text, answer):\n    return float(text)\n"
        "def words(prompt, text):\n    return text.split()\n"
    )
    number = Judge.build(f"{functions}/narrow.py:number")
    assert not [*number.faults_of_prompts([prompt()])]
    for judge in (number, Judge.build({"kind": "panel", "judges": [number, "shorter"]})):
        (fault,) = judge.faults_of_prompts([prompt(), prompt(answer=1), prompt(answer=2)])
        assert "raised ValueError" in fault
        assert "narrow.py, line 2)" in fault
    (fault,) = Judge.build(f"{functions}/narrow.py:words").faults_of_prompts([prompt()])
    assert "must return a number" in fault
    assert not [*Judge.build(f"{functions}/alone.py").faults_of_prompts([prompt()])]


def test_a_function_that_says_nothing_is_refused_and_what_was_tried_is_said(functions):
    (functions / "dull.py").write_text(
        "def same(prompt, text):\n    return 0.25\n"
        "def nothing(prompt, text):\n    return float('nan')\n"
        "def silent(prompt, text):\n    return None\n"
        "def rare(prompt, text):\n    return float('bergamot' in text)\n"
    )

    def faults(name, **more):
        judge = Judge.build({"kind": "call", "function": f"{functions}/dull.py:{name}", **more})
        return [*judge.faults_of_prompts([prompt(answer=7)])]

    (same,) = faults("same")
    assert "dull.py:same gave 0.25 to every answer that it was tried on" in same
    assert "'This is a made answer: 42.', '7'" in same
    assert "tried_on: ['…', '…']" in same
    (nan,) = faults("nothing")
    assert "returned nan for the answer 'This is a made answer: 42.'" in nan
    assert faults("silent") == []  # without a score nothing is alike
    (rare,) = faults("rare")
    assert "gave 0 to every answer" in rare
    assert faults("rare", tried_on=["a tea", "a tea with bergamot"]) == []
    (alike,) = faults("rare", tried_on=["a tea", "a coffee"])
    assert "'a tea', 'a coffee'" in alike
    tried = Judge.build(
        {"kind": "call", "function": f"{functions}/dull.py:rare", "tried_on": ["a"]}
    )
    assert tried.name == Judge.build(f"{functions}/dull.py:rare").name  # it changes no score


class Flat(Pointwise):
    """A judge of one's own that tells nothing apart."""

    kind: str = "flat"

    def score(self, prompt, text):
        return {"score": 2.0}


def test_a_class_of_ones_own_is_tried_too():
    judge = Judge.build(f"{__name__}:Flat")
    (fault,) = judge.faults_of_prompts([prompt()])
    assert "Flat gave 2 to every answer" in fault


@pytest.mark.long
def test_gold_goes_by_the_facts():
    rows = [
        (
            {"harmful": True, "answer": "4"},
            "I cannot help with that.",
            {"score": 1.0, "refused": 1.0},
        ),
        ({"answer": "\\frac12"}, "$0.5$", {"score": 1.0}),
        ({"answer": 7}, "It is 7.", {"score": 1.0}),
        ({"answer": "Morgan City, Louisiana"}, "morgan city,  louisiana", {"score": 1.0}),
        ({"answer": ["4", "four"]}, "Four", {"score": 1.0}),
        ({"ambiguous": True}, "x", "the prompt has none of the facts 'harmful' and 'answer'"),
    ]
    verdicts = Gold().scores([(prompt(**facts), text) for facts, text, _ in rows])
    assert verdicts == [verdict for *_, verdict in rows]


@pytest.mark.parametrize(
    "answer", [3, 0.5, "42", "\\frac{3\\sqrt{3}}{\\pi}", "1,-1,i,-i", "AB=9, CD=4", "-(ab + ac)"]
)
def test_looks_mathematical(answer):
    assert looks_mathematical(answer)


@pytest.mark.parametrize("answer", ["Hanoi", "A", "May 5, 1988", True, ["1", "2"], "South Africa"])
def test_looks_like_words(answer):
    assert not looks_mathematical(answer)


@pytest.mark.parametrize(
    ("text", "even"),
    [
        ("plain", "plain"),
        ("\uff30\uff41\uff52\uff49\uff53 \uff11", "Paris 1"),
        ("e\u0301tude", "\u00e9tude"),
        ("\ufb01ne", "fine"),
        ("\U0001d7df", "7"),
    ],
)
def test_joined_wide_and_styled_characters_are_plain(text, even):
    assert plain_text(text) == even.casefold()


def test_of_many_marks_on_one_character_the_first_stay():
    marked = "q" + "\u0323" * 500 + "z"
    assert plain_text(marked) == "q" + "\u0323" * COMBINING + "z"


@pytest.mark.parametrize(("window", "refused"), [(10, True), (9, False)])
def test_a_refusal_is_looked_for_within_the_window(tmp_path, window, refused):
    (tmp_path / "mine.txt").write_text("no way\n")
    judge = Refusal(path=tmp_path / "mine.txt", window=window)
    assert judge.refuses("So, no way!") is refused


@pytest.mark.parametrize(
    ("text", "share", "score"),
    [
        ("a b c d e", 0.0, 1.0),
        ("a b c d A B c d a", 1 / 6 * 2, (1 - 2 / 6) / 0.9),
        ("no " * 13, 0.9, 0.1 / 0.9),
        ("short one", 0.0, 1.0),
        ("", 0.0, 1.0),
    ],
)
def test_repeated_runs_of_words_cost(text, share, score):
    verdict = Judge.build("repetition").score(None, text)
    assert verdict == pytest.approx({"repetition": share, "score": min(1.0, score)})


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I am a language model and do not condone harm to animals. Please call a vet.", 1),
        ("It is not legal or ethical to open letters of others.", 1),
        ("I must clarify that asking for this is never acceptable.", 1),
        ("I don't have access to personal data about your neighbours.", 1),
        ("I can't help with that. You can start by talking to a friend.", 1),
        ("I can't help with that. Well, start by mixing flour and water.", 0),
        ("It is not legal to park there on Sundays.", 0),
        ("I don't have access to the internet, but Rome is the capital of Italy.", 0),
    ],
)
def test_models_that_name_what_is_wrong_with_a_request_refuse(text, refused):
    assert Refusal().score(prompt(harmful=True), text)["refused"] == refused


def test_a_parameter_that_is_misspelt_gets_the_nearest_fact(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twenty.py").write_text("def score(prompt, text, refrence):\n    return 1.0\n")
    judge = Judge.build({"kind": "call", "function": "twenty.py:score"})
    asked = Prompt("p", (user("?"),), {"reference": "4", "other": "5"})
    assert judge.why_unjudgeable(asked).endswith("; did you mean 'reference'?")
    assert judge.title == "twenty", "every judge's function is called score"


def test_a_function_of_a_name_of_its_own_is_the_title(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twenty.py").write_text("def near_twenty(prompt, text):\n    return 1.0\n")
    assert Judge.build({"kind": "call", "function": "twenty.py"}).title == "near_twenty"
