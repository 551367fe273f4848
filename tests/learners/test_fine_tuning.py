"""The parts of a fine-tuning: which model, in which order, by which arguments; no training."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from equipoise import seeds
from equipoise.errors import ConfigError, ModelError
from equipoise.games.answers import Answers
from equipoise.learners import fine_tuning
from equipoise.learners.answer_trainer import Row
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import base_of, model_to_train, round_weights
from equipoise.learners.sft_learner import SFT
from equipoise.models import device, loading, quantization
from equipoise.models.loading import Loading
from equipoise.models.packing import PromptAnswers
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import PlayerId

ADAPTER = {"r": 2, "alpha": 4}


def settings(**given) -> SFT:
    return SFT.model_validate(given)


def local(model="builtin", **given):
    return Player.build({"kind": "local", "model": str(model), "device": "cpu", **given})


def batch(player, folder, **more) -> TrainingBatch:
    given = {"learner": PlayerId("policy"), "player": player, "game": Answers(), "weights": None}
    places = {"output": folder / "home", "scratch": folder / "scratch"}
    return TrainingBatch(**{**given, **places, "seed": 11, **more})


# -- the order of the examples


def test_small_steps_swap_examples_within_windows_of_sixteen():
    lengths = [n * 37 % 101 for n in range(70)]
    order = settings(epochs=2, batch_size=4).order(lengths, 5)
    drawn = np.concatenate(
        [seeds.generator(5, "pass", p).permutation(70) for p in range(2)]
    ).tolist()
    # of both passes
    assert order[68:72] == drawn[68:72]
    assert len(order) == 140

    def steps(rows):
        return [tuple(rows[begin : begin + 4]) for begin in range(0, len(rows), 4)]

    for begin, end in ((0, 64), (64, 68), (72, 136), (136, 140)):
        sorted_rows = sorted(drawn[begin:end], key=lambda row: -lengths[row])
        assert set(steps(order[begin:end])) == set(steps(sorted_rows))
        assert end - begin == 4 or order[begin:end] != sorted_rows


@pytest.mark.parametrize(("size", "sorts"), [(64, True), (63, False)])
def test_large_steps_are_sorted_within_themselves(size, sorts):
    lengths = list(range(130))
    order = settings(batch_size=size).order(lengths, 3)
    drawn = seeds.generator(3, "pass", 0).permutation(130).tolist()
    first = order[:size]
    assert (set(first) == set(drawn[:size])) == sorts
    assert all(one > two for one, two in pairwise(first))
    assert sorted(order) == lengths


# -- the Trainer's arguments


def arguments(folder, steps=100, seed=1, device="cpu", **given):
    some = settings(**{"precision": "fp32", "gradient_checkpointing": False, **given})
    return fine_tuning._trainer_arguments(some, steps, folder, seed, device)


@pytest.mark.parametrize(
    ("save", "log", "steps", "expected"),
    [
        (3, 2, 5, ("steps", 4)),  # rounded up to whole lines
        (4, 2, 4, ("no", 4)),  # the end is saved anyway
        (4, 2, 5, ("steps", 4)),
        (0, 2, 5, ("no", 1)),
        (20, 10, 21, ("steps", 20)),
    ],
)
def test_checkpoints_are_at_whole_lines_of_metrics(tmp_path, save, log, steps, expected):
    args = arguments(tmp_path, steps, save_steps=save, log_steps=log)
    assert (args.save_strategy.value, args.save_steps) == expected
    assert args.logging_steps == log
    assert args.save_total_limit == 2


def keywords_of(settings):
    """torch's keywords of checkpoints, by whichever name transformers has for them."""
    return getattr(
        settings, "activation_checkpointing_kwargs", settings.gradient_checkpointing_kwargs
    )


def test_the_trainer_does_as_it_is_set(tmp_path):
    args = arguments(
        tmp_path,
        seed=2**32 + 65,
        batch_size=3,
        gradient_accumulation=5,
        optimizer="adamw",
        learning_rate=0.5,
        scheduler="linear",
        warmup_ratio=0.25,
        weight_decay=0.125,
        max_grad_norm=2.0,
    )
    assert args.output_dir == str(tmp_path)
    assert args.num_train_epochs == 1
    assert args.seed == 65
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (3, 5)
    assert (args.optim, args.learning_rate) == ("adamw_torch", 0.5)
    assert (args.lr_scheduler_type, args.warmup_steps) == ("linear", 0.25)
    assert (args.weight_decay, args.max_grad_norm, args.bf16) == (0.125, 2.0, False)
    assert args.train_sampling_strategy == "sequential"
    for name in ("logging_nan_inf_filter", "remove_unused_columns", "dataloader_pin_memory"):
        assert getattr(args, name) is False
    assert args.use_cpu
    assert args.disable_tqdm
    assert args.report_to == []
    assert not args.gradient_checkpointing
    assert not arguments(tmp_path, device="meta").use_cpu
    saving = arguments(tmp_path, precision="bf16", gradient_checkpointing=True)
    assert saving.bf16
    assert saving.gradient_checkpointing is True, "by the old name, which newer releases set, too"
    assert keywords_of(saving) == {"use_reentrant": False}
    some = arguments(tmp_path, gradient_checkpointing="selective")
    assert some.gradient_checkpointing is True
    assert set(keywords_of(some)) == {"use_reentrant", "context_fn"}


def test_a_training_counts_its_steps_before_it_begins(model_folder, tmp_path, monkeypatch):
    class Asked(Exception):  # noqa: N818
        pass

    def ask(some, steps, scratch, seed, device, measure_every):
        assert measure_every == 0
        raise Asked(some.precision, steps, scratch, seed, device)

    monkeypatch.setattr(fine_tuning, "_trainer_arguments", ask)
    now = batch(local(model_folder("llama")), tmp_path)
    rows = [Row(PromptAnswers([5], [[6]]))] * 5
    with pytest.raises(Asked) as caught:
        fine_tuning.fine_tune(settings(batch_size=2, epochs=1.4), now, lambda encoding: rows, None)
    assert caught.value.args == ("fp32", 4, now.scratch, 11, "cpu")


def test_a_training_is_known_by_all_that_decides_it():
    def row(token=2, column=0.5):
        return Row(PromptAnswers([1], [[token]]), (column,))

    one = fine_tuning._identity(settings(), [row()], "loss", 1)
    assert one == fine_tuning._identity(settings(), [row()], "loss", 1)
    assert len(one) == 32
    others = [
        (settings(batch_size=3), [row()], "loss", 1),
        (settings(), [row(3)], "loss", 1),
        (settings(), [row(column=0.25)], "loss", 1),
        (settings(), [row()] * 2, "loss", 1),
        (settings(), [row()], "another", 1),
        (settings(), [row()], "loss", 2),
    ]
    assert len({one, *(fine_tuning._identity(*other) for other in others)}) == 7


# -- the model


@pytest.mark.parametrize(
    ("given", "rank", "chosen"),
    [
        ({}, None, "cpu"),
        ({"device": "meta"}, None, "cpu"),
        ({"device": "meta"}, "1", "cpu"),
        ({"quantization": "8bit"}, "1", "cpu"),
        ({"quantization": "8bit", "device": "meta"}, None, "meta:0"),
        ({"quantization": "8bit", "device": "meta"}, "3", "meta:3"),
    ],
)
def test_a_quantised_base_is_read_where_it_is_trained_others_on_the_cpu(
    monkeypatch, tmp_path, given, rank, chosen
):
    read, kept = [], []

    def load(model, weights, lora, **how):
        read.append((model, weights, lora, how))
        return "the model"

    monkeypatch.setattr(loading, "load_model", load)
    monkeypatch.setattr(quantization, "keep_from_sending", kept.append)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    player = local(lora=ADAPTER, attention="eager", **given)
    for precision, dtype in (("bf16", "bfloat16"), ("fp32", "float32")):
        assert model_to_train(player, tmp_path, 1, precision) == "the model"
        (model, weights, lora, how) = read.pop()
        assert (model, weights, lora) == (player.model, tmp_path, player.lora)
        assert how == {
            **Loading(dtype, chosen, "eager", given.get("quantization"))._asdict(),
            "trainable": True,
        }
    assert kept == ["the model"] * (2 if "quantization" in given else 0)
    whole = local(**{"device": given.get("device", "cpu")})
    model_to_train(whole, None, 1, "bf16")
    assert read[0][3]["dtype"] == "float32"
    assert read[0][1:3] == (None, None)


def test_a_fresh_adapter_is_drawn_by_the_seed(model_folder):
    def drawn(noise, seed):
        torch.manual_seed(noise)
        player = local(model_folder("llama"), lora=ADAPTER)
        model = model_to_train(player, None, seed, "fp32")
        return torch.cat([p.flatten() for n, p in model.named_parameters() if "lora_A" in n])

    one = drawn(1, 5)
    assert torch.equal(one, drawn(2, 5))
    assert not torch.equal(one, drawn(1, 6))


def test_an_adapter_is_trained_on_the_base_that_plays(monkeypatch):
    player = local(lora=ADAPTER)
    for precision, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        assert base_of(settings(precision=precision), player) == (
            player.model,
            player.loading._replace(dtype=dtype),
        )
    assert base_of(settings(), local()) is None
    assert base_of(settings(), Player.build("tabular")) is None
    assert settings().shared_key(player) is not None is settings().shared_key(local())
    several = settings(launch={"num_processes": 2})
    assert several.shared_key(player) is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert base_of(settings(), player) is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(device, "choose_device", lambda name: torch.device("cuda:1"))
    assert base_of(settings(), player) is None


@pytest.mark.long
def test_a_learner_on_a_shared_base_begins_by_its_seed_or_from_its_last_generation(
    model_folder, adapter_folder, tmp_path
):
    player, resources = local(model_folder("llama"), lora=ADAPTER), Resources()

    def begun(noise=0, **more):
        torch.manual_seed(noise)
        now = batch(player, tmp_path, resources=resources, **more)
        with fine_tuning._model_of(settings(), player, now) as model:
            assert not model.training
            trained = {
                n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad
            }
        assert trained
        assert all("lora_" in name for name in trained)
        return trained

    one, same, other = begun(1), begun(2), begun(1, seed=12)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    model, folder = adapter_folder("llama", 1)
    given = {n: p for n, p in model.named_parameters() if "lora_" in n}
    again = begun(weights=folder)
    assert again.keys() == given.keys()
    assert all(torch.equal(again[name], given[name]) for name in given)
    with pytest.raises(ModelError, match="holds full weights, but the player is configured for an"):
        begun(weights=model_folder("llama"))


# -- where it trains, and what it plays in


def test_a_player_that_is_no_model_here_is_a_fault():
    assert [*settings().faults(local(), Answers())] == []
    (fault,) = settings().faults(Player.build("tabular"), Answers())
    assert fault == "'sft' trains players of kind 'local', not 'tabular'"


def test_processes_are_started_once(monkeypatch, tmp_path):
    sent = []

    def learn(*given):
        sent.append(given)
        return {"loss": 1.0}

    monkeypatch.setattr(fine_tuning, "learn_in_processes", learn)
    several = settings(launch={"num_processes": 2})
    now = batch(Player.build("tabular"), tmp_path)
    assert fine_tuning.fine_tune(several, now, lambda encoding: [], None) == {"loss": 1.0}
    assert sent == [(several, several.launch, now)]
    for some, launched in ((several, True), (settings(), False), (settings(), True)):
        here = batch(Player.build("tabular"), tmp_path, launched=launched)
        with pytest.raises(ConfigError, match=r"players\.policy is of kind 'tabular'"):
            fine_tuning.fine_tune(some, here, lambda encoding: [], None)
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("given", "carried"),
    [
        ({}, "fp32"),
        ({"precision": "fp32"}, "fp32"),
        ({"precision": "bf16"}, "bf16"),
        ({"rounding": "stochastic"}, "bf16_weights"),
    ],
)
def test_a_player_plays_in_the_precision_that_it_was_trained_in(given, carried):
    assert settings(**given).carried_precision() == carried


@pytest.mark.parametrize("processes", [1, 3])
def test_steps_are_counted_over_all_processes(processes):
    some = settings(
        **({"launch": {"num_processes": processes}} if processes > 1 else {}),
        batch_size=2,
        gradient_accumulation=5,
        epochs=1.5,
    )
    assert some.step_size(processes) == 10 * processes
    assert some.passes(41) == 62
    assert some.steps(41) == math.ceil(62 / (10 * processes))
    assert settings(epochs=0.01).passes(3) == 1


def test_weights_are_rounded_by_their_seed():
    def rounded(seed):
        torch.manual_seed(0)
        layer = torch.nn.Linear(32, 32)
        round_weights(layer, seed)
        return layer.weight

    one = rounded(1)
    assert one.dtype == torch.bfloat16
    assert torch.equal(one, rounded(1))
    assert not torch.equal(one, rounded(2))
    assert not torch.equal(one, rounded(65))
    assert torch.equal(one, rounded(2**32 + 1))
