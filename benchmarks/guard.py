"""A small guard made from labelled requests: how well it separates harmful from harmless requests
that it never saw.

A Llama of two layers is made from nothing (`models.new_model`) with a tokenizer fitted to
WildGuard's training requests, gets a classification head, and learns the labels. The judge
`harm_classifier` reads its folder:

    judge: {kind: harm_classifier, model: FOLDER, reads: prompt, unsafe: harmful,
            refusals_are_safe: true}

    python -m benchmarks.guard --data ../shared/data [--out FOLDER] [--seed 0]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    get_cosine_schedule_with_warmup,
)

from benchmarks.wildguard import prompts
from equipoise import seeds
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.quoting import transcript
from equipoise.models.fresh_model import new_model, resize
from equipoise.models.progress import quiet
from equipoise.models.resources import Resources
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.players.population import Population
from equipoise.types import Prompt

LABELS = ("harmless", "harmful")
WILDGUARD = Path("gtalign") / "wildguard"


def train_guard(
    rows: Sequence[Prompt],
    out: Path,
    seed: int = 0,
    *,
    epochs: int = 2,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    context: int = 512,
) -> int:
    """A classifier `harmless`/`harmful` of the requests' texts, saved in `out` with its tokenizer.

    `rows` carry the fact `harmful`; texts beyond `context` tokens are cut. Equal arguments give
    equal weights. Returns the parameter count.
    """
    rows = [row for row in rows if transcript(row.messages)]
    texts = [transcript(row.messages) for row in rows]
    made = new_model(
        texts,
        out,
        vocabulary=3000,
        size=resize("tiny", layers=2),
        context=context,
        seed=seed,
        shrink=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(out)
    names = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {name: k for k, name in enumerate(LABELS)},
    }
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(out, **names)
    ids = [
        torch.tensor(tokenizer.encode(text, truncation=True, max_length=context)) for text in texts
    ]
    label_P = torch.tensor([int(row.facts["harmful"]) for row in rows])
    _fit(model.train(), ids, label_P, seed, epochs, batch_size, learning_rate)
    with quiet():
        model.save_pretrained(out)
    return made.parameters


def _fit(
    model,
    ids: list[torch.Tensor],
    label_P: torch.Tensor,
    seed: int,
    epochs: int,
    size: int,
    rate: float,
) -> None:
    """Cross-entropy by AdamW, a cosine from `rate` to 0; batches of like length within shuffled
    runs of rows.
    """
    rng = seeds.generator(seed, "guard order")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    steps = epochs * -(-len(ids) // size)
    schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
    for _ in range(epochs):
        order = rng.permutation(len(ids)).tolist()
        for start in range(0, len(order), 8 * size):
            run = sorted(order[start : start + 8 * size], key=lambda i: len(ids[i]))
            for place in range(0, len(run), size):
                chosen = run[place : place + size]
                ids_BT = pad_sequence([ids[i] for i in chosen], True, model.config.pad_token_id)
                mask_BT = pad_sequence([torch.ones_like(ids[i]) for i in chosen], True)
                output = model(input_ids=ids_BT, attention_mask=mask_BT, labels=label_P[chosen])
                loss = output.loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()


def no_run() -> JudgeContext:
    """The context of a judge that needs neither a run nor a player."""
    resources = Resources()
    game = Game.build("answers")
    population = Population({}, Path(), resources=resources)
    return JudgeContext(game, 0, (), {}, resources, population.actor)


def accuracy(folder: Path, rows: Sequence[Prompt]) -> Interval:
    """The share of `rows` whose label the judge `harm_classifier` gives, with its 95 % interval.

    A row without a verdict counts as wrong.
    """
    settings = {
        "kind": "harm_classifier",
        "model": str(folder),
        "reads": "prompt",
        "unsafe": "harmful",
        "truncate": True,
    }
    judge = Judge.build(settings).at(no_run())
    verdicts = judge.scores([(row, "") for row in rows])
    right = []
    for verdict, row in zip(verdicts, rows, strict=True):
        judged = not isinstance(verdict, str)
        label = float(row.facts["harmful"])
        right.append(float(judged and verdict["unsafe"] == label))
    return mean_interval(right, share=True)


def majority(training: Sequence[Prompt], rows: Sequence[Prompt]) -> Interval:
    """The share of `rows` that have the commoner label of `training`."""
    commoner = 2 * sum(row.facts["harmful"] for row in training) > len(training)
    return mean_interval([float(row.facts["harmful"] == commoner) for row in rows], share=True)


def main() -> None:
    """Train a guard and print its accuracy on the test requests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data"),
        help=f"the folder that holds {WILDGUARD}",
    )
    parser.add_argument("--out", type=Path, help="keep the guard here")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console()
    if not (arguments.data / WILDGUARD).exists():
        console.print(f"{arguments.data / WILDGUARD} is absent; nothing to train on")
        return
    training, test = prompts(arguments.data / WILDGUARD)
    with tempfile.TemporaryDirectory(prefix="guard-") as name:
        folder, started = arguments.out or Path(name), time.perf_counter()
        parameters = train_guard(training, folder, arguments.seed)
        console.print(
            f"{parameters:,} parameters, {len(training)} requests, "
            f"{time.perf_counter() - started:.0f} s"
        )
        console.print(f"right of {len(test)} held out   guard {accuracy(folder, test).percent()}")
    console.print(f"the commoner label {majority(training, test).percent()}")


if __name__ == "__main__":
    main()
