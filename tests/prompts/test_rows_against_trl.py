"""2,000 rows of the forms that TRL reads: our conversation and answers are its own extraction's."""

import copy
import random

import pytest

from equipoise.prompts.row import read_row

data_utils = pytest.importorskip("trl.data_utils")

WORDS = [
    "oak",
    "elm",
    "ash",
    "fir",
    "yew",
    "lime",
    "plane",
    "rowan",
    "alder",
    "birch",
    "hazel",
    "maple",
]


def sentence(dice, end="."):
    words = [dice.choice(WORDS) for _ in range(dice.randint(2, 6))]
    return " ".join(words).capitalize() + end


def conversation(dice):
    """A chat that ends with a question, with one to three turns and perhaps a system message."""
    messages = []
    if dice.random() < 0.4:
        messages.append({"role": "system", "content": sentence(dice)})
    for _ in range(dice.randint(0, 2)):
        messages.append({"role": "user", "content": sentence(dice, "?")})
        messages.append({"role": "assistant", "content": sentence(dice)})
    messages.append({"role": "user", "content": sentence(dice, "?")})
    return messages


def answer(dice, turns=1):
    messages = [{"role": "assistant", "content": sentence(dice)}]
    for _ in range(turns - 1):
        messages.append({"role": "user", "content": sentence(dice, "?")})
        messages.append({"role": "assistant", "content": sentence(dice)})
    return messages


def two_answers(dice, turns=1):
    chosen, rejected = answer(dice, turns), answer(dice, turns)
    chosen[0] = {"role": "assistant", "content": "Yes. " + chosen[0]["content"]}
    rejected[0] = {"role": "assistant", "content": "No. " + rejected[0]["content"]}
    return chosen, rejected


def prompt_only(dice):
    return {"prompt": sentence(dice, "?")}


def prompt_only_chat(dice):
    return {"prompt": conversation(dice)}


def prompt_completion(dice):
    return {"prompt": sentence(dice, "?"), "completion": " " + sentence(dice)}


def prompt_completion_chat(dice):
    return {"prompt": conversation(dice), "completion": answer(dice, dice.randint(1, 3))}


def preference(dice):
    chosen, rejected = two_answers(dice)
    texts = {"chosen": chosen[0]["content"], "rejected": rejected[0]["content"]}
    return {"prompt": sentence(dice, "?"), **texts}


def preference_chat(dice):
    chosen, rejected = two_answers(dice, dice.randint(1, 3))
    return {"prompt": conversation(dice), "chosen": chosen, "rejected": rejected}


def implicit(dice):
    question = sentence(dice, "?")
    return {"chosen": f"{question} Yes, {dice.choice(WORDS)}.", "rejected": f"{question} No."}


def implicit_chat(dice):
    chosen, rejected = two_answers(dice, dice.randint(1, 2))
    messages = conversation(dice)
    return {"chosen": [*messages, *chosen], "rejected": [*messages, *rejected]}


def implicit_beside_text(dice):
    row = implicit_chat(dice)
    questions = [m["content"] for m in row["chosen"] if m["role"] == "user"]
    return {"prompt": questions[0], **row}


def identical_chat(dice):
    row = implicit_chat(dice)
    return {"chosen": row["chosen"], "rejected": copy.deepcopy(row["chosen"])}


def unpaired(dice):
    return {**prompt_completion(dice), "label": dice.random() < 0.5}


def unpaired_chat(dice):
    return {**prompt_completion_chat(dice), "label": dice.random() < 0.5}


def language_modelling(dice):
    return {"messages": [*conversation(dice), *answer(dice)]}


def chatml(dice):
    turns = [*conversation(dice), *answer(dice)]
    return {"conversations": [{"from": m["role"], "value": m["content"]} for m in turns]}


FORMS = [
    prompt_only,
    prompt_only_chat,
    prompt_completion,
    prompt_completion_chat,
    preference,
    preference_chat,
    implicit,
    implicit_chat,
    implicit_beside_text,
    identical_chat,
    unpaired,
    unpaired_chat,
    language_modelling,
    chatml,
]


def as_chat(value, role):
    """What TRL extracted, as (role, content) of messages; a text is one message."""
    if isinstance(value, str):
        return [(role, value)]
    return [(message["role"], message["content"]) for message in value]


def pairs_of(messages):
    return [(message.role, message.content) for message in messages]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_prompt_and_answers_are_those_that_trl_extracts(form):
    for number in range(-(-2000 // len(FORMS))):
        dice = random.Random(f"{form.__name__} {number}")
        row = form(dice)
        theirs = data_utils.maybe_convert_to_chatml(copy.deepcopy(row))
        theirs = data_utils.maybe_extract_prompt(theirs)
        ours = read_row(row, f"row {number}")
        answers = [pairs_of(each.messages) for each in ours.answers]
        if "messages" in theirs:
            assert pairs_of(ours.messages) + answers[0] == as_chat(theirs["messages"], "")
            continue
        assert pairs_of(ours.messages) == as_chat(theirs["prompt"], "user")
        names = [name for name in ("chosen", "rejected", "completion") if name in theirs]
        assert answers == [as_chat(theirs[name], "assistant") for name in names]
        if "label" in row:
            assert ours.answers[0].label is row["label"]
