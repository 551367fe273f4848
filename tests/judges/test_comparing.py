import pytest
from judge_context import TestContext

from equipoise.errors import ConfigError
from equipoise.judges.pairwise import Comparing, combine_orders
from equipoise.judges.question import Reading
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),))


def match(*texts, chats=None, id="m"):
    """A match of one answer a seat; a text that is None never moved, an exception's move failed."""
    turns = []
    for i, text in enumerate(texts):
        chat = (user((chats or {}).get(i, "What is 2 + 2?")),)
        move = (
            Move("", "error", error=str(text)) if isinstance(text, Exception) else Move(text or "")
        )
        if text is not None:
            turns.append(Turn(str(i + 1), View(chat), move))
    seats = {str(i + 1): PlayerId("policy") for i in range(len(texts))}
    return Match(id, 0, "train", "answers", "p", seats, 0, tuple(turns))


class Longer(Comparing):
    """Prefers the longer text; `bias` is added to whoever is shown first; an answer with '?' cannot
    be compared.
    """

    kind: str = "longer"
    bias: float = 0.0

    def answer(self, questions):
        """The readings of a rule."""
        return [self._one(question) for question in questions]

    def _one(self, question):
        if "?" in question.first + question.second:
            return Reading(None, "a question is no answer", 7)
        lead = len(question.first) - len(question.second)
        return Reading(min(1.0, max(0.0, 0.5 + lead / 10 + self.bias)), "", 7, 0.25)


def judge(*matches, judge_context=None, **settings):
    return Longer(**settings).at(judge_context or TestContext()).judge(matches, {"p": PROMPT})


def test_a_score_is_the_mean_probability_of_beating_the_others():
    (judgement,) = judge(match("aaaa", "aa", "a"))
    assert {seat: scores["score"] for seat, scores in judgement.scores.items()} == pytest.approx(
        {"1": (0.7 + 0.8) / 2, "2": (0.3 + 0.6) / 2, "3": (0.2 + 0.4) / 2}
    )
    assert judgement.reason == ""
    assert [(vote.seat, vote.other) for vote in judgement.votes] == [
        ("1", "2"),
        ("2", "1"),
        ("1", "3"),
        ("3", "1"),
        ("2", "3"),
        ("3", "2"),
    ]
    assert {(vote.by, vote.tokens, vote.cost) for vote in judgement.votes} == {("longer", 7, 0.25)}


def test_a_bias_towards_the_first_shown_cancels():
    fair, biased = judge(match("aaaa", "a"))[0], judge(match("aaaa", "a"), bias=0.1)[0]
    assert biased.scores["1"]["score"] == pytest.approx(fair.scores["1"]["score"])
    assert [vote.value for vote in biased.votes] == pytest.approx([0.9, 0.3])


@pytest.mark.parametrize(("flip", "expected"), [("missing", None), ("tie", 0.5), ("mean", 0.6)])
def test_a_verdict_that_changes_with_the_order_is_inconsistent(flip, expected):
    (judgement,) = judge(match("aa", "a"), bias=0.3, flip=flip)
    if expected is None:
        assert judgement.scores is None
        assert judgement.reason.startswith("inconsistent")
    else:
        assert judgement.scores["1"]["score"] == pytest.approx(expected)
    assert [vote.value for vote in judgement.votes] == pytest.approx([0.9, 0.7])


def test_equal_texts_are_a_tie_that_nobody_is_asked_about():
    (judgement,) = judge(match("a?", "a?"))
    assert judgement.scores == {"1": {"score": 0.5}, "2": {"score": 0.5}}
    assert judgement.votes == ()


def test_what_cannot_be_compared_is_missing_with_its_reason():
    unreadable, failed, absent, alone = judge(
        match("aaa", "a?"),
        match("aaa", "a", RuntimeError("out of memory")),
        match("aaa", None),
        match("aaa", "a", "a", chats={2: "Who?"}),
    )
    assert (unreadable.scores, unreadable.reason) == (None, "a question is no answer")
    assert [vote.value for vote in unreadable.votes] == [None, None]
    assert (set(failed.scores), failed.reason) == ({"1", "2"}, "the move failed: out of memory")
    assert (absent.scores, absent.reason) == (None, "no answer was given")
    assert (set(alone.scores), alone.reason) == ({"1", "2"}, "nobody else answered the same chat")


def test_one_order_alone_is_no_comparison():
    assert combine_orders(Reading(1.0), Reading(None, "mumbled"), "missing") == "mumbled"
    assert combine_orders(Reading(None, "mumbled"), Reading(1.0), "tie") == "mumbled"
    assert combine_orders(Reading(0.5), Reading(0.0), "missing") == 0.75


def test_a_question_has_the_same_seed_whoever_its_neighbours_are():
    asked = []

    class Listening(Longer):
        """Remembers its questions."""

        def answer(self, questions):
            """Note and pass on."""
            asked.append({(q.first, q.second): q.seed for q in questions})
            return super().answer(questions)

    for matches in ([match("aa", "a")], [match("c", "d", id="n"), match("aa", "a")]):
        Listening().at(TestContext(seed=3)).judge(matches, {"p": PROMPT})
    assert asked[0].items() <= asked[1].items()
    assert len(set(asked[1].values())) == 4


def test_it_must_be_seated():
    with pytest.raises(ConfigError, match="has no context"):
        Longer().judge([match("a", "b")], {"p": PROMPT})


def met(judgement):
    return [(vote.seat, vote.other) for vote in judgement.votes]


def test_in_a_ring_each_is_shown_first_once_and_second_once():
    texts = ["a" * n for n in (1, 2, 3, 4, 5, 6)]
    (judgement,) = judge(match(*texts), compare="circular")
    first, second = zip(*met(judgement), strict=True)
    assert sorted(first) == sorted(second) == list("123456")
    following = dict(met(judgement))
    place, ring = "1", []
    while place not in ring:
        ring.append(place)
        place = following[place]
    assert len(ring) == 6
    assert ring != list("123456")  # at random, so that the same seats do not always meet
    assert met(judge(match(*texts), compare="circular")[0]) == met(judgement)
    length = {seat: int(seat) for seat in ring}
    for seat, score in judgement.by_seat("score").items():
        neighbours = [following[seat], ring[ring.index(seat) - 1]]
        wins = [0.5 + (length[seat] - length[other]) / 10 for other in neighbours]
        assert score == pytest.approx(sum(wins) / 2)


@pytest.mark.parametrize("compare", ["circular", "swiss"])
def test_a_judge_that_always_prefers_the_first_prefers_nobody(compare):
    (judgement,) = judge(match(*"abcdefg"), bias=1.0, compare=compare, flip="mean")
    assert set(judgement.by_seat("score").values()) == {0.5}
    assert {vote.value for vote in judgement.votes} == {1.0}


def test_in_a_swiss_tournament_those_of_like_standing_meet():
    (judgement,) = judge(match(*("a" * n for n in range(1, 9))), compare="swiss", rounds=3)
    pairs = met(judgement)
    assert len(pairs) == 8 * 3
    assert pairs[1::2] == [(b, a) for a, b in pairs[::2]]
    rounds = [pairs[start : start + 8 : 2] for start in (0, 8, 16)]
    assert all(len({seat for pair in one for seat in pair}) == 8 for one in rounds)
    assert len({frozenset(pair) for pair in pairs}) == 12  # nobody meets another twice
    points = dict.fromkeys("12345678", 0.0)
    for first, second in rounds[0]:
        lead = min(0.5, max(-0.5, (int(first) - int(second)) / 10))
        points[first] += lead
        points[second] -= lead
    leader = max(points, key=lambda seat: points[seat])
    best = sorted(points.values())
    (rival,) = (set(pair) - {leader} for pair in rounds[1] if leader in pair)
    assert points[rival.pop()] == best[-2]


def test_of_an_odd_number_another_sits_out_each_round():
    (judgement,) = judge(match(*"abcde"), compare="swiss", rounds=2)
    assert len(met(judgement)) == 2 * 4
    assert set(judgement.scores) == set("12345")
    (judgement,) = judge(match(*"abc"), compare="swiss", rounds=1)
    assert len(judgement.scores) == 2
    assert judgement.reason == "it was drawn in no round"


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({}, [0, 0, 2, 6, 240]),
        ({"compare": "circular"}, [0, 0, 2, 3, 16]),
        ({"compare": "swiss"}, [0, 0, 2, 6, 48]),
        ({"compare": "swiss", "rounds": 1}, [0, 0, 2, 2, 16]),
    ],
)
def test_a_plan_counts_as_many_questions_as_are_asked(settings, counts):
    for seats, count in zip((0, 1, 2, 3, 16), counts, strict=True):
        (judgement,) = judge(match(*("abcdefghijklmnop"[:seats])), **settings)
        assert len(judgement.votes) == Longer(**settings).comparisons(seats) == count


def test_a_question_that_was_not_answered_leaves_its_two_seats_uncompared():
    (judgement,) = judge(match("aaa", "aa", "?"), compare="circular")
    assert judgement.reason == "a question is no answer"
    assert judgement.by_seat("score") == pytest.approx({"1": 0.6, "2": 0.4})
    assert judgement.compared() == {frozenset("12")}


def test_rounds_belong_to_a_swiss_tournament():
    with pytest.raises(ValueError, match="rounds: compare: all has none; set compare: swiss"):
        Longer(rounds=2)
