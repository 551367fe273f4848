"""A tokenizer with more tokens than the model has embeddings is refused before the first token, or
harmless; embeddings that are padded beyond the tokenizer are right.
"""

import shutil

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM

from equipoise.errors import DataError, ModelError
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.loading import load_encoding, load_tokenizer
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import View, user

CHAT = (user("How much is one and one?"),)
FEW = SFT.model_validate({"batch_size": 2, "save_steps": 0})


@pytest.fixture
def with_tokens(model_folder, tmp_path):
    """A copy of a model, its tokenizer with further tokens and the embeddings as they were."""

    def make(*tokens: AddedToken, **roles: str):
        folder = shutil.copytree(model_folder("llama"), tmp_path / "more")
        tokenizer = load_tokenizer(str(folder))
        if roles:
            tokenizer.add_special_tokens(roles)
        tokenizer.add_tokens(list(tokens))
        tokenizer.save_pretrained(folder)
        return str(folder), len(tokenizer)

    return make


def player(folder, **more):
    return Local.model_validate({"kind": "local", "model": folder, "device": "cpu", **more})


def test_a_token_of_texts_without_an_embedding_is_refused_by_number(with_tokens, tmp_path):
    folder, size = with_tokens(AddedToken("<tool>", special=False))
    before = size - 1
    wanted = rf"{size} tokens and the model embeddings for {before}: '<tool>' is token {before}"
    with pytest.raises(ModelError, match=wanted) as refused:
        train_sft(folder, [(CHAT, "two")], tmp_path / "out", FEW)
    assert f"resize_token_embeddings({size})" in str(refused.value)
    assert any(wanted.split(":")[0] in fault for fault in player(folder).faults())


def test_a_padding_token_without_an_embedding_is_replaced_and_the_model_trains(
    with_tokens, tmp_path
):
    folder, size = with_tokens(pad_token="<pad of a template>")
    encoding = load_encoding(folder)
    assert encoding.tokenizer.pad_token_id == size - 1 > encoding.pad_id
    examples = [(CHAT, "two"), (CHAT, "two, as far as I can tell")]
    assert train_sft(folder, examples, tmp_path / "out", FEW)["steps"] == 1
    actor = player(folder, max_new_tokens=4).open(None, Resources())
    moves = actor.act([View(CHAT), View((user("No?"),))], [1, 2])
    assert all(move.finish != "error" for move in moves)


def test_an_end_of_answers_without_an_embedding_is_refused(with_tokens):
    folder, _ = with_tokens(eos_token="<|im_end|>")
    with pytest.raises(ModelError, match=r"'<\|im_end\|>' is token"):
        load_encoding(folder)


def test_what_a_template_writes_for_one_role_alone_is_refused_when_it_is_read(
    with_tokens, tmp_path
):
    folder, _ = with_tokens(AddedToken("<|sys|>", special=True))
    template = tmp_path / "sys.jinja"
    template.write_text(
        "{% for m in messages %}{{ '<|sys|>' if m.role == 'system' else '' }}"
        "{{ m.content }}<|eot_id|>{% endfor %}"
    )
    encoding = load_encoding(folder, template=str(template))
    assert encoding.prompt_ids(CHAT)
    with pytest.raises(DataError, match=r"writes token \d+, and the model has embeddings for"):
        encoding.prompt_ids((type(CHAT[0])("system", "Be brief."), *CHAT))


def test_padded_embeddings_are_right(model_folder, tmp_path):
    folder = shutil.copytree(model_folder("llama"), tmp_path / "padded")
    tokenizer = load_tokenizer(str(folder))
    model = AutoModelForCausalLM.from_pretrained(folder)
    plain = player(str(model_folder("llama"))).open(None, Resources())
    model.resize_token_embeddings(len(tokenizer) + 40)
    with torch.no_grad():
        model.get_output_embeddings().weight[len(tokenizer) :] = 0
    model.save_pretrained(folder)
    padded = player(str(folder), max_new_tokens=6).open(None, Resources())
    assert padded.encoding == plain.encoding
    assert padded.logprobs([CHAT], ["two"])[0][1] == plain.logprobs([CHAT], ["two"])[0][1]
    moves = padded.act([View(CHAT)] * 8, list(range(8)))
    assert all(move.finish != "error" for move in moves)
    assert train_sft(str(folder), [(CHAT, "two")], tmp_path / "out", FEW)["steps"] == 1
    written = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert written.get_input_embeddings().num_embeddings == len(tokenizer) + 40
