"""The judge report, on records whose facts are known."""

import json

import msgspec
import pytest
from scipy.stats import kendalltau, spearmanr

from equipoise.evaluation.judge_opinions import Agreement, VoterAgreement, agreement_between
from equipoise.evaluation.judge_report import MeanGiven, judge_report
from equipoise.evaluation.measures import Sample
from equipoise.report.match_cards import tokens_of_judging
from equipoise.types import Judgement, Match, Move, PlayerId, Review, Turn, View, Vote, user


def match(id, *players, texts=None, prompt=None):
    """A match of one answer a seat to one chat; seats are a, b, …"""
    seats = dict(zip("abcd", map(PlayerId.parse, players), strict=False))
    texts = texts or ["an answer"] * len(players)
    chat = (user(prompt or id),)
    turns = tuple(
        Turn(seat, View(chat), Move(text)) for seat, text in zip(seats, texts, strict=True)
    )
    return Match(id, 0, "train", "answers", prompt or id, seats, 0, turns)


def word(id, scores=None, votes=(), judge="judge"):
    given = None if scores is None else {seat: {"score": value} for seat, value in scores.items()}
    return Judgement(f"{judge}/{id}", id, judge, given, "" if given else "no", tuple(votes))


def compared(by, first, second, value, **more):
    return Vote(by, first, value, second, **more)


def test_a_judge_without_votes_is_its_own_voter():
    matches = [
        match("1", "x", "y", texts=["long answer", "short"]),
        match("2", "x", "y", texts=["abc", "a"]),
    ]
    facts = judge_report(matches, [word("1", {"a": 3.0, "b": 1.0}), word("2", {"a": 2.0})])["judge"]
    assert (facts.judgements, facts.answers, facts.unjudged_share) == (2, 4, 0.25)
    assert (facts.votes, facts.calls, facts.tokens, facts.cost) == (0, 0, 0, 0)
    assert facts.who_judged_whom == {"judge": {"x": MeanGiven(2.5, 2), "y": MeanGiven(1.0, 1)}}
    for name in ("unreadable_share", "first_preferred", "inconsistent", "agreement"):
        assert getattr(facts, name) is None
    assert facts.self_preference == {"judge": None}


def test_only_the_seats_that_a_judge_judges_can_lack_a_score():
    facts = judge_report([match("1", "x", "y")], [word("1", {"a": 3.0})])["judge"]
    assert (facts.answers, facts.unjudged_share) == (1, 0.0)
    facts = judge_report([match("1", "x", "y")], [word("1")])["judge"]
    assert (facts.answers, facts.unjudged_share) == (2, 1.0)


def test_reviews_are_counted_with_what_they_took():
    votes = [Vote("p@1", "a", 4.0, tokens=100, cost=0.25)] * 2
    review = Review("p@1", "a", (), ("x", "y"), ((0, 1, 0), (1, 0, 0)), tokens=800, cost=0.5)
    judged = msgspec.structs.replace(word("1", {"a": 4.0}, votes), reviews=(review,))
    facts = judge_report([match("1", "x")], [judged])["judge"]
    for own in (facts, facts.voters["p"]):
        assert (own.calls, own.tokens, own.cost) == (4, 1000, 1.0)
    assert tokens_of_judging(Sample([match("1", "x")], [judged], 1)) == {"p": 1000}


def test_a_voters_name_may_hold_an_at_sign():
    votes = [Vote("llama@home", "a", 4.0, tokens=7)]
    facts = judge_report([match("1", "x")], [word("1", {"a": 4.0}, votes)])["judge"]
    assert set(facts.voters) == {"llama@home"}
    sample = Sample([match("1", "x")], [word("1", {"a": 4.0}, votes)], 1)
    assert tokens_of_judging(sample) == {"llama@home": 7}


def test_votes_are_counted_and_what_they_took():
    votes = [
        Vote("p@1", "a", 4.0, tokens=10, cost=0.5),
        Vote("q@1", "a", None, reason="?", tokens=7),
        Vote("rule", "a", 1.0),
    ]
    facts = judge_report([match("1", "x")], [word("1", {"a": 2.5}, votes)])["judge"]
    assert (facts.votes, facts.calls, facts.tokens, facts.cost) == (3, 2, 17, 0.5)
    assert facts.unreadable_share == pytest.approx(1 / 3)
    assert {name: found.unreadable_share for name, found in facts.voters.items()} == {
        "p": 0,
        "q": 1,
        "rule": 0,
    }
    assert facts.who_judged_whom == {
        "p": {"x": MeanGiven(4.0, 1)},
        "rule": {"x": MeanGiven(1.0, 1)},
    }


def test_position_bias_and_inconsistency():
    matches = [match(str(n), "x", "y") for n in range(10)]
    first, fair = [], []
    for n in range(
        10
    ):  # one always prefers what is shown first; the other prefers x, whatever the order, or sees a tie
        first.append(
            word(str(n), None, [compared("m", "a", "b", 1.0), compared("m", "b", "a", 0.9)])
        )
        win = 0.5 if n < 2 else 0.8
        fair.append(
            word(
                str(n),
                {"a": win},
                [compared("m", "a", "b", win), compared("m", "b", "a", 1 - win)],
                "fair",
            )
        )
    report = judge_report(matches, first + fair)
    assert report["judge"].first_preferred.mean == 1.0
    assert report["judge"].first_preferred.n == 20
    assert report["judge"].first_preferred.low < 0.9
    assert report["judge"].inconsistent.mean == 1.0
    assert report["fair"].first_preferred.mean == 0.5
    assert report["fair"].first_preferred.n == 16
    assert report["fair"].inconsistent.mean == 0.0
    assert report["fair"].inconsistent.n == 10
    assert report["fair"].inconsistent.high > 0.1
    whom = report["fair"].who_judged_whom["m"]
    assert whom["x"].mean == pytest.approx(0.74)
    assert whom["y"].mean == pytest.approx(0.26)
    assert report["judge"].who_judged_whom["m"]["x"].mean == pytest.approx(0.55)


def test_length_within_prompts_is_apart_from_the_length_that_prompts_ask_for():
    """The prompt that asks for long answers gets high scores; on each prompt the shorter answer
    gets the higher one.
    """
    matches, words = [], []
    for n in range(4):
        texts = ["x" * (100 * n + 10), "x" * (100 * n + 20 + n)]
        matches.append(match(str(n), "x", "y", texts=texts))
        words.append(word(str(n), {"a": 10.0 * n + 2 + 0.1 * n, "b": 10.0 * n + 1}))
    length = judge_report(matches, words)["judge"].length
    assert length.spearman > 0.8
    assert length.within_prompts == pytest.approx(-1.0)
    assert (length.answers, length.answers_within, length.of_pairs, length.pairs) == (8, 8, None, 0)


def test_length_of_pairs_does_not_depend_on_which_seat_was_first():
    matches = [match(str(n), "x", "y", texts=["x" * n, "xxxxx"]) for n in range(10)]
    votes = [
        compared("m", "a", "b", n / 10) if n % 2 else compared("m", "b", "a", 1 - n / 10)
        for n in range(10)
    ]
    length = judge_report(matches, [word(str(n), None, [vote]) for n, vote in enumerate(votes)])[
        "judge"
    ].length
    assert length.of_pairs == pytest.approx(1.0)
    assert length.pairs == 10
    assert length.spearman is None


def test_self_preference_is_apart_from_mildness():
    """p gives everyone 1 more than q does, and itself 3 more; q is even."""
    matches = [match(str(n), "p@2", "q", "r") for n in range(5)]
    words = []
    for n in range(5):
        base = {"a": 1.0 + n, "b": 4.0 - n, "c": 2.0}
        votes = [Vote("q@2", seat, value) for seat, value in base.items()]
        votes += [
            Vote("p@2", seat, value + (4 if seat == "a" else 1)) for seat, value in base.items()
        ]
        words.append(word(str(n), base, votes))
    own = judge_report(matches, words)["judge"].self_preference
    assert own["p"].lead.mean == pytest.approx(4.0)
    assert own["p"].lead_on_others.mean == pytest.approx(1.0)
    assert own["q"].lead.mean == pytest.approx(-1.0)
    assert own["q"].lead.n == 5


def test_self_preference_in_comparisons():
    matches = [match(str(n), "p", "r") for n in range(3)]
    votes = [
        compared("p@0", "a", "b", 0.9),
        compared("p@0", "b", "a", 0.3),
        compared("j", "b", "a", 0.5),
    ]
    own = judge_report(matches, [word(str(n), None, votes) for n in range(3)])[
        "judge"
    ].self_preference
    assert own["p"].lead.mean == pytest.approx(0.8 - 0.5)
    assert own["p"].lead_on_others is None
    assert own["j"] is None


def test_agreement_is_of_voters_on_one_answer():
    matches = [match(str(n), "x", "y") for n in range(6)]
    together = [
        word(str(n), {}, [Vote(v, s, float(n + (s == "a"))) for v in "pq" for s in "ab"])
        for n in range(6)
    ]
    against = [
        word(str(n), {}, [Vote("p", "a", float(n % 2)), Vote("q", "a", 1.0 - n % 2)], "other")
        for n in range(6)
    ]
    alone = [
        word(str(n), {}, [Vote("p", "a", float(n)), Vote("q", "b", float(n))], "third")
        for n in range(6)
    ]
    report = judge_report(matches, together + against + alone)
    assert report["judge"].agreement == VoterAgreement(
        alpha=1.0, alpha_ordinal=1.0, units=12, voters=2
    )
    assert report["other"].agreement.alpha < -0.5
    assert report["third"].agreement is None
    pairs = [word(str(n), {}, [compared(v, "a", "b", n / 6) for v in "pq"]) for n in range(6)]
    facts = judge_report(matches, pairs)["judge"]
    assert facts.agreement is None
    assert facts.agreement_on_pairs.alpha == pytest.approx(1.0)
    assert facts.agreement_on_pairs.units == 6


def test_the_report_is_plain_json():
    matches = [match("1", "x", "y"), match("2", "x", "x")]
    votes = [compared("p@1", "a", "b", 1.0), compared("p@1", "b", "a", None, reason="?")]
    report = msgspec.to_builtins(
        judge_report(
            matches, [word("1", None, votes), word("2", {"a": 1.0, "b": 2.0}, judge="rule")]
        )
    )
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert judge_report(matches, []) == {}


def test_a_judgement_of_a_match_that_is_not_there():
    with pytest.raises(ValueError, match="match 7, which is not among"):
        judge_report([], [word("7", {"a": 1.0})])


def test_agreement_between_two_judges():
    first = [
        {"a": 1.0, "b": 2.0},
        {"a": 5.0, "b": 3.0},
        {"a": 1.0, "b": 1.0},
        {"a": 4.0},
        {"a": 0.0, "b": 9.0},
    ]
    second = [
        {"a": 0.1, "b": 0.3},
        {"a": 0.2, "b": 0.9},
        {"a": 0.4, "b": 0.5},
        {"a": 0.6, "b": 0.7},
    ]
    found = agreement_between(
        [word(str(n), given) for n, given in enumerate(first)],
        [word(str(n), given) for n, given in enumerate(second)] + [word("9", None)],
    )
    ours, theirs = [1, 2, 5, 3, 1, 1, 4], [0.1, 0.3, 0.2, 0.9, 0.4, 0.5, 0.6]
    assert found.answers == 7
    assert found.tied == 1
    assert found.spearman == pytest.approx(spearmanr(ours, theirs)[0])
    assert found.kendall == pytest.approx(kendalltau(ours, theirs)[0])
    assert found.same_winner.mean == 0.5
    assert found.same_winner.n == 2
    assert agreement_between([], []) == Agreement(
        answers=0, spearman=None, kendall=None, same_winner=None, tied=0
    )
    with pytest.raises(ValueError, match="judged twice"):
        agreement_between([word("1", {}), word("1", {})], [])
