"""Votes of people: kept whole whatever happens, asked where they tell most, and read as judgements,
ratings and agreement.
"""

import itertools
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import people_run
import pytest

from equipoise.api.rejudge import rejudge
from equipoise.api.rerate import rerate
from equipoise.blocks.html import render
from equipoise.data.pairs import PairMaker
from equipoise.errors import DataError, RunBusy, RunError
from equipoise.ledger.votes_and_matches import (
    HUMAN,
    PEOPLE,
    AnswerRef,
    HumanVote,
    check_name,
    first_votes,
    judged_pairs,
    votes_of,
)
from equipoise.people.ballot import by_gain, open_ballot, shared_pairing
from equipoise.people.vote_results import people_votes, preference_rows
from equipoise.prompts.base import Prompts
from equipoise.ratings.base import Outcome, Ratings
from equipoise.ratings.bradley_terry import information_gain
from equipoise.report.page import page
from equipoise.runs.directory import RunDirectory
from equipoise.types import Message, Prompt

LONG = {"poet": 0, "sage": 1, "clerk": 2}  # people's taste: what they like first


@pytest.fixture(scope="module")
def folder(recorded_folder):
    return recorded_folder("people")


@pytest.fixture
def run(folder, tmp_path):
    """A copy of the run without votes."""
    return shutil.copytree(folder, tmp_path / "run")


def player_of(ballot, ref):
    return ballot._pool.by_ref[ref][1].player.partition("@")[0]


def vote_by_taste(ballot, voter, most=100, taste=LONG):
    """`voter` decides up to `most` questions by taste; the pairs of players asked about."""
    pairs = []
    for _ in range(most):
        question = ballot.question(voter)
        if question is None:
            break
        left, right = (player_of(ballot, ref) for ref in (question.left, question.right))
        choice = "left" if taste[left] < taste[right] else "right"
        ballot.vote(voter, question.left, question.right, choice, f"by {voter}")
        pairs.append(frozenset((left, right)))
    return pairs


def test_everybody_is_asked_everything_once_in_random_places(run):
    with open_ballot(run, overlap=0.0) as ballot:
        asked = vote_by_taste(ballot, "ann")
        assert Counter(asked) == {frozenset(two): 4 for two in itertools.combinations(LONG, 2)}
        vote_by_taste(ballot, "ben")
        votes = votes_of(run).read()
    assert len(votes) == 24 == len({(vote.pair, vote.voter) for vote in votes})
    left = Counter(vote.choice for vote in votes)  # by taste, so the winner's place is by chance
    assert 4 < left["left"] < 20
    places = {vote.pair: vote.left for vote in votes if vote.voter == "ann"}
    same = sum(places[vote.pair] == vote.left for vote in votes if vote.voter == "ben")
    assert 0 < same < 12


def test_those_are_asked_about_whose_votes_tell_most(run):
    with open_ballot(run, overlap=0.0) as ballot:
        first = vote_by_taste(ballot, "ann", 2)
        assert set().union(*first) == set(LONG)  # who was not seen comes next
        # Two who look at once are not both shown the same players.
        ann, ben = ballot.question("ann"), ballot.question("ben")
        shown = [
            {player_of(ballot, each.left), player_of(ballot, each.right)} for each in (ann, ben)
        ]
        assert shown[0] != shown[1]
        assert ballot.question("ann") == ann


def test_pairs_of_players_come_by_what_a_vote_on_them_adds():
    """The less two have met, the more is to be learned; who is not in the pool does not count."""
    names = ["a@0", "a@2", "b@0", "c@1"]
    pool = SimpleNamespace(players=lambda: names, with_itself=False)
    met = {("a@0", "a@2"): 1, ("a@0", "b@0"): 9, ("a@2", "b@0"): 4, ("a@2", "c@1"): 30}
    outcomes = [
        Outcome(*two, result) for two, n in met.items() for result in (1.0, 0.0) for _ in range(n)
    ]
    gain_NN = information_gain(outcomes, names)
    gains = {
        (a, b): gain_NN[i, j] for (i, a), (j, b) in itertools.combinations(enumerate(names), 2)
    }
    assert len({round(gain, 9) for gain in gains.values()}) == 6
    expected = sorted(gains, key=gains.__getitem__, reverse=True)
    strangers = [Outcome("a@0", "gone@0", 1.0)] * 50
    found = by_gain(pool, [*outcomes, *strangers], np.random.default_rng(0))
    assert found == expected
    pool.with_itself = True  # last, the newest first
    itself = [("a@2", "a@2"), ("c@1", "c@1"), ("a@0", "a@0"), ("b@0", "b@0")]
    assert by_gain(pool, outcomes, np.random.default_rng(0)) == [*expected, *itself]
    pool.with_itself = False
    orders = {tuple(by_gain(pool, [], np.random.default_rng(n))) for n in range(20)}
    assert len(orders) > 1
    assert all(set(order) == set(gains) for order in orders)


def test_overlap_asks_again_what_somebody_has_decided(run):
    with open_ballot(run, overlap=1.0) as ballot:
        vote_by_taste(ballot, "ann", 5)
        vote_by_taste(ballot, "ben", 5)
    votes = votes_of(run).read()
    by_voter = {
        name: {vote.pair for vote in votes if vote.voter == name} for name in ("ann", "ben")
    }
    assert by_voter["ann"] == by_voter["ben"]


def test_what_others_voted_on_is_shared_while_both_answers_are_there(run):
    with open_ballot(run, overlap=1.0) as ballot:
        vote_by_taste(ballot, "ann", 3)
        votes = votes_of(run).read()
        pool = ballot._pool
        shared = shared_pairing(pool, votes, "ben")
        assert shared is not None
        refs = {frozenset((vote.left, vote.right)) for vote in votes}
        assert frozenset((shared[1].ref, shared[2].ref)) in refs
        del pool.by_ref[shared[2].ref]
        other = shared_pairing(pool, votes, "ben")
        assert other is None or shared[2].ref not in (other[1].ref, other[2].ref)
        pool.by_ref.clear()
        assert shared_pairing(pool, votes, "ben") is None


def test_what_is_skipped_is_not_asked_again(run):
    with open_ballot(run, overlap=0.0) as ballot:
        skipped = []
        while question := ballot.question("ann", skipped):
            assert question.pair not in skipped
            skipped.append(question.pair)
        assert len(skipped) == 12
        assert ballot.question("ben") is not None


def test_a_vote_counts_once_and_survives_a_restart(run):
    with open_ballot(run) as ballot:
        asked = ballot.question("ann")
        first = ballot.vote("ann", asked.left, asked.right, "left", " because ")
        again = ballot.vote("ann", asked.left, asked.right, "right")
        assert (first, first.choice, first.reason) == (again, "left", "because")
        following = ballot.question("ann")
    with open_ballot(run) as ballot:
        assert ballot.count() == ballot.count("ann") == 1
        assert ballot.question("ann") == following
        assert ballot.vote("ann", asked.left, asked.right, "tie").choice == "left"
    assert votes_of(run).read() == [first]


def test_a_line_that_a_killed_process_left_half_is_dropped(run):
    with open_ballot(run) as ballot:
        vote_by_taste(ballot, "ann", 2)
    journal = votes_of(run)
    whole = journal.path.read_bytes()
    with journal.path.open("ab") as file:
        file.write(whole[:30])
    assert len(journal.read()) == 2
    with open_ballot(run) as ballot:
        vote_by_taste(ballot, "ann", 1)
    assert journal.path.read_bytes().startswith(whole)
    assert len(journal.read()) == 3
    journal.path.write_bytes(b"{}\n" + whole)
    with pytest.raises(RunError, match=r"votes.jsonl, line 1: is damaged"):
        journal.read()


def test_a_second_vote_on_the_run_is_refused(run):
    with (
        open_ballot(run),
        pytest.raises(RunError, match=r"vote on it already.*pid \d+"),
        open_ballot(run),
    ):
        pass


@pytest.mark.parametrize("name", ["", "  ", "a" * 61, "ann@x.org", "a\nb", "a\u202eb", "\x00"])
def test_names_that_no_record_can_bear_are_refused(run, name):
    with pytest.raises(DataError, match="a name has"):
        check_name(name)


def test_only_what_is_asked_can_be_voted_on(run):
    with open_ballot(run) as ballot:
        asked = ballot.question("ann")
        nobody = AnswerRef("0" * 32, "1")
        for left, right in (
            (asked.right, asked.left),
            (asked.left, asked.left),
            (asked.left, nobody),
        ):
            with pytest.raises(DataError, match="no such two answers"):
                ballot.vote("ann", left, right, "left")
        with pytest.raises(DataError, match="at most 2000"):
            ballot.vote("ann", asked.left, asked.right, "left", "x" * 2001)
        assert not votes_of(run).read()


def test_a_run_without_two_different_answers_has_nothing_to_vote_on(tmp_path):
    same = dict.fromkeys(("one", "two"), "It is {i}.")
    people_run.write(tmp_path / "same", answers=same)
    people_run.write(tmp_path / "sole", answers={"one": "It is {i}."})
    for name in ("same", "sole"):
        with pytest.raises(RunError, match="nothing to vote on"), open_ballot(tmp_path / name):
            pass


def test_two_answers_of_one_player_to_a_training_prompt_teach(tmp_path):
    """They rank nobody; held-out answers of one player are not asked about."""
    folder = people_run.write(tmp_path / "sole", answers={"one": "It is {i}."})
    with RunDirectory.open(folder) as opened:
        for i in range(2):
            prompt = Prompt(f"t{i}", (Message("user", f"And {i}?"),))
            texts = {"1": f"Yes, {i}.", "2": f"Yes, {i}.", "3": "No."}
            seats = {seat: ("one", text) for seat, text in texts.items()}
            opened.ledger.add_prompts([prompt], "train", 0)
            opened.ledger.add_matches([people_run.match_of(prompt, seats, "train")])
    asked = []
    with open_ballot(folder, overlap=0.0) as ballot:
        while question := ballot.question("ann"):
            texts = question.left_text, question.right_text
            choice = "left" if texts[0] == "No." else "right"
            ballot.vote("ann", question.left, question.right, choice)
            asked.append(set(texts))
    assert sorted(asked, key=max) == [{"Yes, 0.", "No."}, {"Yes, 1.", "No."}]
    with RunDirectory.read(folder) as opened:
        assert [row["chosen"] for row in preference_rows(opened)] == ["No.", "No."]
        assert list(people_votes(opened).ratings) == []
        assert "<h2>People" in render(page(opened))


def test_answers_that_are_recorded_meanwhile_are_asked_about(run):
    with open_ballot(run, overlap=0.0) as ballot:
        assert len(vote_by_taste(ballot, "ann")) == 12
        with RunDirectory.open(run) as opened:
            people_run.add_answers(opened, 9, people_run.ANSWERS)
            assert not ballot.record()  # the run is in use
        assert len(vote_by_taste(ballot, "ann")) == 3
        assert ballot.record()
    with RunDirectory.read(run) as opened:
        assert len(opened.ledger.matches(PEOPLE)) == 15


def test_votes_are_judgements_that_grow(run):
    with open_ballot(run, overlap=1.0) as ballot:
        vote_by_taste(ballot, "ann", 1)
        ballot.record()
        vote_by_taste(ballot, "ben", 1, {name: -place for name, place in LONG.items()})
    with RunDirectory.open(run) as opened:  # who holds the lock takes them in
        [match] = opened.ledger.matches(PEOPLE)
        judgements = opened.ledger.judgements_of([match.id])
        assert opened.ledger.counts()["judgements"] == 12 + 1
    judgement = judgements[match.id]
    assert judgement.judge == HUMAN
    assert [vote.by for vote in judgement.votes] == ["ann", "ben"]
    assert judgement.by_seat("score") == {"1": 0.5, "2": 0.5}
    assert {vote.reason for vote in judgement.votes} == {"by ann", "by ben"}
    assert {vote.seat for vote in judgement.votes} <= {"1", "2"}


def test_two_bad_answers_are_a_tie_that_is_told_apart(run):
    with open_ballot(run) as ballot:
        asked = ballot.question("ann")
        ballot.vote("ann", asked.left, asked.right, "both_bad", "nonsense")
    with RunDirectory.read(run) as opened:
        [pair] = judged_pairs(opened.ledger, votes_of(run).read(), "score")
    assert pair.judgement.scores == {seat: {"score": 0.5, "both_bad": 1.0} for seat in "12"}
    assert pair.judgement.votes[0].reason == "both bad: nonsense"


@pytest.fixture(scope="module")
def voted(folder, tmp_path_factory):
    """The run after two people of opposite taste, the second with half as many votes."""
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("voted") / "run")
    with open_ballot(copy, overlap=0.0) as ballot:
        vote_by_taste(ballot, "ann")
        vote_by_taste(ballot, "ben", 6, {"poet": 2, "sage": 1, "clerk": 0})
        ballot.record()
    return copy


@pytest.mark.long
def test_people_rank_the_players_with_intervals(voted):
    with RunDirectory.read(voted) as run:
        by_people = rerate(run, judge=HUMAN)
        elo = rerate(run, Ratings.build("elo"), "votes")
        votes = people_votes(run)
    [ratings] = by_people.ratings
    assert (by_people.rated_by, by_people.kind) == ("votes", "bradley_terry")
    assert [rating.name for rating in ratings] == ["poet@0", "sage@0", "clerk@0"]
    assert all(rating.low < rating.value < rating.high for rating in ratings)
    assert elo.kind == "elo"
    assert elo.ratings[0][0].name == "poet@0"
    assert votes is not None
    assert votes.by_voter == {"ann": 12, "ben": 6}
    left = sum(vote.choice == "left" for vote in votes.votes)
    right = sum(vote.choice == "right" for vote in votes.votes)
    assert votes.left_preferred == left / (left + right)
    assert 0 < left < left + right


def test_judges_are_held_against_people(voted):
    with RunDirectory.read(voted) as run:
        votes = people_votes(run)
    assert votes is not None
    [beside] = votes.judges
    assert beside.judge == "shorter"
    assert beside.agreement.answers == 24
    # It likes short answers, as ben does; ann does not, and ben's votes tie with hers.
    same = beside.agreement.same_winner
    assert same is not None
    assert (same.mean, same.n) == (0.0, 6)
    assert beside.calibration is not None
    assert beside.calibration.slope < 0
    assert votes.among_people is not None
    assert votes.among_people.units == 6
    assert votes.among_people.alpha < 0


def test_another_judge_can_be_tried_on_what_people_decided(voted, tmp_path):
    own = shutil.copytree(voted, tmp_path / "run")
    with RunDirectory.open(own) as run:
        from equipoise.judges.base import Judge

        longer = {"kind": "call", "function": f"{__name__}:length"}
        rejudged = rejudge(run, Judge.build(longer), "people")
    assert (rejudged.beside, rejudged.matches) == (HUMAN, 12)
    assert rejudged.agreement is not None
    same = rejudged.agreement.same_winner
    assert same is not None
    assert (same.mean, same.n) == (1.0, 6)


def length(prompt, text):
    return float(len(text))


@pytest.mark.long
def test_the_report_shows_what_people_said_and_hides_nothing_in_it(voted):
    with RunDirectory.read(voted) as run:
        sections = {section.name: section for section in page(run).sections}
        text = render(page(run))
    assert sections["people"].blocks[0].tiles[0].value == "18"
    assert "by ben" in text
    assert "Judges beside people" in text


def test_a_run_without_votes_says_so(folder):
    with RunDirectory.read(folder) as run:
        assert people_votes(run) is None
        assert "people" not in {section.name for section in page(run).sections}
        with pytest.raises(RunError, match="nobody has voted yet"):
            rerate(run, judge=HUMAN)


def test_votes_of_another_run_are_left_out(run):
    stranger = HumanVote(AnswerRef("a", "1"), AnswerRef("b", "1"), "left", "ann")
    votes_of(run).add(stranger)
    with RunDirectory.read(run) as opened:
        assert people_votes(opened) is None
    assert first_votes([stranger, stranger]) == [stranger]


def test_the_lock_of_a_run_in_use_has_its_own_error(run):
    with (
        RunDirectory.hold_lock(run),
        pytest.raises(RunBusy, match="in use"),
        RunDirectory.hold_lock(run),
    ):
        pass


def test_votes_are_data_that_pairs_are_made_of(voted, command, tmp_path):
    exported = command("export", voted, "--to", tmp_path / "data", "--votes", "--json")
    assert list(exported.facts.values()) == [4]  # a row a prompt
    path = tmp_path / "data" / "votes.jsonl"
    prompts = Prompts.build({"kind": "files", "path": str(path)}).load().training
    pairs, dropped = PairMaker.build("data").data_pairs(prompts, 0)
    assert len(pairs) == 4
    assert not dropped
    for pair in pairs:
        assert pair.messages[0].content.startswith("What is number")
        assert (pair.chosen_score, pair.rejected_score) == (1.0, 0.0)
        # As ann likes it, where ben has not voted or agrees.
        assert "ask yourself" in pair.chosen or "thou art" in pair.chosen


def test_votes_that_cannot_be_exported_so_are_an_error(voted, command, tmp_path):
    (tmp_path / "file").touch()
    result = command("export", voted, "--to", tmp_path / "file", "--votes")
    assert result.code == 2
    assert "cannot be written" in result.err
    for other in (["--push", "org/name"], ["--answers"]):
        result = command("export", voted, "--to", tmp_path / "data", "--votes", *other)
        assert result.code == 2
        assert "give one of them" in result.err
    assert not (tmp_path / "data").exists()


def test_what_nobody_preferred_is_no_data(folder, command, tmp_path):
    result = command("export", folder, "--to", tmp_path / "data", "--votes")
    assert result.code == 2
    assert "preferred no answer yet" in result.err
