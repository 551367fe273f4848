"""What records say of themselves."""

from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, Vote, record_id

SCORES = {"1": {"score": 0.0, "refused": 1.0}, "2": {"refused": 0.0}}


def test_a_judgement_gives_what_was_scored_and_nothing_else():
    judgement = Judgement("j", "m", "exact", SCORES)
    assert judgement.score("1", "score") == 0.0
    assert judgement.score("2", "score") is None
    assert judgement.score("3", "score") is None
    assert judgement.utilities("2") == {"refused": 0.0}
    assert judgement.utilities("3") == {}
    assert judgement.by_seat("score") == {"1": 0.0}
    assert judgement.by_seat("refused") == {"1": 1.0, "2": 0.0}
    assert judgement.names() == {"score", "refused"}


def test_a_judgement_without_scores_has_none():
    judgement = Judgement("j", "m", "exact", None, "no answer was given")
    assert judgement.score("1", "score") is None
    assert judgement.utilities("1") == judgement.by_seat("score") == {}
    assert judgement.names() == set()


def test_players_are_printed_and_parsed():
    assert str(PlayerId("policy", 3)) == "policy@3"
    assert PlayerId.parse("policy@3") == PlayerId("policy", 3)
    assert PlayerId.parse("policy") == PlayerId("policy", 0)


def test_tokens_are_counted_by_the_player_or_by_its_endpoint():
    assert Move("a", token_ids=(1, 2), completion_tokens=5).tokens == 2
    assert Move("a", completion_tokens=5).tokens == 5
    assert Match("m", 0, "train", "answers", "p", {}, 0).turns == ()


def test_an_identity_keeps_its_parts_apart():
    assert record_id("ab", "c") != record_id("a", "bc") != record_id("abc")
    assert record_id("match", 3) == record_id("match", "3")
    assert len(record_id()) == 32


def test_a_seats_last_turn_is_its_newest():
    turns = tuple(Turn(seat, View(), Move(text)) for seat, text in ("1a", "2b", "1c"))
    seats = {seat: PlayerId("policy") for seat in ("2", "1", "3")}
    match = Match("m", 0, "train", "answers", "p", seats, 0, turns)
    last = match.last_turns()
    assert list(last) == ["2", "1"], "in the order of the seats"
    assert [turn.move.text for turn in last.values()] == ["b", "c"]


def test_which_pairs_were_compared():
    """None where nothing was; a verdict that cannot be read compares nothing."""
    votes = (Vote("a", "1", 0.5, "2"), Vote("a", "2", None, "3"), Vote("b", "2", 0.0, "1"))
    judged = Judgement("j", "m", "pairwise", None, votes=(*votes, Vote("a", "1", 0.25)))
    assert judged.compared() == {frozenset({"1", "2"})}
    assert Judgement("j", "m", "pairwise", None, votes=votes[1:2]).compared() == set()
    assert Judgement("j", "m", "pairwise", None, votes=(Vote("a", "1", 0.25),)).compared() is None


def test_records_are_those_of_earlier_runs():
    assert record_id("a", 1) == "b4feb303ba68581ff5140f67114e15e6"
