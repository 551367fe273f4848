"""What people's votes become, from records made here: judgements, outcomes, questions; and the file
that keeps them.
"""

import resource

import pytest

from equipoise.errors import DataError, DiskFull, RunError
from equipoise.ledger.ledger import MEETING, Ledger
from equipoise.ledger.votes_and_matches import (
    AnswerRef,
    HumanVote,
    check_name,
    first_votes,
    human_outcomes,
    judged_pairs,
    pair_id,
    votes_of,
)
from equipoise.people import ballot
from equipoise.people.ballot import AnswerPool, choose, on_the_left
from equipoise.ratings.base import Outcome
from equipoise.types import (
    Judgement,
    Match,
    Message,
    Move,
    PlayerId,
    Turn,
    View,
    Vote,
    record_id,
    user,
)

ASKED = (user("What?"),)


def match(name, generation=0, split="held_out", asked=ASKED, game="answers", **texts):
    """A match in which players of a generation answered: name -> text, or a move."""
    seats = {str(n): PlayerId(who, generation) for n, who in enumerate(texts, 1)}
    moves = [Move(text) if isinstance(text, str) else text for text in texts.values()]
    turns = tuple(Turn(s, View(asked), m) for s, m in zip(seats, moves, strict=True))
    return Match(name, generation, split, game, "p", seats, 7, turns)


ANN, BEN, CAT = (AnswerRef(*place) for place in (("m1", "1"), ("m2", "1"), ("m2", "2")))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as made:
        made.add_matches(
            [match("m1", ann="one"), match("m2", 3, ben="two", cat="three", dan="one")]
        )
        yield made


def test_votes_on_two_answers_are_one_judgement(ledger):
    votes = [
        HumanVote(BEN, ANN, "left", "x", "shorter"),
        HumanVote(ANN, BEN, "left", "y"),
        HumanVote(ANN, BEN, "both_bad", "z", "no"),
        HumanVote(BEN, ANN, "tie", "u"),
        HumanVote(BEN, ANN, "right", "x"),  # once is enough
        HumanVote(ANN, AnswerRef("elsewhere", "1"), "left", "x"),
    ]
    [pair] = judged_pairs(ledger, votes, "score")
    identity = pair_id(ANN, BEN)
    assert pair.sources == {"1": ANN, "2": BEN}
    assert pair.match == Match(
        identity, 3, "people", MEETING, "p",
        {"1": PlayerId("ann"), "2": PlayerId("ben", 3)}, 0,
        (Turn("1", View(ASKED), Move("one")), Turn("2", View(ASKED), Move("two"))),
    )  # fmt: skip
    assert pair.judgement == Judgement(
        record_id("judgement", identity, "human"), identity, "human",
        {"1": {"score": 0.5, "both_bad": 0.25}, "2": {"score": 0.5, "both_bad": 0.25}},
        votes=(
            Vote("x", "2", 1.0, "1", "shorter"),
            Vote("y", "1", 1.0, "2"),
            Vote("z", "1", 0.5, "2", "both bad: no"),
            Vote("u", "2", 0.5, "1"),
        ),
    )  # fmt: skip
    assert human_outcomes([pair]) == [
        Outcome("ben@3", "ann@0", 1.0),
        Outcome("ann@0", "ben@3", 1.0),
        Outcome("ann@0", "ben@3", 0.5),
        Outcome("ben@3", "ann@0", 0.5),
    ]
    [uneven] = judged_pairs(ledger, votes[1:2], "score")
    assert uneven.judgement.by_seat("score") == {"1": 1.0, "2": 0.0}
    assert [vote.voter for vote in first_votes(votes)] == ["x", "y", "z", "u", "x"]


def test_a_file_of_votes_is_whole_or_says_which_line_is_not(tmp_path):
    journal = votes_of(tmp_path)
    assert journal.read() == []
    votes = [HumanVote(ANN, BEN, "left", "x", "r" * 5_000), HumanVote(ANN, CAT, "tie", "y")]
    journal.add(votes[0])
    with journal.path.open("ab") as file:
        file.write(b'{"left": ' + b"x" * 9_000)  # of a killed process
    journal.add(votes[1])
    assert journal.read() == votes
    assert journal.path.read_bytes().endswith(b"\n")
    assert journal.path == tmp_path / "people" / "votes.jsonl"
    fresh = votes_of(tmp_path / "other")
    fresh.path.parent.mkdir(parents=True)
    fresh.path.write_bytes(b"half")
    fresh.add(votes[1])
    assert fresh.read() == [votes[1]]
    with journal.path.open("ab") as file:
        file.write(b'{"left": 3}\n')
    with pytest.raises(RunError, match=r"votes.jsonl, line 3: is damaged \(.*take the line out"):
        journal.read()


def test_a_vote_that_a_full_disk_refuses_leaves_no_half_of_itself(tmp_path):
    journal = votes_of(tmp_path)
    journal.add(HumanVote(ANN, BEN, "left", "x"))
    size, limits = journal.path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        with pytest.raises(DiskFull, match=r"votes.jsonl: cannot write .*free some space"):
            journal.add(HumanVote(ANN, CAT, "tie", "y", "r" * 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.path.stat().st_size == size


@pytest.mark.parametrize("name", ["", " ", "a" * 61, "a@b", "a\x00", "a\u202eb"])
def test_names_that_cannot_be(name):
    with pytest.raises(DataError, match=r"^a name has"):
        check_name(name)


def test_names_are_normalised():
    assert check_name(f" {'a' * 60} ") == "a" * 60
    assert check_name("Zoe\u0308") == "Zoë"


def pool_of(*matches, part="held_out"):
    pool = AnswerPool(part)
    for each in matches:
        pool._add(each)
    return pool


def test_which_answers_can_be_asked_about():
    acted = match("m3", eve="rock")
    with_actions = Match(
        "m3", 0, "held_out", "matrix", "p", acted.seats, 0,
        (Turn("1", View(ASKED, ("rock",)), Move("rock")),),
    )  # fmt: skip
    pool = pool_of(
        match("m1", ann="one", ben=" one ", cat=Move("", "error", error="no"), dan=" "),
        match("m2", ann="other", ben="two", asked=(Message("system", "Be."), *ASKED)),
        match("m4", ann="again"),
        match("m5", fay="alone", asked=()),
        with_actions,
    )
    assert len(pool.chats) == 2
    assert set(pool.chats_of) == {"ann@0", "ben@0"}
    assert pool.players() == ["ann@0", "ben@0"]
    assert pool.has_pairs()
    [(chat, one, other)] = pool.pairs("ann@0", "ben@0")
    assert (chat.messages[0].content, one.text, other.text) == ("Be.", "other", "two")
    assert [*pool.pairs("ann@0", "ann@0")] == []
    assert not pool_of(match("m1", ann="one", ben=" one ")).has_pairs()
    assert pool_of(match("m1", ann="one")).players() == []
    training = pool_of(
        match("m1", ann="one"), match("m2", ann=" one"), match("m3", ann="two"), part="train"
    )
    [(_, one, other)] = training.pairs("ann@0", "ann@0")
    assert (one.ref.match, other.ref.match) == ("m1", "m3")
    assert training.players() == ["ann@0"]
    assert training.has_pairs()


def test_only_what_is_new_is_read(ledger):
    pool = AnswerPool("held_out")
    pool.read(ledger)
    assert set(pool.chats_of) == {"ann@0", "ben@3", "cat@3", "dan@3"}
    before = dict(pool.by_ref)
    ledger.add_matches([match("m9", eve="new"), match("m8", split="train", fay="other part")])
    ledger.add_matches([match("m7", game=MEETING, gus="side by side")])
    pool.read(ledger)
    assert pool.by_ref.keys() - before.keys() == {AnswerRef("m9", "1")}
    assert all(pool.by_ref[ref][1] is before[ref][1] for ref in before)


def test_who_is_asked_what():
    """Everything once; what others look at or have decided comes later; the skipped not at all."""
    pool = pool_of(
        match("m1", ann="one", ben="two"), match("m2", ann="1", ben="2", asked=(user("Else?"),))
    )
    refs = {
        pair_id(one.ref, other.ref): (one.ref, other.ref)
        for _, one, other in pool.pairs("ann@0", "ben@0")
    }
    first = choose(pool, [], "x", overlap=0.0)
    shown = pair_id(first[1].ref, first[2].ref)
    [other] = refs.keys() - {shown}

    def asked(votes=(), voter="x", **more):
        found = choose(pool, votes, voter, **{"overlap": 0.0, **more})
        return None if found is None else pair_id(found[1].ref, found[2].ref)

    assert asked(skipped=[shown]) == other
    assert asked(skipped=[*refs]) is None
    assert asked(pending=[refs[shown]]) == other
    theirs = [HumanVote(*refs[shown], "left", "y")]
    assert asked(theirs) == other
    assert asked(theirs, overlap=1.0) == shown
    mine = [HumanVote(*refs[shown], "left", "x")]
    assert asked(mine) == other == asked(mine, overlap=1.0)
    assert asked([*mine, HumanVote(*refs[other], "tie", "x")]) is None
    twice = [HumanVote(*refs[shown], "left", v) for v in "yz"] + [
        HumanVote(*refs[other], "left", "y")
    ]
    assert asked(twice, overlap=1.0) == other, "of those that others voted on, the fewest votes"
    sides = {on_the_left(first, str(n))[0].player for n in range(20)}
    assert sides == {"ann@0", "ben@0"}
    assert [on_the_left(first, "x") for _ in range(3)] == [on_the_left(first, "x")] * 3
    turned = first._replace(one=first.other, other=first.one)
    assert on_the_left(turned, "x") == on_the_left(first, "x")


def test_votes_and_glances_are_outcomes():
    pool = pool_of(match("m1", ann="one", ben="two"))
    one, two = AnswerRef("m1", "1"), AnswerRef("m1", "2")
    votes = [HumanVote(two, one, "left", "x"), HumanVote(one, AnswerRef("no", "1"), "left", "x")]
    votes += [HumanVote(one, two, "right", "y"), HumanVote(one, two, "tie", "z")]
    assert [*ballot.voted_outcomes(pool, votes)] == [
        Outcome("ben@0", "ann@0", 1.0),
        Outcome("ann@0", "ben@0", 0.0),
        Outcome("ann@0", "ben@0", 0.5),
    ]
    assert [*ballot.pending_outcomes(pool, [(two, one)])] == [Outcome("ben@0", "ann@0", 0.5)]
