"""Supervised fine-tuning on tiny random models."""

from dataclasses import replace
from pathlib import Path

import pytest

from equipoise.errors import NoSignal
from equipoise.games.answers import Answers
from equipoise.learners.base import TrainingBatch
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.adapters import Lora
from equipoise.models.encoding import Encoding
from equipoise.models.loading import load_tokenizer
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


def test_rows_that_do_not_fit_are_counted(model_folder, tmp_path):
    folder = model_folder("llama")
    encoding = Encoding(load_tokenizer(folder), 512)
    fits = max(len(encoding.join(*example)[0]) for example in EXAMPLES)
    examples = [*EXAMPLES, (EXAMPLES[0][0], "It is one, and one more than that.")]
    few = settings(epochs=1, batch_size=7)
    assert train_sft(folder, examples, tmp_path, few, max_length=fits)["cut_rows"] == 1


def test_no_example_is_no_training(model_folder, tmp_path):
    with pytest.raises(NoSignal, match="no example"):
        train_sft(model_folder("llama"), [], tmp_path)


@pytest.mark.long
def test_an_adapter_of_the_model(model_folder, tmp_path):
    folder = model_folder("qwen3")
    train_sft(
        folder, EXAMPLES, tmp_path, settings(learning_rate=2e-2), lora=Lora.model_validate({"r": 4})
    )
    assert (tmp_path / "adapter_config.json").exists() and not (
        tmp_path / "model.safetensors"
    ).exists()
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
    assert (found[0] == found[1]).all() and not (found[0] == found[2]).all()


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
