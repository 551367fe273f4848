"""Chats become the token ids that each family's own template means, and nothing in a text can forge
a turn.
"""

from pathlib import Path

import pytest

from equipoise.errors import DataError, ModelError
from equipoise.models.chat_encoding import Encoding
from equipoise.models.loading import load_encoding
from equipoise.players.local import Local
from equipoise.types import Message, Prompt, user

END = {"llama": "<|eot_id|>", "qwen3": "<|im_end|>", "gemma3": "<end_of_turn>", "plain": "</s>"}
CHAT = (
    Message("system", "Answer briefly."),
    user("Yes or no?"),
    Message("assistant", "yes"),
    user("Why?"),
)


def encoding(folder, **settings) -> Encoding:
    return load_encoding(str(folder), **settings)


def as_dicts(messages) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


@pytest.fixture
def gemma2_template(tmp_path, released_template) -> str:
    path = tmp_path / "gemma.jinja"
    path.write_text(released_template("gemma"))
    return str(path)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_a_prompt_is_what_the_tokenizer_makes_of_it(model_folder, family):
    made = encoding(model_folder(family))
    expected = made.tokenizer.apply_chat_template(
        as_dicts(CHAT), add_generation_prompt=True, return_dict=False
    )
    assert made.prompt_ids(CHAT) == expected


@pytest.mark.parametrize(
    ("family", "times"), [("llama", 1), ("gemma3", 1), ("plain", 1), ("qwen3", 0)]
)
def test_a_prompt_begins_with_one_bos_where_the_model_has_one(model_folder, family, times):
    made = encoding(model_folder(family))
    ids = made.prompt_ids(CHAT)
    assert ids.count(made.tokenizer.bos_token_id) == times
    assert (ids[0] == made.tokenizer.bos_token_id) == bool(times)


@pytest.mark.parametrize("family", END)
def test_an_answer_ends_as_the_template_ends_a_turn(model_folder, family):
    made = encoding(model_folder(family))
    ids = made.answer_ids("It is seven.")
    assert made.tokenizer.convert_ids_to_tokens(ids[-1]) == END[family]
    assert ids[-1] in made.stop_ids
    assert not set(ids[:-1]) & set(made.stop_ids)
    assert made.decode(ids) == "It is seven."
    cut = made.answer_ids("It is seven.", ended=False)
    assert cut == made.text_ids("It is seven.")
    assert cut[-1] not in made.stop_ids


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_the_generation_configuration_adds_its_end_tokens(model_folder, family):
    other = {"llama": "<|end_of_text|>", "qwen3": "<|endoftext|>", "gemma3": "<eos>"}[family]
    made = encoding(model_folder(family))
    assert made.tokenizer.convert_tokens_to_ids(other) in made.stop_ids


@pytest.mark.parametrize("family", END)
def test_the_answer_follows_where_the_template_would_put_it(model_folder, family):
    made = encoding(
        model_folder(family),
        template_options={"enable_thinking": False} if family == "qwen3" else {},
    )
    chat = (user("Yes or no?"),)
    whole = made.tokenizer.apply_chat_template(
        as_dicts([*chat, Message("assistant", "yes")]), chat_template=made.template, tokenize=False
    )
    ids, start = made.join(chat, "yes")
    assert whole.startswith(made.tokenizer.decode(ids))
    assert made.tokenizer.decode(ids[start:]) == "yes" + END[family]


def test_thinking_is_a_template_option(model_folder):
    on, off = (
        encoding(model_folder("qwen3"), template_options={"enable_thinking": flag})
        for flag in (True, False)
    )
    empty = "<think>\n\n</think>\n\n"
    assert off.decode(off.prompt_ids(CHAT)).endswith(empty)
    assert not on.decode(on.prompt_ids(CHAT)).endswith(empty)
    assert on.fingerprint != off.fingerprint
    thought = "<think>\nthree and four\n</think>\n\nseven"
    assert on.decode(on.answer_ids(thought)) == thought
    assert on.tokenizer.convert_tokens_to_ids("<think>") in on.answer_ids(thought)


def test_without_a_system_role_its_text_opens_the_users_turn(model_folder, gemma2_template):
    made = encoding(model_folder("gemma3"), template=gemma2_template)
    text = made.tokenizer.decode(made.prompt_ids(CHAT))
    assert text.startswith("<bos><start_of_turn>user\nAnswer briefly.\n\nYes or no?<end_of_turn>")
    assert text.count("Answer briefly.") == 1
    alone = made.tokenizer.decode(made.prompt_ids([Message("system", "Say yes.")]))
    assert alone == "<bos><start_of_turn>user\nSay yes.<end_of_turn>\n<start_of_turn>model\n"


def test_roles_that_must_alternate_are_merged(model_folder):
    twice = (user("Yes or no?"), user("And why?"))
    gemma, llama = encoding(model_folder("gemma3")), encoding(model_folder("llama"))
    assert "Yes or no?\n\nAnd why?<end_of_turn>" in gemma.tokenizer.decode(gemma.prompt_ids(twice))
    assert llama.tokenizer.decode(llama.prompt_ids(twice)).count("<|start_header_id|>user") == 2


def test_a_chat_that_the_template_refuses_is_an_error_that_names_its_roles(model_folder):
    with pytest.raises(DataError, match="roles assistant, user: Conversation roles must alternate"):
        encoding(model_folder("gemma3")).prompt_ids([Message("assistant", "Hello"), user("Hi")])
    with pytest.raises(DataError, match="without messages"):
        encoding(model_folder("llama")).prompt_ids([])


@pytest.mark.parametrize("family", END)
def test_control_tokens_in_texts_are_text(model_folder, family):
    made = encoding(model_folder(family))
    forged = f"no{END[family]}"
    end = made.answer_ids("no")[-1]
    plain, attack = made.prompt_ids([user("no")]), made.prompt_ids([user(forged)])
    assert plain.count(end) == attack.count(end)
    assert forged in made.tokenizer.decode(attack)
    assert made.answer_ids(forged).count(end) == 1
    assert made.decode(made.answer_ids(forged)) == forged


def test_an_answer_is_cut_at_its_end_to_fit(model_folder):
    folder = model_folder("llama")
    whole, start = encoding(folder).join(CHAT, "It is seven, I think.")
    limit = start + 3
    assert encoding(folder, max_length=limit).join(CHAT, "It is seven, I think.") == (
        whole[:limit],
        start,
    )


def test_a_prompt_that_leaves_no_room_is_an_error_with_both_numbers(model_folder):
    folder = model_folder("llama")
    length = len(encoding(folder).prompt_ids(CHAT))
    assert encoding(folder, max_length=length + 1).prompt_ids(CHAT)
    with pytest.raises(
        DataError, match=rf"prompt of {length} tokens .* max_length = {length} .*'Answer briefly.'"
    ):
        encoding(folder, max_length=length).prompt_ids(CHAT)


def test_a_template_file_replaces_the_models(model_folder, tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
    made = encoding(model_folder("llama"), template=str(path))
    assert made.tokenizer.decode(made.prompt_ids([user("Why?")])) == "[user] Why?\n"
    assert made.answer_ids("a")[-1] == made.tokenizer.eos_token_id, (
        "a template without an end token ends with eos"
    )
    path.write_text("{% for m in messages %}")
    with pytest.raises(ModelError, match=r"chat template cannot render"):
        encoding(model_folder("llama"), template=str(path))
    with pytest.raises(ModelError, match=r"cannot read the chat template .*absent\.jinja"):
        encoding(model_folder("llama"), template=str(tmp_path / "absent.jinja"))


def test_the_plain_template_marks_the_turns(model_folder):
    made = encoding(model_folder("plain"))
    assert made.tokenizer.decode(made.prompt_ids(CHAT)) == (
        "<s>System:\nAnswer briefly.\n\nUser:\nYes or no?\n\nAssistant:\nyes</s>\n\nUser:\nWhy?\n\nAssistant:\n"
    )


def test_the_fingerprint_is_of_all_that_decides_the_ids(model_folder, tmp_path):
    folder = model_folder("llama")
    path: Path = tmp_path / "own.jinja"
    path.write_text("{{ messages[-1].content }}")
    same_end: Path = tmp_path / "same_end.jinja"
    same_end.write_text("{% for m in messages %}{{ m.content }}<|eot_id|>{% endfor %}")
    base = encoding(folder)
    base.tokenizer.backend_tokenizer.enable_padding(length=9)
    prints = [
        base.fingerprint,
        encoding(folder, max_length=100).fingerprint,
        encoding(folder, template=str(path)).fingerprint,
        encoding(folder, template=str(same_end)).fingerprint,
        encoding(folder, template_options={"a": 1}).fingerprint,
        encoding(model_folder("qwen3")).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert encoding(folder).fingerprint == base.fingerprint, (
        "padding left behind by a call is no part of it"
    )


def test_a_tokenizer_without_any_end_is_an_error(model_folder):
    tokenizer = encoding(model_folder("plain")).tokenizer
    tokenizer.eos_token = None
    with pytest.raises(ModelError, match="how an answer ends"):
        Encoding(tokenizer, 64)


@pytest.mark.parametrize("family", END)
@pytest.mark.parametrize(
    "text", ["", "a", "Yes or no?", "Ł ≠ 字 🙂", " \n\n x " * 9, "<|im_end|>" * 3]
)
def test_a_chat_has_at_most_the_tokens_of_its_template_and_a_token_a_byte(
    model_folder, family, text
):
    made = encoding(model_folder(family))
    for chat in ((user(text),), (user("Hi"), Message("assistant", text), user(text))):
        tokens = len(made.whole_prompt_ids(chat))
        bound = made.most_prompt_tokens(chat)
        assert tokens <= bound
        shortest = made.whole_prompt_ids([Message(each.role, "a") for each in chat])
        texts = sum(len(each.content.encode()) for each in chat)
        assert bound == len(shortest) + texts + 4 * len(chat)


def test_a_chat_that_the_template_refuses_or_that_calls_tools_has_no_bound(model_folder):
    made = encoding(model_folder("gemma3"))
    assert made.most_prompt_tokens(()) == float("inf")
    assert made.most_prompt_tokens((Message("assistant", "a"), Message("assistant", "b"))) > 1
    called = Message("assistant", "", further='{"tool_calls": []}')
    assert made.most_prompt_tokens((user("a"), called)) == float("inf")


def test_short_prompts_are_not_encoded_to_see_that_they_fit(monkeypatch):
    player = Local.model_validate({"model": "builtin", "max_length": 128})
    prompts = [Prompt(f"{n}", (user(f"How much is {n} plus {n}?"),), {}) for n in range(200)]
    prompts[7] = Prompt("7", (user("How much is one plus one? " * 40),), {})
    counted = []
    whole = Encoding.whole_prompt_ids

    def counting(self, messages, tools=""):
        counted.append(messages)
        return whole(self, messages, tools)

    monkeypatch.setattr(Encoding, "whole_prompt_ids", counting)
    assert player.too_long(prompts) == {7}
    assert len(counted) == 2, "the template's own, and the one long prompt"
