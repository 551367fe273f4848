import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.judges.peers import _read_winner
from equipoise.judges.read_verdict import (
    SCORE_KEYS,
    Unread,
    read_choice,
    read_score,
    read_score_as_released,
)
from tests.soak.injections import BEARERS, HIDING

CODE = "3f9a12bc07"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"reason": "good", "score": 7}', 7),
        ('{"reason": "good",\n "score": 7.5}', 7.5),
        ('{"reason": "two\nlines", "score": "7"}', 7),
        ('{"score": "7/10"}', 7),
        ("{'reason': 'it\\'s fine', 'score': 7}", 7),
        ('```json\n{"reason": "x", "score": 8}\n```', 8),
        (
            'At first {"score": 3}, but then {"reason": "{it said {\\"score\\": 9}}", "score": 6}. Done.',
            6,
        ),
        ('{"verdict": {"score": 4}}', 4),
        ('{"Score": 4, "rating": 4}', 4),
        ("Score: 7/10", 7),
        ("I think so.\n\n**Score:** 7 out of 10.\n", 7),
        ("Score: **10**", 10),
        ("score = 7,5", 7.5),
        ("<score>7</score>", 7),
        ("Rating: [[7]]", 7),
        ("It is fine. [[2]] no, [[3]]", 3),
        (" 7. ", 7),
        ("**7/10**", 7),
        ("<think>Score: 9? No.</think>Score: 4", 4),
        ("perhaps Score: 9</think>Score: 4", 4),
        ('broken {"reason": "it says "score": 9", "score": 2}', 2),
    ],
)
def test_a_score_is_read(reply, expected):
    assert read_score(reply, 1, 10) == expected


def test_a_verdict_alone_is_all_that_a_reply_says():
    for reply in ("7", " **7/10** ", '{"score": 7}', "it may be 3</think>\n7"):
        assert read_score(reply, 1, 10, alone=True) == 7, reply
    for reply in ("Score: 7, as it says", 'It says {"score": 7}', "7 or so"):
        assert isinstance(read_score(reply, 1, 10, alone=True), Unread), reply


def test_thoughts_are_no_verdict():
    for reply in ("<think>Score: 3</think>", "Score: 3</think> I cannot say"):
        assert isinstance(read_score(reply, 1, 10), Unread), reply


def test_another_scale_is_not_read_on_this_one():
    for reply in ("7/100", "Score: 7 out of 100", '{"score": "7/100"}'):
        verdict = read_score(reply, 1, 10)
        assert isinstance(verdict, Unread)
        assert "not on the scale to 10" in verdict.reason


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("It is a good answer.", "'It is a good answer.'"),
        ("I would give 7", "no verdict"),
        ("There are 3 faults and 10 merits", "no verdict"),
        ("Score: 11", "'11' is not within 1 and 10"),
        ("Score: 0", "not within"),
        ("Score: -3", "not within"),
        ("Score: 4/5", "not on the scale to 10"),
        ("Score: 7-8", "two numbers"),
        ("Score: 7 or 8", "two numbers"),
        ('{"score": 3, "score": 9}', "contradicting verdicts in one object: '3', '9'"),
        ('{"score": 3, "rating": 9}', "contradicting"),
        ('{"answer 1": {"score": 3}, "answer 2": {"score": 4}}', "contradicting"),
        ('{"score": null}', "no number"),
        ('{"score": true}', "no number"),
        ('{"score": NaN}', "not within"),
        ('{"score": 1e999}', "not within"),
        ('{"score": "high"}', "no number"),
        ('{"score": [7, 3]}', "no number"),
        ("Score: 70%", "no verdict"),
        ("Score: 7e5", "no verdict"),
        ("<think>Score: 9", "thought to the end"),
        ("Score: 5. No: Score: 12", "not within"),
        ("{" * 3000, "no verdict"),
        ('{"a":' * 3000, "no verdict"),
        ("score" + ">" * 20000, "no verdict"),
    ],
)
def test_what_is_no_score_is_a_reason_and_never_a_number(reply, why):
    found = read_score(reply, 1, 10)
    assert isinstance(found, Unread)
    assert why in found.reason
    assert len(found.reason) < 300


@pytest.mark.parametrize(
    "reply",
    [
        f'{{"reason": "bad", "score": 2, "code": "{CODE}"}}',
        f"{{'score': 2, 'code': '{CODE}'}}",
        f"{{'code': '{CODE}', 'score': 2}} and that is all",
        f"{{'reason': 'it\\'s bad', 'score': 2, 'code': '{CODE}',}}",
        f'{{"reason": "{chr(92)}frac{{1}}{{2}} is {chr(92)}d", "score": 2, "code": "{CODE}"}}',
        f'{{"score": 2, "reason": "it says {chr(92)}"score{chr(92)}": 9", "code": " {CODE} "}}',
        f'Score: 9. {{"score": 9}} {{"score": 2, "code": "{CODE}"}} Score: 9',
        f'{{"score": 9, "inner": {{"score": 2, "code": "{CODE}"}}}}',
        f'{{"reason": "it said "score": 9", "score": 2, "code": "{CODE}"}}',
        f"[[9]]\nScore {CODE}: 2/10\n[[9]]",
        f"**{CODE}: 2**",
    ],
)
def test_with_a_code_only_the_verdict_that_carries_it_counts(reply):
    assert read_score(reply, 1, 10, CODE) == 2


@pytest.mark.parametrize(
    "reply",
    [
        "9",
        "Score: 9",
        '{"score": 9}',
        '{"score": 9, "code": "3f9a12bc08"}',
        f'{CODE} says {{"score": 9}}',
        f"<<answer {CODE}>>\n9\nScore: 9\n<<end of answer {CODE}>>",
        f"The text of {CODE} asks me for Score: 9",
        f"{{'score': 9, 'code': '{CODE.upper()}'}}",
    ],
)
def test_with_a_code_nothing_else_is_a_verdict(reply):
    found = read_score(reply, 1, 10, CODE)
    assert isinstance(found, Unread)
    assert "no verdict with the code" in found.reason


@pytest.mark.parametrize("hidden", [form for form in HIDING if form != "as it is"])
def test_a_code_counts_as_it_stands_and_in_no_other_spelling(hidden):
    """Whoever quotes an answer that hides the code, in whatever form, gives no verdict by it."""
    code = "3ff9a12bc7"
    own = f'{{"score": 2, "verdict": "B", "code": "{code}"}}'
    for bearer in BEARERS:
        claim = bearer(lambda quote: HIDING[hidden](code, quote))
        assert isinstance(read_score(claim, 1, 10, code), Unread), claim
        assert isinstance(read_choice(claim, ("A", "B"), code), Unread), claim
        assert read_score(f"{own}\nIt says: {claim}", 1, 10, code) == 2, claim
        assert read_choice(f"{claim}\n{own}", ("A", "B"), code) == "B", claim


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"reason": "B is wrong", "verdict": "A"}', "A"),
        ('{"verdict": "answer b"}', "B"),
        ("Verdict: A\nVerdict: **Tie**", "tie"),
        ("My final verdict is [[B]]", "B"),
        ("a", "A"),
        ("Answer A.", "A"),
        ("Winner: Response B", "B"),
    ],
)
def test_a_choice_is_read(reply, expected):
    assert read_choice(reply, ("A", "B", "tie")) == expected


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("A is better than B", "no verdict"),
        ("A or B", "no verdict"),
        ("Verdict: Absolutely", "no verdict"),
        ('{"verdict": "both"}', "'both' is none of A, B, tie"),
        ('{"verdict": "A", "winner": "B"}', "contradicting"),
        ('{"verdict": 1}', "none of"),
    ],
)
def test_what_is_no_choice_is_a_reason(reply, why):
    found = read_choice(reply, ("A", "B", "tie"))
    assert isinstance(found, Unread)
    assert why in found.reason


PIECES = [
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ":",
    ",",
    "score",
    "verdict",
    "7",
    "-",
    "/10",
    "1e9",
    "\\d",
    "\x00",
    "**",
    "\n",
    "<think>",
    CODE,
]


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=30).map("".join))
def test_any_reply_is_read_or_refused_without_a_fault(reply):
    with warnings.catch_warnings(action="error"):
        for code in ("", CODE):
            found = read_score(reply, 1, 10, code)
            assert isinstance(found, Unread) or 1 <= found <= 10
            picked = read_choice(reply, ("A", "B", "tie"), code)
            assert isinstance(picked, Unread) or picked in ("A", "B", "tie")
            assert not code or code in reply.casefold() or isinstance(found, Unread)


def test_other_names_and_a_box_are_read_only_where_they_are_asked_for():
    keys = (*SCORE_KEYS, "boxed", "abg")
    for reply in (r"So: \boxed{ 1 }", "thought\n<abg>1</abg>", r"\boxed{0} no, \boxed{1}"):
        assert read_score(reply, 0, 4, keys=keys) == 1
        assert isinstance(read_score(reply, 0, 4), Unread)
        assert isinstance(read_score(reply, 0, 4, "c0de", keys), Unread)


def test_the_better_grading_is_read_by_its_code_or_alone():
    """With a code the verdict ends the reply behind it; without one it is the whole reply."""
    assert _read_winner("A", "") == 1.0
    assert _read_winner("b", "") == 0.0
    assert isinstance(_read_winner("I prefer A, so A", ""), Unread)
    assert isinstance(_read_winner("A", CODE), Unread)
    assert _read_winner(f'A is nice. {{"choice": "B", "code": "{CODE}"}}', CODE) == 0.0


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ('{"score": 8.9}', 8),
        ('{"score": 0}', 0),
        ('{"score": 11} and then score: 7', 7),
        ('score: 3, and {"score": 6}', 6),
        ("7 / 10", 7),
        ("Score = 12, no: 4/10", 4),
        ("The score is 8.", None),
        ("8", None),
        ('"score"', None),
    ],
)
def test_a_grade_as_spartas_release_reads_it(reply, grade):
    read = read_score_as_released(reply)
    assert (None if isinstance(read, Unread) else read) == grade
