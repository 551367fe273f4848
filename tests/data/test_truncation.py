"""Answers that were cut have no end that they never sampled."""

import msgspec
import pytest

from equipoise.data.opponent_logprobs import text_key
from equipoise.data.pairs import BestWorst, JudgedMatches
from equipoise.data.truncation import drop_truncated, fitting_pairs, mark_truncated, truncated_seats
from equipoise.errors import DataError
from equipoise.types import Judgement, Match, Move, Pair, PlayerId, Turn, View, user

CHAT = (user("?"),)


def played(*answers):
    """A match of (text, finish), the first the best."""
    turns = tuple(
        Turn(str(i), View(CHAT), Move(text, finish)) for i, (text, finish) in enumerate(answers)
    )
    seats = dict.fromkeys([turn.seat for turn in turns], PlayerId("policy"))
    scores = {seat: {"score": -float(seat)} for seat in seats}
    match = Match("m", 0, "train", "answers", "p", seats, 0, turns)
    return match, Judgement("j", "m", "test", scores)


def pairs_of(match, judgement):
    return BestWorst().make(JudgedMatches([match], [judgement]))[0]


def test_cut_answers_are_marked_in_their_pairs():
    match, judgement = played(("a", "length"), ("b", "stop"), ("c", "stop"))
    (pair,) = mark_truncated(pairs_of(match, judgement), [match])
    assert (pair.chosen, pair.chosen_cut, pair.rejected_cut) == ("a", True, False)
    assert truncated_seats(match) == {"0"}


def test_a_text_that_another_seat_ended_is_whole():
    match, judgement = played(("a", "length"), ("a", "stop"), ("c", "length"))
    (pair,) = mark_truncated(pairs_of(match, judgement), [match])
    assert (pair.chosen_cut, pair.rejected_cut) == (False, True)


def test_dropped_answers_make_no_pair():
    match, judgement = played(("a", "length"), ("b", "stop"), ("c", "stop"))
    (whole,), left_out = drop_truncated([match])
    (pair,) = pairs_of(whole, judgement)
    assert (pair.chosen, pair.rejected, left_out) == ("b", "c", 0)
    match, _ = played(("a", "length"), ("b", "length"), ("c", "stop"))
    assert drop_truncated([match]) == ([], 1)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_cut_answer_is_encoded_without_an_end(model_folder, family):
    from equipoise.models.loading import load_encoding

    encoding = load_encoding(str(model_folder(family)))
    whole = encoding.answer_ids("It is seven.")
    cut = encoding.answer_ids("It is seven.", ended=False)
    assert whole[: len(cut)] == cut
    assert whole[-1] in encoding.stop_ids
    assert not set(cut) & set(encoding.stop_ids)
    ids, start = encoding.join(CHAT, "It is seven.", ended=False)
    assert ids[start:] == cut


def test_a_cut_answer_is_another_text():
    assert text_key(CHAT, "a") == text_key(CHAT, "a", cut=False)
    assert text_key(CHAT, "a") != text_key(CHAT, "a", cut=True)


def test_an_answer_from_another_match_is_cut_where_it_was_cut_there():
    """As where two matches part at one state."""
    first, _ = played(("a", "stop"))
    second = msgspec.structs.replace(played(("b", "length"))[0], id="other")
    pair = Pair("x", 0, "p", CHAT, "a", "b", 1.0, 0.0, first.id)
    (marked,) = mark_truncated([pair], [first, second])
    assert (marked.chosen_cut, marked.rejected_cut) == (False, True)


def test_a_cut_move_before_a_seats_last_is_dropped_too():
    match, _ = played(("bet", "length"), ("fold", "stop"))
    both = tuple(msgspec.structs.replace(turn, seat="0") for turn in match.turns)
    (kept,), _ = drop_truncated([msgspec.structs.replace(match, turns=both)], needed=1)
    assert [turn.move.text for turn in kept.turns] == ["fold"]


def test_pairs_that_do_not_fit_go_or_stay_as_is_said():
    short = Pair("a", 0, "p", CHAT, "yes", "no", 1.0, 0.0)
    longer = msgspec.structs.replace(short, id="b", rejected="no, " * 9)
    seen = []

    def fits(row):
        seen.append(row)
        return len(row[1]) < 9

    assert fitting_pairs([short, longer], fits, "drop") == ([short], 1)
    assert fitting_pairs([longer, short], fits, "cut_answer") == ([longer, short], 1)
    assert fitting_pairs([short], fits, "stop") == ([short], 0)
    with pytest.raises(DataError, match=r"do not fit the learner's max_length .*begins '\?'"):
        fitting_pairs([short, longer], fits, "stop")
    assert (CHAT, "no, " * 9, False) in seen
