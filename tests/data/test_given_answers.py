"""Pairs with answers that the data brings: TRL's preference rows, plain and conversational."""

import pytest
from msgspec import structs

from equipoise.data.given_answers import Data, DataWins
from equipoise.data.pairs import JudgedMatches, PairMaker
from equipoise.errors import DataError
from equipoise.prompts.base import PromptSource
from equipoise.prompts.row_prompts import to_prompt
from equipoise.prompts.split import split
from equipoise.types import Match, Move, Pair, PlayerId, Turn, View, record_id, user

QUESTION = {"role": "user", "content": "Why?"}


def said(text):
    return {"role": "assistant", "content": text}


def match_of(prompt, *texts):
    """A match in which each seat answers one of the texts."""
    seats = {str(i): PlayerId("policy", 3) for i, _ in enumerate(texts)}
    turns = tuple(Turn(str(i), View((user("Why?"),)), Move(text)) for i, text in enumerate(texts))
    return Match("m", 3, "train", "answers", prompt.id, seats, 0, turns)


ROWS = {
    "plain": {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
    "conversational": {"prompt": [QUESTION], "chosen": [said("So.")], "rejected": [said("No.")]},
    "implicit prompt": {"chosen": [QUESTION, said("So.")], "rejected": [QUESTION, said("No.")]},
    "prompt and whole chats": {
        "prompt": "Why?",
        "chosen": [QUESTION, said("So.")],
        "rejected": [QUESTION, said("No.")],
    },
}


@pytest.mark.parametrize("name", ROWS)
def test_every_preference_format_of_trl_gives_its_pair(name):
    prompt = to_prompt(ROWS[name], "row 1", "rows.jsonl")
    (pair,), dropped = Data().data_pairs([prompt], 0)
    assert (pair.chosen, pair.rejected, dropped) == ("So.", "No.", {})
    assert (pair.chosen_score, pair.rejected_score) == (1.0, 0.0)
    assert pair.messages == prompt.messages
    assert pair.messages[-1].content == "Why?"
    assert Data().why_no_pair(prompt, 0) == ""


def test_a_row_has_scores_of_its_own():
    row = {**ROWS["plain"], "score_chosen": 8.5, "score_rejected": 3}
    (pair,), _ = Data().data_pairs([to_prompt(row, "", "")], 0)
    assert (pair.chosen_score, pair.rejected_score) == (8.5, 3.0)


def test_rows_without_a_pair_are_counted_by_reason():
    rows = [
        {"prompt": "a", "chosen": "x"},
        {"prompt": "b", "chosen": "x", "rejected": "x"},
        {"prompt": "c", "chosen": "x", "rejected": "y"},
    ]
    prompts = [to_prompt(row, "", "") for row in rows]
    pairs, dropped = Data().data_pairs(prompts, 0)
    assert len(pairs) == 1
    assert dropped == {"no_answer": 1, "identical": 1}
    assert Data().why_no_pair(prompts[0], 0) == "no answer under rejected"
    assert Data().why_no_pair(prompts[0], 1) == ""


def test_what_is_neither_text_nor_chat_is_refused():
    row = {"prompt": "a", "chosen": 3, "rejected": "y"}
    with pytest.raises(DataError, match=r"rows\.jsonl:4: chosen"):
        to_prompt(row, "rows.jsonl:4", "")


def test_the_data_comes_first_and_then_the_matches():
    maker = PairMaker.build({"kind": "data", "generations": 2, "then": "data_wins"})
    assert [maker.plays(t) for t in range(4)] == [False, False, True, True]
    assert not any(maker.by_judge(t) for t in range(4))
    assert Data().by_judge(1)
    assert not Data().by_judge(0)


def test_spin_prefers_the_data_to_each_sample():
    prompt = to_prompt(ROWS["plain"], "", "")
    match = match_of(prompt, "No.", "So.", "Hm.", "No.")
    pairs, dropped = DataWins().make(JudgedMatches([match], [], prompts={prompt.id: prompt}))
    assert [(pair.chosen, pair.rejected) for pair in pairs] == [("So.", "No."), ("So.", "Hm.")]
    assert not dropped
    assert all(pair.match == match.id for pair in pairs)
    same = match_of(prompt, "So.")
    assert DataWins().make(JudgedMatches([same], [], prompts={prompt.id: prompt})) == (
        [],
        {"identical": 1},
    )


def test_the_column_of_the_datas_answer_is_a_setting():
    prompt = to_prompt({"prompt": "1 + 1?", "answer": "2"}, "", "")
    match = match_of(prompt, "3")
    assert DataWins(column="answer").make(JudgedMatches([match], [], prompts={prompt.id: prompt}))[
        0
    ]
    assert "chosen or completion" in DataWins().why_no_pair(prompt, 0)


def test_a_pair_of_the_data_says_where_it_is_from():
    row = {
        "prompt": "Why?",
        "chosen": "So.",
        "rejected": "No.",
        "score_chosen": 2,
        "score_rejected": 1,
    }
    prompt = to_prompt(row, "", "")
    [pair], _ = Data().data_pairs([prompt], 3)
    assert pair == Pair(
        id=record_id("pair", f"data/3/{prompt.id}", "So.", "No."),
        generation=3,
        prompt=prompt.id,
        messages=prompt.messages,
        chosen="So.",
        rejected="No.",
        chosen_score=2.0,
        rejected_score=1.0,
    )
    text = {"score_chosen": "2", "score_rejected": 1}
    [pair], _ = Data().data_pairs([to_prompt(ROWS["plain"] | text, "", "")], 0)
    assert (pair.chosen_score, pair.rejected_score) == (2.0, 1.0)
    for half in ({"score_chosen": 2}, {"score_rejected": 2}):
        with pytest.raises(DataError, match="give both or neither"):
            to_prompt(ROWS["plain"] | half, "", "")


def test_samples_that_failed_or_have_nothing_to_meet_give_no_pair():
    prompt, bare = to_prompt(ROWS["plain"], "", ""), to_prompt({"prompt": "How?"}, "", "")
    match = match_of(prompt, "No.", "Hm.")
    failed = [Turn(t.seat, t.view, Move("", finish="error")) for t in match.turns]
    lost = structs.replace(match, turns=tuple(failed))
    half = structs.replace(match, turns=(match.turns[0], failed[1]))
    none = structs.replace(match, prompt=bare.id)
    pairs, dropped = DataWins().make(
        JudgedMatches([lost, half, none, none], [], prompts={p.id: p for p in (prompt, bare)})
    )
    assert dropped == {"error": 1, "no_answer": 2}
    [pair] = pairs
    assert (pair.chosen, pair.rejected, pair.chosen_score, pair.rejected_score) == (
        "So.",
        "No.",
        1,
        0,
    )
    assert (pair.match, pair.generation, pair.messages) == ("m", 3, match.turns[0].view.messages)
    assert DataWins().most(3) == 3
    assert DataWins().answers == 1
    assert DataWins().why_no_pair(prompt, 0) == ""
    assert not DataWins().by_judge(0)
    chat = [QUESTION, said("One."), said("Two.")]
    completed = to_prompt({"prompt": "Why?", "completion": chat}, "", "")
    [pair], _ = DataWins().make(
        JudgedMatches([match_of(completed, "No.")], [], prompts={completed.id: completed})
    )
    assert pair.chosen == "One.\nTwo."


def labelled(prompt, text, label):
    return {"prompt": prompt, "completion": text, "label": label}


LABELLED = [
    labelled("Fruit?", "Pear i", True),
    labelled("Fruit?", "Brick j", False),
    labelled("Fruit?", "Fig k", True),
    labelled("Fruit?", "Pear i", True),
    labelled("Tree?", "Stone l", False),
]


def distinct_prompts(rows):
    prompts = [to_prompt(row, f"r.jsonl:{n}", "r") for n, row in enumerate(rows, 1)]
    source = PromptSource(training=prompts)
    found = split(source, generations=1, per_generation=2, held_out=0, seed=3)
    return {prompt.messages[0].content: prompt for prompt in found.training}, found.dropped


def test_labelled_answers_of_one_prompt_are_pairs_and_the_rest_stands_alone():
    prompts, dropped = distinct_prompts(LABELLED)
    assert dropped == {"duplicate": 1}
    pairs, dropped = Data().data_pairs([prompts["Fruit?"], prompts["Tree?"]], 0)
    assert [(pair.chosen, pair.rejected, pair.only) for pair in pairs] == [
        ("Pear i", "Brick j", ""),
        ("Fig k", "", "chosen"),
        ("", "Stone l", "rejected"),
    ]
    assert not dropped
    assert all(not Data().why_no_pair(prompt, 0) for prompt in prompts.values())
    assert DataWins()._answer(prompts["Fruit?"]) == "Pear i"
    assert DataWins()._answer(prompts["Tree?"]) == ""


def test_rows_that_are_not_labelled_stay_duplicates():
    rows = [{"prompt": "Fruit?", "completion": "Pear i"}, labelled("Fruit?", "Brick j", False)]
    prompts, dropped = distinct_prompts([*rows, labelled("Tree?", "Elm", True)])
    assert dropped == {"duplicate": 1}
    assert len(prompts["Fruit?"].answers) == 1
