import re

import msgspec
import pytest
from judge_context import TestContext

from equipoise.data.pairs import BestWorst, JudgedMatches, MetaRewarding
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.players.base import Player
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),))


def match(*players, id="m", texts=("Four.", "Five.", "Six.")):
    seats = {str(i): PlayerId.parse(player) for i, player in enumerate(players, 1)}
    turns = tuple(
        Turn(seat, View(PROMPT.messages), Move(text))
        for seat, text in zip(seats, texts, strict=False)
    )
    return Match(id, 0, "train", "answers", "p", seats, 0, turns)


def fond_of_four(view, seed):
    return "9" if "Four." in view.messages[0].content else "3"


def moody(view, seed):
    """Grades fours 9, else by the dice; of two gradings it prefers the higher one."""
    asked = view.messages[0].content
    if "Grading A" in asked:
        first, second = map(int, re.findall(r"<<grading . \w+>>\n(\d+)\n", asked))
        return "A" if first > second else "B"
    return "9" if "Four." in asked else str(3 + seed % 5)


def judge_context(ratings=None, **replies):
    """A pool whose members grade as given; `four` is fond of fours."""
    players = {
        name: {
            "kind": "scripted",
            **(
                {"call": f"{__name__}:fond_of_four"}
                if reply == "four"
                else {"call": f"{__name__}:moody"}
                if reply == "moody"
                else {"call": f"{__name__}:{reply}"}
                if reply.startswith("silent_")
                else {"text": reply}
            ),
        }
        for name, reply in replies.items()
    }
    return TestContext(
        players={n: Player.build(p) for n, p in players.items()}, ratings=ratings or {}
    )


def judge(at, *matches, **settings):
    settings = {"kind": "peers", "text": "rubric_compact", **settings}
    return Judge.build(settings).at(at).judge(matches, {"p": PROMPT})


def test_those_who_do_not_sit_in_the_match_judge_it():
    table = judge_context(a="1", b="2", c="four", d="5")
    first, second = judge(table, match("a", "b"), match("c", "d", id="n"))
    assert first.scores == {"1": {"score": 7}, "2": {"score": 4}}
    assert [(vote.by, vote.seat, vote.value) for vote in first.votes] == [
        ("c@0", "1", 9),
        ("c@0", "2", 3),
        ("d@0", "1", 5),
        ("d@0", "2", 5),
    ]
    assert {vote.by for vote in second.votes} == {"a@0", "b@0"}
    assert second.scores == {"1": {"score": 1.5}, "2": {"score": 1.5}}


def test_all_peers_are_asked_together():
    table, calls = judge_context(a="1", b="2", c="3"), []
    ask = table.ask_together
    table.ask_together = lambda questions: (
        calls.append([(str(who), len(views)) for who, views, _ in questions]) or ask(questions)
    )
    judge(table, match("a", "b"), match("b", "a", id="n"), match("c", "c", id="o"), samples=2)
    assert calls == [[("c@0", 8), ("a@0", 4), ("b@0", 4)]]


def test_ones_own_past_is_ones_own_match():
    (judgement,) = judge(judge_context(a="1", b="2", c="3"), match("a@0", "a@4"))
    assert {vote.by for vote in judgement.votes} == {"b@0", "c@0"}
    (judgement,) = judge(judge_context(a="1", b="2", c="3"), match("a@4", "b@4"))
    assert {vote.by for vote in judgement.votes} == {"c@0"}, "not a@0, who does not sit"


def test_judges_are_weighed_by_their_ratings():
    ratings = {"a": 100, "b": 100, "c": 30, "d": 10}
    (judgement,) = judge(judge_context(ratings, a="1", b="2", c="four", d="5"), match("a", "b"))
    assert judgement.scores["1"]["score"] == pytest.approx((30 * 9 + 10 * 5) / 40)
    assert judgement.scores["2"]["score"] == pytest.approx((30 * 3 + 10 * 5) / 40)
    (equal,) = judge(
        judge_context(ratings, a="1", b="2", c="four", d="5"), match("a", "b"), weights="equal"
    )
    assert equal.scores == {"1": {"score": 7}, "2": {"score": 4}}


def test_samples_do_not_make_a_judge_weigh_more():
    table = judge_context({"a": 1, "b": 1, "c": 30, "d": 10}, a="1", b="2", c="mumble", d="5")
    (judgement,) = judge(table, match("a", "b"), samples=3)
    assert len(judgement.votes) == 12
    assert judgement.scores["1"] == {"score": 5}
    (judgement,) = judge(table, match("a", "b"), samples=3, unreadable="midpoint")
    assert judgement.scores["1"]["score"] == pytest.approx((30 * 5.5 + 10 * 5) / 40)


def test_votes_are_weighed_anew_under_later_ratings():
    table = judge_context({"a": 100, "b": 100, "c": 30, "d": 10}, a="1", b="2", c="four", d="5")
    seated = Judge.build({"kind": "peers", "text": "rubric_compact"}).at(table)
    (judgement,) = seated.judge([match("a", "b")], {"p": PROMPT})
    later = seated.reweigh(judgement, {"a": 1, "b": 1, "c": 10, "d": 30})
    assert later.scores["1"]["score"] == pytest.approx((10 * 9 + 30 * 5) / 40)
    assert (later.id, later.votes) == (judgement.id, judgement.votes)
    weightless = seated.reweigh(judgement, {"a": 1, "b": 1, "c": 0, "d": -3})
    assert (weightless.scores, weightless.reason) == (None, "none of those who voted has a weight")
    assert seated.reweigh(weightless, table.ratings) == judgement


def test_a_rating_of_zero_or_less_weighs_nothing_and_an_unrated_judge_makes_all_equal():
    players = {"a": "1", "b": "2", "c": "four", "d": "5"}
    (judgement,) = judge(
        judge_context({"a": 1, "b": 1, "c": -5, "d": 2}, **players), match("a", "b")
    )
    assert judgement.scores == {"1": {"score": 5}, "2": {"score": 5}}
    (judgement,) = judge(
        judge_context({"a": 1, "b": 1, "c": 0, "d": 0}, **players), match("a", "b")
    )
    assert (judgement.scores, judgement.reason) == (None, "none of those who voted has a weight")
    (judgement,) = judge(judge_context({"a": 1, "b": 1, "d": 2}, **players), match("a", "b"))
    assert judgement.scores == {"1": {"score": 7}, "2": {"score": 4}}


def test_one_readable_vote_is_enough_and_none_is_missing():
    one, none = (
        judge(judge_context(a="1", b="2", c="mumble", d=d), match("a", "b"))[0]
        for d in ("5", "mutter")
    )
    assert one.scores == {"1": {"score": 5}, "2": {"score": 5}}
    assert one.reason == ""
    assert [vote.value for vote in one.votes] == [None, None, 5, 5]
    assert none.scores is None
    assert none.reason == "the judge's verdict could not be read"


def silent_on_five(view, seed):
    return "2" if "Four." in view.messages[0].content else "Hm."


def silent_on_four(view, seed):
    return "Hm." if "Four." in view.messages[0].content else "2"


def one_sided(**settings):
    """c gives both answers 8, d gives the first 2 and nothing readable to the second."""
    ratings = {"a": 100, "b": 100, "c": 30, "d": 10}
    table = judge_context(ratings, a="1", b="2", c="8", d="silent_on_five")
    seated = Judge.build({"kind": "peers", "text": "rubric_compact", **settings})
    return seated.at(table), match("a", "b")


def test_who_graded_one_answer_only_counts_for_neither():
    seated, duel = one_sided()
    (judgement,) = seated.judge([duel], {"p": PROMPT})
    assert judgement.scores == {"1": {"score": 8}, "2": {"score": 8}}
    assert [vote.value for vote in judgement.votes] == [8, 8, 2, None]
    later = {"a": 1, "b": 1, "c": 10, "d": 30}
    assert seated.reweigh(judgement, later).scores == judgement.scores
    pairs, dropped = BestWorst().make(JudgedMatches([duel], [judgement]))
    assert (pairs, dropped) == ([], {"tie": 1})


def test_as_released_both_answers_of_an_unread_judge_count_five():
    seated, duel = one_sided(unreadable="as_released")
    (judgement,) = seated.judge([duel], {"p": PROMPT})
    assert judgement.scores == {
        seat: {"score": pytest.approx((30 * 8 + 10 * 5) / 40)} for seat in ("1", "2")
    }
    assert seated.grades_by_votes(judgement.votes)["d@0"] == {"1": 5, "2": 5}


def test_as_released_only_the_unread_sample_counts_five():
    seated, duel = one_sided(unreadable="as_released")
    (judgement,) = seated.judge([duel], {"p": PROMPT})
    first, second = [vote for vote in judgement.votes if vote.by == "d@0"]
    votes = [first, second, first, msgspec.structs.replace(second, value=4, reason="")]
    assert seated.grades_by_votes(votes) == {"d@0": {"1": 3.5, "2": 4.5}}


def test_no_judge_of_both_answers_leaves_none():
    table = judge_context(a="1", b="2", c="silent_on_five", d="silent_on_four")
    (judgement,) = judge(table, match("a", "b"))
    assert judgement.scores is None
    assert judgement.reason == "no judge graded all the answers"


def test_the_players_of_the_match_may_judge_it_themselves():
    table = judge_context(a="1", b="four")
    duel, alone = judge(table, match("a", "b"), match("b", "b", id="n"), who="self")
    assert {(vote.by, vote.seat) for vote in duel.votes} == {
        ("a@0", "1"),
        ("a@0", "2"),
        ("b@0", "1"),
        ("b@0", "2"),
    }
    assert duel.scores == {"1": {"score": 5}, "2": {"score": 2}}
    assert alone.scores == {"1": {"score": 9}, "2": {"score": 3}}


def test_fewer_than_three_leave_no_judge():
    with pytest.raises(ConfigError, match=r"three players.* 2 \(a, b\).*judge\.who: self"):
        judge(judge_context(a="1", b="2"), match("a", "b"))


def test_a_match_that_everyone_sits_in_is_unjudged():
    (judgement,) = judge(judge_context(a="1", b="2", c="3"), match("a", "b", "c"))
    assert (judgement.scores, judgement.reason, judgement.votes) == (
        None,
        "nobody was there to judge",
        (),
    )


@pytest.mark.parametrize(
    ("who", "pool", "count"), [("others", 5, 18), ("others", 1, 0), ("self", 5, 12)]
)
def test_how_many_questions_two_answers_take(who, pool, count):
    """Of three players that are left, or of the two that sit, three samples each of each answer."""
    assert Judge.build({"kind": "peers", "who": who, "samples": 3}).questions(2, pool) == count
    rubric = {"kind": "rubric", "samples": 3, "model": {"kind": "scripted", "text": "1"}}
    assert Judge.build(rubric).questions(2, pool) == 6


def test_no_peer_is_told_who_wrote_what():
    table = judge_context(alice="1", bruno="2", clara="3")
    judge(table, match("alice", "bruno"), text="rubric")
    words = " ".join(view.messages[0].content for _, view in table.asked)
    assert table.asked
    assert not any(name in words for name in ("alice", "bruno", "clara"))


META = {"kind": "meta_rewarding", "text": "rubric_compact", "meta_text": "meta_judge_compact"}


def test_a_player_judges_its_own_gradings_of_the_answer_that_they_differ_about():
    table = judge_context(a="moody", b="1")
    duel = match("a", "a", texts=("Four.", "Five."))
    (judgement,) = judge(table, duel, **META, samples=5)
    assert {vote.by for vote in judgement.votes} == {"a@0"}
    assert len(judgement.votes) == 10
    (review,) = judgement.reviews
    grades = [vote.value for vote in judgement.votes if vote.seat == "2"]
    assert (review.by, review.seat) == ("a@0", "2")
    assert [float(reply) for reply in review.replies] == list(dict.fromkeys(grades))
    several = len(review.replies)
    assert several > 2
    assert len(review.battles) == several * (several - 1)
    assert all(
        int(review.replies[winner]) == max(int(review.replies[i]) for i in (first, second))
        for first, second, winner in review.battles
    )
    asked = [view.messages for _, view in table.asked if "Grading A" not in str(view.messages)]
    assert review.messages in asked and len(set(asked)) == 2, "one question an answer"
    pairs, dropped = MetaRewarding().make(JudgedMatches([duel], [judgement]))
    assert [(pair.chosen, pair.rejected) for pair in pairs] == [
        ("Four.", "Five."),
        (max(review.replies), min(review.replies)),
    ]
    assert dropped == {}
    assert pairs[1].messages == review.messages


def test_what_is_not_reviewed():
    """Gradings that agree, other matches than training's, and generations after the last."""
    duel = match("a", "a", texts=("Six.", "Five."))
    table = judge_context(a="moody", b="1")
    later = msgspec.structs.replace(duel, generation=2)
    held_out = msgspec.structs.replace(duel, split="held_out")
    agreed = match("a", "a", texts=("Four.", "Four."))
    reviews = [judge(table, each, **META)[0].reviews for each in (duel, later, held_out, agreed)]
    assert list(map(len, reviews)) == [1, 0, 0, 0]
    assert len(judge(table, later, **META, review_generations=None)[0].reviews) == 1
    questions = Judge.build(META).questions(seats=2, pool=2)
    assert questions == 2 * (2 * 4 + 4 * 3), "of two players in the match"


def test_the_question_about_two_gradings_quotes_everything_under_its_code():
    table = judge_context(a="moody")
    seated = Judge.build({**META, "meta_text": "meta_judge"}).at(table)
    seated.judge([match("a", "a", texts=("Six.", "Five."))], {"p": PROMPT})
    asked = [view for _, view in table.asked if "Grading B" in view.messages[0].content]
    code = re.search(r'"code": "(\w+)"', asked[0].messages[0].content).group(1)
    for label in ("request", "answer", "grading A", "grading B"):
        assert f"<<{label} {code}>>" in asked[0].messages[0].content
    assert asked[0].schema["properties"]["verdict"]["enum"] == ["A", "B"]
    with pytest.raises(ValueError, match="'reply'"):
        Judge.build({**META, "verdict": "next_token"})


@pytest.mark.parametrize(
    "wrapped",
    [
        {"kind": "gold", "otherwise": META},
        {"kind": "panel", "judges": [META, "shorter"]},
        {"kind": "first_place", "judge_of_answers": META},
    ],
    ids=lambda judge: judge["kind"],
)
def test_reviews_go_on_through_the_judges_that_ask_another(wrapped):
    duel = match("a", "a", texts=("Four.", "Five."))
    table = judge_context(a="moody", b="1")
    (judgement,) = Judge.build(wrapped).at(table).judge([duel], {"p": PROMPT})
    (review,) = judgement.reviews
    assert review.by == "a@0"
    assert review.battles


def test_votes_below_the_gold_judge_are_weighed_and_read_as_its_other_judge_does():
    context = judge_context(a="1", b="2", c="four", d="5")
    peers = {"kind": "peers", "text": "rubric_compact", "unreadable": "as_released"}
    gold = Judge.build({"kind": "gold", "otherwise": peers}).at(context)
    (judged,) = gold.judge([match("a", "b")], {"p": PROMPT})
    for ratings in ({"c": 100.0, "d": 1.0}, {"c": 1.0, "d": 100.0}):
        own = Judge.build(peers).at(context).reweigh(judged, ratings)
        assert gold.reweigh(judged, ratings) == own != judged
    assert gold.grades_by_votes(judged.votes) == gold.otherwise.grades_by_votes(judged.votes)
