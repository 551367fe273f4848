"""Pairs from judged matches: who is set against whom, and what is dropped under which name."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy.optimize import minimize

from equipoise.data.pairs import (
    AllPairs,
    BestWorst,
    JudgedMatches,
    Margin,
    MetaRewarding,
    PairMaker,
    grading_strengths,
    place_weights,
)
from equipoise.errors import ConfigError
from equipoise.types import (
    Judgement,
    Match,
    Message,
    Move,
    PlayerId,
    Review,
    Turn,
    View,
    Vote,
    record_id,
    user,
)

CHAT = (user("?"),)
TOLD = (Message("system", "Be brief."),)
MAKERS = [BestWorst(), AllPairs(), Margin(min_margin=2), MetaRewarding(tier=0.2)]


def played(answers, id="m", prompt="p", chats=None):
    """A match and its judgement; an answer is (text, score), score None for unjudged, text None for
    a failed move.
    """
    seats = [str(i + 1) for i in range(len(answers))]
    turns = tuple(
        Turn(seat, View(chat), Move("", "error", error="oops") if text is None else Move(text))
        for seat, (text, _), chat in zip(seats, answers, chats or [CHAT] * len(seats), strict=True)
    )
    match = Match(
        id, 3, "train", "answers", prompt, dict.fromkeys(seats, PlayerId("policy", 3)), 0, turns
    )
    scores = {
        seat: {"score": float(score)}
        for seat, (_, score) in zip(seats, answers, strict=True)
        if score is not None
    }
    return match, Judgement(f"j-{id}", id, "test", scores or None, "" if scores else "no idea")


def make(maker, *games):
    return maker.make(JudgedMatches([match for match, _ in games], [word for _, word in games]))


def texts(pairs):
    return [(pair.chosen, pair.rejected) for pair in pairs]


def test_best_against_worst():
    pairs, dropped = make(BestWorst(), played([("b", 2), ("a", 1), ("d", 4), ("c", 3)]))
    assert texts(pairs) == [("d", "a")]
    assert dropped == {}
    (pair,) = pairs
    assert (pair.chosen_score, pair.rejected_score) == (4.0, 1.0)
    assert (pair.generation, pair.prompt, pair.match, pair.messages) == (3, "p", "m", CHAT)


def test_all_pairs_and_margin():
    game = played([("a", 1), ("b", 2), ("c", 4), ("d", 4)])
    assert Counter(texts(make(AllPairs(), game)[0])) == Counter(
        [("b", "a"), ("c", "a"), ("d", "a"), ("c", "b"), ("d", "b")]
    )
    assert set(texts(make(Margin(min_margin=2), game)[0])) == {
        ("c", "a"),
        ("d", "a"),
        ("c", "b"),
        ("d", "b"),
    }
    assert make(Margin(min_margin=4), game) == ([], {"margin": 1})


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.kind)
def test_what_every_maker_drops(maker):
    games = [
        played([("a", 1), ("b", 1)], "tie"),
        played([("a", 1), ("a", 5)], "identical"),
        played([("a", 1), ("b", None)], "one judged"),
        played([("a", None), ("b", None)], "none judged"),
        played([("a", 1), (None, None)], "failed"),
        played([(None, 1), ("a", 5)], "failed but judged"),
        played([("a", 1), ("b", 5), (None, None)], "good"),
        played([("a", 1), ("b", 5)], "different chats", chats=[CHAT, ()]),
        played([("a", 1), ("b", 5)], "same question", chats=[CHAT, (*TOLD, *CHAT)]),
    ]
    pairs, dropped = make(maker, *games)
    assert texts(pairs) == [("b", "a")]
    assert pairs[0].match == "good"
    assert dropped == {"tie": 1, "identical": 1, "unjudged": 4, "error": 2}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.kind)
def test_a_match_without_a_judgement_is_unjudged(maker):
    match, _ = played([("a", 1), ("b", 5)])
    assert maker.make(JudgedMatches([match], [])) == ([], {"unjudged": 1})


def test_equal_texts_are_one_answer_with_their_mean_score():
    pairs, _ = make(BestWorst(), played([("a", 0), ("a", 4), ("b", 1), ("c", 3)]))
    assert texts(pairs) == [("c", "b")]
    pairs, _ = make(AllPairs(), played([("a", 0), ("a", 4), ("b", 1)]))
    assert [(pair.chosen, pair.chosen_score) for pair in pairs] == [("a", 2.0)]


def test_ties_among_the_best_do_not_depend_on_the_seats():
    answers = [("a", 1), ("b", 1), ("c", 0), ("d", 0)]
    first = make(BestWorst(), played(answers))[0]
    assert first == make(BestWorst(), played(answers[::-1]))[0]
    chosen = {texts(make(BestWorst(), played(answers, f"m{i}"))[0])[0] for i in range(40)}
    assert chosen == {(best, worst) for best in "ab" for worst in "cd"}


def asked_about(game, *pairs):
    """The match and its judgement by a judge that compared these pairs of seats alone; "12?": its
    verdict could not be read.
    """
    match, judgement = game
    votes = tuple(Vote("test", a, None if unread else 1.0, b) for a, b, *unread in pairs)
    return match, structs.replace(judgement, votes=votes)


def test_only_answers_that_were_compared_make_a_pair():
    game = played([("worst", 0), ("bad", 1), ("good", 2), ("best", 3)])
    ring = asked_about(game, "13", "32", "24", "41?")
    made = texts(make(AllPairs(), ring)[0])
    assert made == [("best", "bad"), ("good", "bad"), ("good", "worst")]
    # two pairs are as wide; the better of the best answers decides
    assert texts(make(BestWorst(), ring)[0]) == [("best", "bad")]
    # of those good and bad enough the shortest and the longest, where they were compared
    assert texts(make(MetaRewarding(tier=0.4), ring)[0]) == [("good", "worst")]
    assert make(Margin(min_margin=3), ring) == ([], {"margin": 1})
    assert texts(make(Margin(min_margin=3), game)[0]) == [("best", "worst")]


def test_an_answer_that_two_gave_was_compared_where_either_was():
    game = played([("same", 2), ("other", 1), ("same", 2), ("third", 0)])
    assert texts(make(AllPairs(), asked_about(game, "32"))[0]) == [("same", "other")]
    # all that were compared are equally good
    tied = asked_about(played([("a", 1), ("b", 1), ("c", 0)]), "12")
    assert make(AllPairs(), tied) == ([], {"tie": 1})


def test_of_equally_bad_answers_the_last_by_hash_is_rejected():
    for texts_of in (("b", "c", "d"), ("d", "b", "c")):
        (pair,) = make(BestWorst(), played([("a", 1), *((text, 0) for text in texts_of)]))[0]
        assert pair.rejected == max("bcd", key=lambda text: record_id("m", text))


def test_a_limit_a_prompt_keeps_the_widest_gaps():
    games = [
        played([("a", 1), ("b", 2)], "narrow"),
        played([("a", 1), ("c", 9)], "wide"),
        played([("a", 1), ("d", 5)], "middle"),
        played([("a", 1), ("e", 2)], "other prompt", prompt="q"),
    ]
    pairs, dropped = make(BestWorst(per_prompt=2), *games)
    assert [pair.match for pair in pairs] == ["wide", "middle", "other prompt"]
    assert dropped == {"limit": 1}
    pairs, dropped = make(AllPairs(per_prompt=1), played([("a", 1), ("b", 2), ("c", 4)]))
    assert texts(pairs) == [("c", "a")]
    assert dropped == {}


def test_a_last_turn_is_what_competes():
    match, word = played([("a", 1), ("b", 2)])
    earlier = Turn("1", View(CHAT), Move("draft"))
    match = Match(match.id, 3, "train", "answers", "p", match.seats, 0, (earlier, *match.turns))
    assert texts(BestWorst().make(JudgedMatches([match], [word]))[0]) == [("b", "a")]


def test_another_utility():
    match, _ = played([("a", 1), ("b", 2)])
    word = Judgement("j", "m", "test", {"1": {"score": 1, "kind": 5}, "2": {"score": 2, "kind": 3}})
    assert texts(BestWorst().make(JudgedMatches([match], [word], "kind"))[0]) == [("a", "b")]
    with pytest.raises(ConfigError, match="'kin'; did you mean 'kind'"):
        BestWorst().make(JudgedMatches([match], [word], "kin"))


def test_makers_are_found_by_kind():
    assert [PairMaker.build(maker.settings()) for maker in MAKERS] == MAKERS


@pytest.mark.long
@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "c", None]), st.sampled_from([None, 0.0, 1.0, 2.5])
            ),
            max_size=5,
        ),
        max_size=6,
    )
)
def test_every_match_gives_a_pair_or_is_counted_once(answers):
    games = [played(one, f"m{i}") for i, one in enumerate(answers)]
    for maker in MAKERS:
        pairs, dropped = make(maker, *games)
        assert len({pair.match for pair in pairs}) + sum(dropped.values()) == len(games)
        assert len({pair.id for pair in pairs}) == len(pairs)
        for pair in pairs:
            assert pair.chosen != pair.rejected
            assert pair.chosen_score > pair.rejected_score
        by_match = {pair.match: pair for pair in make(AllPairs(), *games)[0]}
        if maker.kind == "best_worst":
            assert {pair.match for pair in pairs} == set(by_match)


# -- Meta-Rewarding


def test_of_answers_about_as_good_the_shortest_is_chosen_and_of_the_bad_the_longest_rejected():
    """Scores from 0 to 10, tier .2: from 8 an answer is good, up to 2 it is bad."""
    game = played([("a" * 9, 10), ("a" * 4, 8), ("a", 7.9), ("b" * 5, 2.1), ("b" * 3, 2), ("b", 0)])
    (pair,) = make(MetaRewarding(tier=0.2), game)[0]
    assert (pair.chosen, pair.rejected) == ("a" * 4, "b" * 3)
    assert (pair.chosen_score, pair.rejected_score) == (8, 2)
    assert texts(make(MetaRewarding(), game)[0]) == [("a" * 9, "b")]


def reviewed(*battles, replies=("one", "two", "three"), id="m"):
    match, judgement = played([("a", 1), ("b", 2)], id)
    review = Review("policy@3", "1", (user("Grade it."),), replies, battles)
    kept = Judgement(judgement.id, id, "test", judgement.scores, reviews=(review,))
    return match, kept


def test_a_grading_that_wins_is_preferred_to_one_that_loses():
    fair = [(0, 1, 0), (1, 0, 0), (0, 2, 0), (2, 0, 0), (1, 2, 1), (2, 1, 1)]
    pairs, dropped = make(MetaRewarding(), reviewed(*fair))
    assert texts(pairs) == [("b", "a"), ("one", "three")]
    assert dropped == {}
    assert pairs[1].messages == (user("Grade it."),)
    assert pairs[1].match == "m"
    assert pairs[1].chosen_score > 0 > pairs[1].rejected_score
    long = make(MetaRewarding(longest_grading=2), reviewed(*fair))
    assert (texts(long[0]), long[1]) == ([("b", "a")], {"grading_long": 1})
    even = make(MetaRewarding(), reviewed((0, 1, 0), (1, 0, 1), replies=("one", "two")))
    assert (texts(even[0]), even[1]) == ([("b", "a")], {"grading_tie": 1})
    unread = make(MetaRewarding(), reviewed(replies=("one", "two")))
    assert unread[1] == {"grading_unread": 1}
    assert texts(make(BestWorst(), reviewed(*fair))[0]) == [("b", "a")]


def test_wins_count_by_their_place_over_all_reviews():
    """The first place wins three of four battles, so that a win there is worth a third of one in
    the second place.
    """
    always_first = reviewed((0, 1, 0), (1, 0, 1), replies=("one", "two"), id="n")
    odd = reviewed((0, 1, 0), (1, 0, 0), replies=("one", "two"))
    reviews = [judgement.reviews[0] for _, judgement in (always_first, odd)]
    assert place_weights(reviews) == (0.25, 0.75)
    pairs, _ = make(MetaRewarding(), always_first, odd)
    assert texts(pairs)[2:] == [("one", "two")]
    assert place_weights([]) == (0.5, 0.5)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.8)])
def test_the_strengths_are_the_likeliest_of_the_battle_matrix(weights):
    """arg max over ε of Σ B_mn log σ(ε_m − ε_n), with a drawn game of each against 0."""
    dice = np.random.default_rng(4)
    battles = [(m, n, int(dice.choice((m, n)))) for m, n in itertools.permutations(range(5), 2)]
    won_NN = np.zeros((5, 5))
    for first, second, winner in battles:
        place, loser = (0, second) if winner == first else (1, first)
        won_NN[winner, loser] += weights[place]

    def loss(strength_N):
        gap_NN = strength_N[:, None] - strength_N
        drawn = (np.log1p(np.exp(-strength_N)) + np.log1p(np.exp(strength_N))).sum() / 2
        return (won_NN * np.log1p(np.exp(-gap_NN))).sum() + drawn

    best_N = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    review = Review("a@0", "1", (), tuple("vwxyz"), tuple(battles))
    assert grading_strengths(review, weights) == pytest.approx(best_N.tolist(), abs=1e-4)
