"""Supervised fine-tuning on tiny random models."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from equipoise.errors import DataError, NoSignal
from equipoise.games.answers import Answers
from equipoise.learners.base import TrainingBatch
from equipoise.learners.sft_learner import SFT, fitting_rows, train_sft
from equipoise.models.adapters import Lora
from equipoise.models.chat_encoding import Encoding
from equipoise.models.loading import load_config, load_tokenizer, written_dtype
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Pair, PlayerId, user

EXAMPLES = [((user(f"How much is {n} and one?"),), f"It is {n + 1}.") for n in range(6)]


def settings(**more) -> SFT:
    return SFT.model_validate(
        {
            "epochs": 4,
            "batch_size": 3,
            "learning_rate": 5e-3,
            "log_steps": 1,
            "save_steps": 0,
            **more,
        }
    )


def likelihoods(
    model: Path, weights: Path | None, lora: dict | None = None
) -> list[tuple[float, int]]:
    player = Player.build({"kind": "local", "model": str(model), "device": "cpu", "lora": lora})
    return player.open(weights, Resources()).logprobs(
        [chat for chat, _ in EXAMPLES], [text for _, text in EXAMPLES]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    [
        "llama",
        "plain",
        # other tokenizers and layers
        pytest.param("qwen3", marks=pytest.mark.slow),
        pytest.param("gemma3", marks=pytest.mark.slow),
    ],
)
def test_answers_become_likely_and_the_result_stands_alone(model_folder, tmp_path, family):
    lines = []
    before = likelihoods(model_folder(family), None)
    told = train_sft(model_folder(family), EXAMPLES, tmp_path, settings(), seed=3, log=lines.append)
    after = likelihoods(tmp_path, None)
    assert [count for _, count in before] == [count for _, count in after]
    assert sum(total for total, _ in after) > 0.7 * sum(total for total, _ in before)
    assert told["loss"] == lines[-1]["loss"] < 0.7 * lines[0]["loss"]
    assert sum(line["steps"] for line in lines) == told["steps"] == 8


def test_the_loss_is_of_the_answers_tokens_alone(model_folder, tmp_path):
    before = likelihoods(model_folder("llama"), None)
    told = train_sft(model_folder("llama"), EXAMPLES, tmp_path, settings(epochs=1, batch_size=6))
    total, tokens = (sum(column) for column in zip(*before, strict=True))
    assert told["loss"] == pytest.approx(-total / tokens, rel=1e-4)
    assert told["cut_rows"] == 0


LONG = (EXAMPLES[0][0], "It is one, and one more than that.")


@pytest.mark.parametrize(
    ("too_long", "cut", "dropped"), [("drop", 0, 1), ("cut_answer", 1, 0), ("cut_prompt", 1, 0)]
)
def test_rows_that_do_not_fit_are_counted(model_folder, tmp_path, too_long, cut, dropped):
    folder = model_folder("llama")
    encoding = Encoding(load_tokenizer(folder), 512)
    fits = max(len(encoding.join(*example)[0]) for example in EXAMPLES)
    few = settings(epochs=1, batch_size=7)
    given = {"max_length": fits, "too_long": too_long}
    told = train_sft(folder, [*EXAMPLES, LONG], tmp_path, few, **given)
    assert (told["cut_rows"], told["dropped_rows"]) == (cut, dropped)


def test_a_row_that_does_not_fit_stops_where_it_is_to(model_folder, tmp_path):
    with pytest.raises(DataError, match=r"a row needs \d+ tokens, more than max_length = 30"):
        train_sft(model_folder("llama"), [LONG], tmp_path, max_length=30, too_long="stop")
    with pytest.raises(NoSignal, match="every row is too long"):
        train_sft(model_folder("llama"), [LONG], tmp_path, max_length=30)


def test_a_cut_prompt_loses_its_beginning_and_a_cut_answer_its_end(model_folder):
    whole = Encoding(load_tokenizer(model_folder("llama")), 512)
    chat, text = LONG
    prompt, answer = whole.prompt_ids(chat), whole.answer_ids(text)
    most = len(prompt) + len(answer) - 3
    encoding = Encoding(load_tokenizer(model_folder("llama")), most)
    made = {}
    for rule in ("cut_prompt", "cut_answer"):
        (row,) = fitting_rows([LONG], encoding, rule, {})
        made[rule] = (row.answers.prompt, row.answers.answers[0])
    assert made["cut_prompt"] == (prompt[3:], answer)
    assert made["cut_answer"] == (prompt, answer[:-3])
    endless = (user("and " * 300),), text
    assert fitting_rows([endless], encoding, "cut_answer", counts := {}) == []
    assert counts == {"cut_rows": 0, "dropped_rows": 1}


@pytest.mark.parametrize(
    ("own", "asked", "written"),
    [
        (torch.bfloat16, "auto", torch.bfloat16),
        (torch.float16, "auto", torch.float16),
        (torch.float32, "auto", torch.float32),
        (torch.bfloat16, "float32", torch.float32),
        (torch.float32, "bfloat16", torch.bfloat16),
    ],
)
def test_weights_are_written_in_the_models_precision_or_the_one_asked_for(
    model_folder, tmp_path, own, asked, written
):
    base = tmp_path / "base"
    whole = AutoModelForCausalLM.from_pretrained(model_folder("llama"), dtype=own)
    whole.save_pretrained(base)
    load_tokenizer(model_folder("llama")).save_pretrained(base)
    train_sft(base, EXAMPLES[:2], tmp_path / "out", settings(epochs=1), dtype=asked)
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {written}
    assert load_config(str(tmp_path / "out")).dtype == written


def test_a_model_that_names_no_precision_has_that_of_its_weights(model_folder, tmp_path):
    whole = AutoModelForCausalLM.from_pretrained(model_folder("llama"), dtype=torch.bfloat16)
    whole.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("dtype", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert written_dtype(str(tmp_path)) == torch.bfloat16


def test_no_example_is_no_training(model_folder, tmp_path):
    with pytest.raises(NoSignal, match="no example"):
        train_sft(model_folder("llama"), [], tmp_path)


@pytest.mark.long
def test_an_adapter_of_the_model(model_folder, tmp_path):
    folder = model_folder("qwen3")
    train_sft(
        folder, EXAMPLES, tmp_path, settings(learning_rate=2e-2), lora=Lora.model_validate({"r": 4})
    )
    assert (tmp_path / "adapter_config.json").exists()
    assert not (tmp_path / "model.safetensors").exists()
    after = likelihoods(folder, tmp_path, {"r": 4})
    assert sum(total for total, _ in after) > 0.8 * sum(
        total for total, _ in likelihoods(folder, None)
    )


@pytest.mark.long
def test_equal_seeds_give_equal_weights(model_folder, tmp_path):
    from safetensors.torch import load_file

    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train_sft(model_folder("llama"), EXAMPLES, tmp_path / name, settings(epochs=1), seed=seed)
        found.append(load_file(tmp_path / name / "model.safetensors")["lm_head.weight"])
    assert (found[0] == found[1]).all()
    assert not (found[0] == found[2]).all()


@pytest.mark.long
def test_a_run_teaches_the_winners_once_each(model_folder, tmp_path):
    pairs = [
        Pair(f"{n}{loser}", 0, str(n), chat, text, loser, 1.0, 0.0)
        for n, (chat, text) in enumerate(EXAMPLES)
        for loser in ("no", "never")
    ]
    (tmp_path / "home").mkdir()
    player = Player.build({"kind": "local", "model": str(model_folder("llama")), "device": "cpu"})
    training_batch = TrainingBatch(
        PlayerId("policy"),
        player,
        None,
        tmp_path / "home",
        tmp_path / "scratch",
        5,
        Answers(),
        pairs=pairs,
    )
    told = settings().learn(training_batch)
    assert told["examples"] == 4 * len(EXAMPLES)
    before, after = (likelihoods(model_folder("llama"), None), likelihoods(tmp_path / "home", None))
    assert sum(total for total, _ in after) > 0.7 * sum(total for total, _ in before)
    with pytest.raises(NoSignal):
        settings().learn(replace(training_batch, pairs=[]))


@pytest.mark.long
def test_a_trained_folder_carries_the_template_that_it_was_trained_in(model_folder, tmp_path):
    template = tmp_path / "own.jinja"
    template.write_text(
        "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}[assistant] "
    )
    few = settings(epochs=0.5)
    train_sft(model_folder("llama"), EXAMPLES, tmp_path / "out", few, template=str(template))
    own = load_tokenizer(str(tmp_path / "out"))
    asked = [{"role": "user", "content": "Why?"}]
    assert own.apply_chat_template(asked, tokenize=False) == "[user] Why? [assistant] "
