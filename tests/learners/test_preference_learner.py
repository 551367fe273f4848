"""The preference learner on tiny random models of three families, full weights and adapters."""

import errno
import json
import os
import pickle
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from equipoise.errors import ConfigError, DiskFull, EquipoiseError, NoSignal, RunError
from equipoise.games.answers import Answers as AnswersGame
from equipoise.learners.answer_trainer import STATE
from equipoise.learners.base import TrainingBatch
from equipoise.learners.preference_learner import (
    PairObjective,
    Preference,
    held_out_pairs,
    pair_rows,
)
from equipoise.losses.base import PreferenceLoss
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.system.files import disk_errors
from equipoise.types import Pair, PlayerId, user

BITSANDBYTES = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)
QUICK = {
    "epochs": 3,
    "batch_size": 4,
    "learning_rate": 1e-2,
    "chunk": 16,
    "log_steps": 1,
    "save_steps": 0,
}
QUESTIONS = [
    "How much is three and four?",
    "What time does the train leave?",
    "yes or no",
    "Say why, briefly.",
]


def learner(**settings) -> Preference:
    return Preference.model_validate({**QUICK, **settings})


def some_pairs(count: int = 8) -> list[Pair]:
    return [
        Pair(
            str(n),
            0,
            str(n),
            (user(f"{QUESTIONS[n % 4]} {n}"),),
            chosen=f"It is {n}." + " and seven" * (n % 3),
            rejected="I cannot help" + " with that" * (n % 2),
            chosen_score=1.0,
            rejected_score=0.0,
        )
        for n in range(count)
    ]


@pytest.fixture
def training_batch(model_folder, tmp_path):
    """training_batch("llama", lora=…, loss=…) -> one whose one opponent is the player as given."""

    def make(
        family: str,
        *,
        lora: dict | None = None,
        loss="dpo",
        pairs: list[Pair] | None = None,
        **more,
    ) -> TrainingBatch:
        player = Player.build(
            {"kind": "local", "model": str(model_folder(family)), "lora": lora, "device": "cpu"}
        )
        pairs = some_pairs() if pairs is None else pairs
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        now = TrainingBatch(
            learner=PlayerId("policy"),
            player=player,
            weights=None,
            output=home,
            scratch=tmp_path / "scratch",
            seed=11,
            game=AnswersGame(),
            loss=PreferenceLoss.build(loss),
            pairs=pairs,
            opponents=[(PlayerId("policy"), 1.0)],
            opponent_chosen_KB=scores(player, None, pairs, "chosen")[None],
            opponent_rejected_KB=scores(player, None, pairs, "rejected")[None],
        )
        return replace(now, **more)

    return make


def scores(player: Player, weights: Path | None, pairs: list[Pair], which: str) -> np.ndarray:
    actor = player.open(weights, Resources())
    return np.array(
        [
            total
            for total, _ in actor.logprobs(
                [p.messages for p in pairs], [getattr(p, which) for p in pairs]
            )
        ]
    )


def margins(training_batch: TrainingBatch, weights: Path | None) -> np.ndarray:
    chosen, rejected = (
        scores(training_batch.player, weights, training_batch.pairs, which)
        for which in ("chosen", "rejected")
    )
    return chosen - rejected


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    (file,) = folder.glob("*.safetensors")
    return load_file(file)


SLOW = pytest.mark.slow
DROPPING = {"r": 4, "dropout": 0.1}


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "lora"),
    [
        ("llama", None),
        ("gemma3", DROPPING),
        # the other families, whole and by adapters
        pytest.param("llama", DROPPING, marks=SLOW),
        pytest.param("gemma3", None, marks=SLOW),
        pytest.param("qwen3", None, marks=SLOW),
        pytest.param("qwen3", DROPPING, marks=SLOW),
    ],
)
def test_the_next_generation_prefers_the_chosen(training_batch, family, lora):
    lines = []
    now = training_batch(family, lora=lora, log=lines.append)
    told = learner().learn(now)
    gain = margins(now, now.output) - margins(now, None)
    assert gain.mean() > 1
    assert (gain > 0).mean() > 0.7
    assert told["loss"] < 0.6 < lines[0]["loss"] == pytest.approx(np.log(2), abs=1e-3)
    assert (
        told["steps"]
        == 6
        == learner().steps(len(now.pairs))
        == sum(line["steps"] for line in lines)
    )
    assert {
        "loss",
        "margin",
        "accuracy",
        "grad_norm",
        "learning_rate",
        "tokens_per_second",
    } <= lines[-1].keys()
    assert (now.output / "adapter_config.json").exists() == (lora is not None)
    assert (now.output / "tokenizer.json").exists()
    assert not (now.output / "training_args.bin").exists()


@pytest.mark.long
def test_a_second_generation_goes_on_from_the_first(training_batch, tmp_path):
    first = training_batch("llama", lora={"r": 4})
    learner().learn(first)
    (tmp_path / "next").mkdir()
    told = learner(learning_rate=1e-12).learn(
        replace(first, weights=first.output, output=tmp_path / "next")
    )
    assert margins(first, tmp_path / "next") == pytest.approx(
        margins(first, first.output), abs=1e-3
    )
    assert told["margin"] > 1


@pytest.mark.long
@pytest.mark.parametrize(
    "loss",
    [
        "mnpo",
        "cpo",
        # members whose equations tests/losses checks: that they learn, too
        *(pytest.param(n, marks=SLOW) for n in ("ipo", "sppo", "mnpo_released", "simpo")),
    ],
)
def test_every_member_of_the_family_trains(training_batch, loss):
    now = training_batch("qwen3", loss=loss)
    opponents = now.loss.opponents(OpponentPool([PlayerId("policy")]))
    now = replace(
        now,
        opponents=opponents,
        **{
            f"opponent_{w}_KB": getattr(now, f"opponent_{w}_KB")[: len(opponents)]
            for w in ("chosen", "rejected")
        },
    )
    lines = []
    learner(epochs=6, batch_size=8, learning_rate=2e-4).learn(replace(now, log=lines.append))
    assert lines[-1]["loss"] < 0.99 * lines[0]["loss"]


def test_the_loss_sees_each_number_in_its_place(training_batch):
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    rows = [
        Row(PromptAnswers([1], [[2, 3], [4]]), (0.9, 0.1, -10.0, -11.0, -20.0, -21.0)),
        Row(PromptAnswers([1], [[2], [3]]), (0.8, 0.2, -12.0, -13.0, -22.0, -23.0)),
    ]
    batch = PairObjective(PreferenceLoss.build("dpo"), (0.25, 0.75)).pair_batch(
        torch.tensor([-1.0, -2.0, -3.0, -4.0]), rows
    )
    assert batch.policy_chosen_B.tolist() == [-1, -3]
    assert batch.policy_rejected_B.tolist() == [-2, -4]
    assert batch.opponent_chosen_KB.tolist() == [[-10, -12], [-20, -22]]
    assert batch.opponent_rejected_KB.tolist() == [[-11, -13], [-21, -23]]
    assert batch.tokens_chosen_B.tolist() == [2, 1]
    assert batch.tokens_rejected_B.tolist() == [1, 1]
    assert batch.score_chosen_B.tolist() == pytest.approx([0.9, 0.8])
    assert batch.score_rejected_B.tolist() == pytest.approx([0.1, 0.2])
    assert batch.weight_K.tolist() == [0.25, 0.75]


def test_rows_are_read_as_the_opponents_read_them(training_batch):
    now = training_batch("gemma3")
    encoding = now.player.encoding()
    for pair, row in zip(now.pairs, pair_rows(now, None, encoding), strict=True):
        for text, answer in zip((pair.chosen, pair.rejected), row.answers.answers, strict=True):
            ids, start = encoding.join(pair.messages, text)
            assert (ids[:start], ids[start:]) == (row.answers.prompt, answer)


def trained(now: TrainingBatch, **settings) -> dict[str, torch.Tensor]:
    shutil.rmtree(now.output)
    now.output.mkdir()
    learner(**settings).learn(now)
    return weights_of(now.output)


def assert_close(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], atol: float):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=atol)


@pytest.mark.long
def test_variants_of_the_computation_agree(training_batch):
    now = training_batch("llama", pairs=some_pairs(4))
    once = {"epochs": 1, "learning_rate": 1e-3}
    base = trained(now, **once)
    assert_close(base, trained(now, **once), atol=0)
    assert_close(base, trained(now, **once, share_prompts=False), atol=2e-4)
    for again in (True, "selective"):
        assert_close(base, trained(now, **once, gradient_checkpointing=again), atol=2e-4)
    assert_close(
        base, trained(now, **{**once, "batch_size": 2, "gradient_accumulation": 2}), atol=2e-4
    )
    anywhere = now.player.model_copy(update={"device": "auto"})
    short = trained(replace(now, player=anywhere), **once, precision="bf16")
    assert_close(base, short, atol=2.5e-3)
    with pytest.raises(AssertionError):
        assert_close(base, trained(replace(now, seed=12), **{**once, "batch_size": 1}), atol=2e-4)


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("lora", "torn", "optimizer"),
    [
        pytest.param(None, False, "adamw_fused", marks=pytest.mark.slow),
        ({"r": 4, "dropout": 0.2}, False, "adamw_fused"),
        pytest.param(None, True, "adamw", marks=pytest.mark.slow),
        pytest.param(None, False, "adamw_8bit", marks=BITSANDBYTES),
    ],
    ids=["full", "lora", "with a checkpoint cut short", "adamw_8bit"],
)
def test_a_training_that_was_killed_goes_on_as_if_nothing_had_been(
    training_batch, tmp_path, lora, torn, optimizer
):
    settings = {
        "optimizer": optimizer,
        "epochs": 4,
        "gradient_accumulation": 2,
        "batch_size": 2,
        "log_steps": 2,
        "save_steps": 3,
    }
    whole_lines, lines = [], []
    now = training_batch("qwen3", lora=lora, log=whole_lines.append)
    whole = trained(now, **settings)

    def until_the_tenth(line):
        if line["step"] == 6:
            raise Killed

    now = replace(now, scratch=tmp_path / "another", seed=now.seed)
    with pytest.raises(Killed):
        trained(replace(now, log=until_the_tenth), **settings)
    (checkpoint,) = now.scratch.glob("checkpoint-*")
    assert checkpoint.name == "checkpoint-4"
    if torn:
        (checkpoint / "complete").unlink()
        (checkpoint / "optimizer.pt").write_bytes(b"")
    found = trained(replace(now, log=lines.append), **settings)
    assert_close(whole, found, atol=0)
    clock = "tokens_per_second"
    assert [{k: v for k, v in line.items() if k != clock} for line in lines] == [
        {k: v for k, v in line.items() if k != clock} for line in whole_lines
    ]


@pytest.mark.long
def test_the_checkpoint_of_another_training_is_not_taken(training_batch):
    settings = {"batch_size": 2, "save_steps": 2}
    now = training_batch("llama")
    trained(now, **settings)
    assert list(now.scratch.glob("checkpoint-*"))
    fresh = trained(replace(now, seed=12, scratch=now.scratch.with_name("fresh")), **settings)
    assert_close(fresh, trained(replace(now, seed=12), **settings), atol=0)


class Touch:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["optimizer.pt", "rng_state.pth", "scheduler.pt", "adapter_model.safetensors", STATE]
)
def test_a_strangers_checkpoint_executes_nothing_and_is_named(training_batch, tmp_path, name):
    settings = {"batch_size": 1, "save_steps": 1, "log_steps": 1}
    now = training_batch("llama", lora={"r": 2})
    trained(now, **settings)
    newest, *later = sorted(now.scratch.glob("checkpoint-*"))  # before the last step
    assert [shutil.rmtree(each) for each in later]
    content = "[" * 10**5 if name == STATE else pickle.dumps(Touch(tmp_path / "executed"), 2)
    (newest / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RunError, match=f"{newest.name}: the training cannot go on from this"):
        trained(now, **settings)
    assert not (tmp_path / "executed").exists()


def test_the_order_of_the_data_is_a_pure_function_of_seed_and_settings():
    some = learner(epochs=2.5, batch_size=4)
    lengths = [n * 7 % 13 for n in range(10)]
    order = some.order(lengths, seed=5)
    assert order == some.order(lengths, seed=5) != some.order(lengths, seed=6)
    assert len(order) == 25 == some.passes(10)
    assert some.steps(10) == 7
    for begin, end in ((0, 10), (10, 20)):
        assert sorted(order[begin:end]) == list(range(10))
    assert len(set(order[20:])) == 5
    assert learner(epochs=0.01).order(lengths, seed=5) in [[n] for n in range(10)]


def test_a_batch_holds_answers_of_like_length():
    lengths = [n % 50 for n in range(640)]
    order = learner(epochs=1, batch_size=4).order(lengths, seed=0)
    batches = [[lengths[i] for i in order[b : b + 4]] for b in range(0, 640, 4)]
    assert sorted(order) == list(range(640))
    assert np.mean([max(batch) - min(batch) for batch in batches]) < 5
    assert len({batch[0] for batch in batches[:16]}) > 5


def test_a_loss_that_is_no_number_stops_with_its_reason(training_batch):
    now = training_batch("llama")
    with pytest.raises(
        EquipoiseError, match=r"at step \d+ of 6: lower learner.learning_rate \(now 1e\+30\)"
    ):
        learner(learning_rate=1e30, warmup_ratio=0).learn(now)


def test_what_cannot_be_learned_from_is_said(training_batch):
    now = training_batch("llama")
    with pytest.raises(NoSignal, match="policy@0 has no example"):
        learner().learn(replace(now, pairs=[]))
    with pytest.raises(ConfigError, match="needs a loss"):
        learner().learn(replace(now, loss=None))
    with pytest.raises(ConfigError, match="kind 'local'"):
        learner().learn(
            replace(now, player=Player.build({"kind": "tabular", "actions": ["a", "b"]}))
        )
    with pytest.raises(ConfigError, match="not a number"):
        learner().learn(replace(now, opponent_chosen_KB=now.opponent_chosen_KB * np.nan))
    with pytest.raises(ConfigError, match=r"are \(1, 3\), not \(1, 8\)"):
        learner().learn(replace(now, opponent_chosen_KB=now.opponent_chosen_KB[:, :3]))


@pytest.mark.long
def test_a_full_disk_is_said(training_batch, monkeypatch):
    from equipoise.learners.answer_trainer import AnswerTrainer

    def full(self, *args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(AnswerTrainer, "save_model", full)
    batch = training_batch("llama")
    with pytest.raises(DiskFull, match="no space left"), disk_errors(batch.output):
        learner(epochs=1).learn(batch)


def test_a_base_is_trained_without_dropout_of_its_own(training_batch, model_folder, tmp_path):
    folder = shutil.copytree(model_folder("llama"), tmp_path / "dropping")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.5}))
    given, lines = training_batch("llama"), []
    player = given.player.model_copy(update={"model": str(folder)})
    taught = replace(given, player=player, log=lines.append)
    learner(epochs=1, learning_rate=1e-9).learn(taught)
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-4)


BEST = {"share": 0.25, "every": 2}
SMALL = {"batch_size": 2, "epochs": 6}


def contrary_pairs() -> list[Pair]:
    """Pairs of which those held out prefer what all others reject: learning makes them worse."""
    pairs = some_pairs()
    for place in held_out_pairs(pairs, BEST["share"], seed=11):
        pair = pairs[place]
        pairs[place] = msgspec.structs.replace(pair, chosen=pair.rejected, rejected=pair.chosen)
    return pairs


def mean_loss(now: TrainingBatch, weights: Path, places: list[int]) -> float:
    """The loss of these pairs under the weights in a folder, as the player reads them."""
    objective = PairObjective(now.loss, (1.0,))
    rows = pair_rows(now, None, now.player.encoding())
    chosen, rejected = (scores(now.player, weights, now.pairs, w) for w in ("chosen", "rejected"))
    logprob_A = torch.tensor(np.stack([chosen, rejected], 1)[places]).flatten().float()
    loss_B, _ = objective(logprob_A, [rows[place] for place in places])
    return loss_B.mean().item()


@pytest.mark.long
@pytest.mark.parametrize("lora", [None, {"r": 4}])
def test_the_weights_of_the_lowest_loss_on_pairs_held_out_are_kept(training_batch, lora):
    """And what is said of the loss is what the written weights give."""
    lines = []
    now = training_batch("llama", lora=lora, log=lines.append, pairs=contrary_pairs())
    facts = learner(**SMALL, lowest_loss=BEST).learn(now)
    held = held_out_pairs(now.pairs, BEST["share"], now.seed)
    assert len(held) == facts["held_out_examples"] == 2
    assert facts["examples"] == 36  # six passes over the other six
    measured = {line["step"]: line["held_out_loss"] for line in lines if "held_out_loss" in line}
    assert list(measured) == [2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert measured[facts["kept_step"]] == min(measured.values()) == facts["held_out_loss"]
    assert facts["kept_step"] < 18
    assert facts["held_out_loss"] == pytest.approx(mean_loss(now, now.output, held), abs=1e-5)


@pytest.mark.long
def test_the_best_step_is_remembered_over_a_kill_and_a_move(training_batch, tmp_path):
    """The run's folder is another one when it goes on."""
    settings = {**SMALL, "lowest_loss": BEST}
    undisturbed = training_batch("llama", pairs=contrary_pairs())
    facts = learner(**settings).learn(undisturbed)
    assert facts["kept_step"] < 14

    def stop(line):
        if line["step"] == 15:
            raise Killed

    killed = replace(undisturbed, log=stop, scratch=tmp_path / "first")
    with pytest.raises(Killed):
        learner(**settings).learn(killed)
    (tmp_path / "first").rename(tmp_path / "moved")
    (tmp_path / "other").mkdir()
    again = replace(killed, log=lambda line: None, scratch=tmp_path / "moved")
    again = replace(again, output=tmp_path / "other")
    assert learner(**settings).learn(again) == facts
    assert_close(weights_of(again.output), weights_of(undisturbed.output), atol=0)


def test_pairs_of_one_prompt_are_held_out_together():
    pairs = [replace_prompt(pair, str(n // 3)) for n, pair in enumerate(some_pairs(12))]
    held = held_out_pairs(pairs, 0.3, seed=4)
    assert len(held) == 3
    assert len({pairs[place].prompt for place in held}) == 1
    assert held == held_out_pairs(pairs, 0.3, seed=4)
    with pytest.raises(ConfigError, match="holds out 1 of 1 prompts"):
        held_out_pairs(pairs[:3], 0.3, seed=4)


def replace_prompt(pair: Pair, prompt: str) -> Pair:
    return msgspec.structs.replace(pair, prompt=prompt)
