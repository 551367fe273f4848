"""A warm-up wastes no step; what a step divides by, what is logged, kept and taken up again."""

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainingArguments

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.learners import answer_trainer
from equipoise.learners.answer_trainer import (
    STATE,
    AnswerTrainer,
    Row,
    _Events,
    _lines,
    mark_complete,
    resumable,
    skip_first_step,
)
from equipoise.models.adapters import Lora
from equipoise.models.loading import load_model
from equipoise.models.packing import PromptAnswers
from equipoise.models.progress import following


def test_the_first_step_of_a_warm_up_is_not_at_rate_0():
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=2.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 4))
    assert optimizer.param_groups[0]["lr"] == 0
    skip_first_step(scheduler)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == rates[-1:]
        optimizer.step()
        scheduler.step()
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0]


@pytest.mark.parametrize("parts", [1, 4])
def test_an_optimizer_step_is_told_once_in_all_its_parts(parts):
    events, heard = _Events(lambda line: None), []
    args, control = (
        SimpleNamespace(gradient_accumulation_steps=parts),
        SimpleNamespace(should_log=False),
    )
    with following(heard.append):
        for step in (1, 2):
            for _ in range(parts - 1):
                events.on_substep_end(args, None, control)
            state = SimpleNamespace(global_step=step, max_steps=2)
            events.on_step_end(args, state, control)
            assert sum(heard) == pytest.approx(step)
            assert control.should_log is (step == 2)
    assert len(heard) == 2 * parts


def test_a_process_that_sees_several_accelerators_is_told_how_to_use_them():
    """Before anything of the model is looked at; two accelerators are stood in for."""
    args = SimpleNamespace(n_gpu=2)
    with pytest.raises(ConfigError, match=r"sees 2 GPUs: .*num_processes: 2"):
        AnswerTrainer(None, args, [], None, pad_id=0, chunk=None, share=False, log=print)


def test_a_row_is_known_by_all_that_it_is_made_of():
    row = Row(PromptAnswers([1, 2], [[3], [4, 5]]), (0.5,))
    assert row.length == 5
    assert row.counts
    others = [
        Row(PromptAnswers([1, 2], [[3], [4, 5]]), (0.25,)),
        Row(PromptAnswers([1, 2], [[3], [4, 6]]), (0.5,)),
        Row(PromptAnswers([1, 2], [[3, 4], [5]]), (0.5,)),
        Row(PromptAnswers([1], [[2, 3], [4, 5]]), (0.5,)),
    ]
    assert len({row.identity, *(other.identity for other in others)}) == 5
    assert row.identity == Row(PromptAnswers([1, 2], [[3], [4, 5]]), (0.5,)).identity


def test_a_line_of_metrics_covers_the_steps_since_the_last():
    history = [
        {"loss": 0.5, "grad_norm": 2.0, "learning_rate": 0.1, "epoch": 0.1, "margin": 1, "step": 2},
        {"step": 7.0, "margin": 3.0, "loss": 0.25, "epoch": 0.2},
    ]
    first, second = _lines(history)
    assert [*first.items()] == [
        *(("step", 2), ("steps", 2), ("loss", 0.5), ("grad_norm", 2.0)),
        *(("learning_rate", 0.1), ("margin", 1)),
    ]
    assert [*second.items()] == [("step", 7), ("steps", 5), ("loss", 0.25), ("margin", 3.0)]


# -- checkpoints


def checkpoint(scratch, step, complete=True):
    folder = scratch / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model").touch()
    if complete:
        mark_complete(folder)
    return folder


def test_the_newest_whole_checkpoint_of_this_training_is_taken_up(tmp_path):
    scratch = tmp_path / "new" / "scratch"
    assert resumable(scratch, "one") is None
    assert json.loads((scratch / "training.json").read_text()) == {"identity": "one"}
    assert resumable(scratch, "one") is None
    checkpoint(scratch, 9), checkpoint(scratch, 11, complete=False)
    newest = checkpoint(scratch, 10)
    assert resumable(scratch, "one") == newest
    assert {path.name for path in scratch.iterdir()} == {
        *("training.json", "checkpoint-9", "checkpoint-10")
    }
    (scratch / "launch").mkdir()
    assert resumable(scratch, "two") is None
    assert {path.name for path in scratch.iterdir()} == {"training.json", "launch"}
    assert json.loads((scratch / "training.json").read_text()) == {"identity": "two"}


@pytest.mark.parametrize(
    "note",
    [None, "", "[1]", "{}", "null", '{"identity": "two"}', "[" * 10**5],
    ids=lambda note: str(note)[:20],
)
def test_a_checkpoint_of_no_known_training_is_deleted(tmp_path, note):
    checkpoint(tmp_path, 3)
    if note is not None:
        (tmp_path / "training.json").write_text(note)
    assert resumable(tmp_path, "one") is None
    assert [path.name for path in tmp_path.iterdir()] == ["training.json"]
    whole = checkpoint(tmp_path, 4)
    assert resumable(tmp_path, "one") == whole


def test_what_is_no_checkpoint_is_removed(tmp_path):
    assert resumable(tmp_path, "one") is None
    newest = checkpoint(tmp_path, 4)
    checkpoint(tmp_path, "abc"), checkpoint(tmp_path, "²"), checkpoint(tmp_path, "9" * 30)
    (tmp_path / "checkpoint-9").write_text("a file")
    assert resumable(tmp_path, "one") == newest
    assert {path.name for path in tmp_path.iterdir()} == {"training.json", "checkpoint-4"}


@pytest.mark.parametrize(
    ("state", "best"),
    [
        ('{"best_model_checkpoint": "/elsewhere/scratch/checkpoint-2"}', "checkpoint-2"),
        ('{"best_model_checkpoint": "/etc"}', "etc"),
        ('{"best_model_checkpoint": 5}', "5"),
    ],
)
def test_the_best_checkpoint_lies_beside(tmp_path, state, best):
    assert resumable(tmp_path, "one") is None
    newest = checkpoint(tmp_path, 4)
    (newest / STATE).write_text(state)
    assert resumable(tmp_path, "one") == newest
    named = json.loads((newest / STATE).read_text())["best_model_checkpoint"]
    assert named == str(tmp_path / best)


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_is_whole_once_all_have_written(tmp_path, monkeypatch, first):
    """The first process says so; others are stood in for."""
    waited, lines = [], []

    class Together:
        def wait_for_everyone(self):
            waited.append(sorted(path.name for path in folder.iterdir()))

    monkeypatch.setattr(answer_trainer, "PartialState", Together)
    folder = checkpoint(tmp_path, 6, complete=False)
    history = [{"step": 2, "loss": 0.5}]
    state = SimpleNamespace(is_world_process_zero=first, global_step=6, log_history=history)
    events = _Events(lines.append)
    events.on_save(SimpleNamespace(output_dir=str(tmp_path)), state, None)
    assert waited == [["model"]]
    assert (folder / "complete").exists() == first
    events.on_train_begin(None, state, None)
    assert lines == ([{"step": 2, "steps": 2, "loss": 0.5}] if first else [])


# -- the trainer itself


class Likelihoods:
    """The negative log-probabilities of a row's answers, twice for a row of column 2."""

    def __call__(self, logprob_A, batch):
        assert len(logprob_A) == len(batch)
        factor_B = torch.tensor([row.columns[0] for row in batch])
        return -factor_B * logprob_A, {"likelihood": logprob_A.detach()}

    def size(self, row):
        return row.columns[0]


ROWS = [
    Row(PromptAnswers([5, 6, 7], [[8, 9]]), (1.0,)),
    Row(PromptAnswers([5, 6], [[10]]), (2.0,)),
    Row(PromptAnswers([5], [[8, 9, 10, 11]]), (1.0,)),
]


def trainer(model, folder, rows=ROWS, batch_size=2, **given) -> AnswerTrainer:
    args = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch_size,
        use_cpu=True,
        report_to="none",
        learning_rate=0.5,
        **given,
    )
    shared = {"pad_id": 0, "chunk": None, "share": False, "log": lambda line: None}
    return AnswerTrainer(model, args, rows, Likelihoods(), **shared)


@torch.no_grad()
def by_hand(model, row) -> float:
    (answer,) = row.answers.answers
    ids = torch.tensor([[*row.answers.prompt, *answer]])
    logits_TV = model(ids).logits[0, len(row.answers.prompt) - 1 : -1]
    return float(logits_TV.log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).sum())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_step_is_one_mean_over_all_that_counts(model_folder, tmp_path, monkeypatch, processes):
    """The number of processes is said; what the second would compute is not looked at."""
    monkeypatch.setattr(TrainingArguments, "world_size", property(lambda self: processes))
    model = load_model(str(model_folder("llama")), device="cpu")
    made = trainer(model, tmp_path, gradient_accumulation_steps=1)
    assert made.sizes == ([3, 1] if processes == 1 else [4])
    assert (made.examples, made.longest) == (3, 5)
    assert len(made.train_dataset) == (3 if processes == 1 else 4)
    rows = [ROWS[1], Row(ROWS[0].answers, ROWS[0].columns, counts=False)]
    inputs = answer_trainer.Rows.collate(rows)
    own = by_hand(model, ROWS[1])
    loss = made.compute_loss(model, inputs)
    assert loss.item() == pytest.approx(-2 * own * processes / made.sizes[0], rel=1e-4)
    assert made._sums["likelihood"].item() == pytest.approx(own, rel=1e-4)
    assert (made._rows, made._tokens) == (1, 3)
    made.compute_loss(model, answer_trainer.Rows.collate(ROWS[:2]))
    total = 2 * own + by_hand(model, ROWS[0])
    assert made._sums["likelihood"].item() == pytest.approx(total, rel=1e-4)
    assert (made._rows, made._tokens) == (3, 11)


def test_steps_of_several_passes_divide_by_all_their_rows(model_folder, tmp_path):
    model = load_model(str(model_folder("llama")), device="cpu")
    made = trainer(model, tmp_path, [*ROWS, *ROWS], gradient_accumulation_steps=2)
    assert made.sizes == [5, 3]
    assert made.floating_point_ops({}) == 0


def test_probes_are_read_without_dropout(model_folder, tmp_path):
    torch.manual_seed(0)
    lora = Lora(r=2, alpha=4, dropout=0.5)
    model = load_model(str(model_folder("llama")), None, lora, device="cpu", trainable=True)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    made = trainer(model, tmp_path)
    model.train()
    found = made.logprobs(ROWS)
    assert [len(row) for row in found] == [1, 1, 1]
    assert not model.training
    assert [row[0] for row in found] == pytest.approx(
        [by_hand(model, row) for row in ROWS], rel=1e-4
    )


def test_a_trained_weight_that_is_no_number_is_named():
    layer = torch.nn.Linear(2, 2)
    args = SimpleNamespace(learning_rate=0.5, max_grad_norm=1.0)
    said = SimpleNamespace(
        model=layer, args=args, state=SimpleNamespace(global_step=3, max_steps=7)
    )
    said._error = lambda what: AnswerTrainer._error(said, what)
    AnswerTrainer.assert_finite(said)
    torch.nn.init.constant_(layer.bias, torch.nan)
    wrong = r"bias holds a weight that is not a number at step 3 of 7: .*\(now 0\.5\)"
    with pytest.raises(EquipoiseError, match=wrong):
        AnswerTrainer.assert_finite(said)
    layer.bias.requires_grad_(False)
    AnswerTrainer.assert_finite(said)


@pytest.mark.parametrize("first", [True, False])
def test_weights_in_shares_are_gathered_and_tied_again(tmp_path, first):
    """accelerate, which divides weights on accelerators alone, is stood in for."""
    did, written = [], []
    weights = {"embed": 1, "head": 2, "apart": 3}
    plugin = SimpleNamespace(set_state_dict_type=did.append)
    model = SimpleNamespace(
        all_tied_weights_keys={"head": "embed", "none": "embed", "apart": "none"},
        save_pretrained=lambda folder, state_dict: written.append((folder, state_dict)),
    )
    made = SimpleNamespace(
        is_fsdp_enabled=True,
        model=model,
        accelerator=SimpleNamespace(
            state=SimpleNamespace(fsdp_plugin=plugin),
            get_state_dict=lambda asked: did.append(asked) or dict(weights),
        ),
        is_world_process_zero=lambda: first,
    )
    AnswerTrainer.save_whole(made, tmp_path)
    assert did == ["FULL_STATE_DICT", model]
    whole = {"embed": 1, "head": 1, "apart": 3}
    assert written == ([(str(tmp_path), whole)] if first else [])
    saved = []
    plain = SimpleNamespace(
        is_fsdp_enabled=False, save_model=saved.append, is_world_process_zero=lambda: first
    )
    AnswerTrainer.save_whole(plain, tmp_path)
    assert saved == [str(tmp_path)]
