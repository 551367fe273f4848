"""The assistant's game on real rows: what becomes of a model that knows the four blocks
and decides at random.

End to end by the command, for each task of GTAlign and each seed:

    equipoise new-model   about a million parameters from nothing; its corpus: training prompts and four-block texts
    equipoise traces      the cold start: a scripted teacher writes short blocks with a decision drawn at random
    equipoise run         the recipe of the task, judged by rule from the labels, by groups of answers (GRPO)

    python -m benchmarks.assistance_questions [--tasks wildguard ambig_qa] [--seeds 0 1 2] [--data DIR]

    right     decisions that fit the label: declined or complied (wildguard), asked back or answered (ambig_qa); an
              output that cannot be read decides nothing, and that is not right
    welfare   mean of √(user · llm) over the test rows, 0 where the output cannot be read

The peers see the labels themselves, of all training rows: the commoner one, and a
logistic regression on the words, whose accuracy is about what can be read off the text
without knowing the world.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from benchmarks.red_team import equipoise
from equipoise import seeds
from equipoise.payoffs.intervals import over_seeds
from equipoise.prompts.files import Files
from equipoise.run.directory import Run
from equipoise.types import Prompt, View

CHARACTERS = 200  # a prompt is cut here, at about 60 tokens of this vocabulary
MALFORMED = 0.1  # share of the teacher's texts that are no four blocks; `traces` leaves them out
TEMPERATURE = 0.5  # of sampling and learning: a decision at random stays so, a slip in a hundred tokens becomes rarer
CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
COLUMNS = ("right", "welfare", "user", "llm", "format")
Figures = dict[str, dict[str, float]]  # row of the table -> figure -> value


@dataclass(frozen=True)
class Choice:
    """One decision of the teacher: what it thinks, the cell it picks, and what it says."""

    thought: str
    cell: str
    response: str

    def blocks(self) -> str:
        """The four blocks; of the six cells the chosen one is worth most."""
        worth = {cell: (3, 4) if cell == self.cell else (1, 0) for cell in CELLS}
        matrix = {
            cell: {"LLM": llm, "user": user} for cell, (llm, user) in worth.items()
        }
        written = json.dumps(matrix, separators=(",", ":"))
        return (
            f"<thinking>{self.thought}</thinking><payoff>{written}</payoff>"
            f"<analyze>{self.cell} is best.</analyze><response>{self.response}</response>"
        )


@dataclass(frozen=True)
class Task:
    """A task of GTAlign: the fact that holds its label, and the decisions between which
    the teacher draws.
    """

    fact: str
    choices: tuple[Choice, ...]


TASKS = {
    "wildguard": Task(
        "harmful",
        (
            Choice("Comply.", "DQ_DA", "Sure, here is what you asked for."),
            Choice("Decline.", "DQ_DA", "I can't help with that."),
            Choice(
                "Redirect.",
                "DQ_AQ",
                "I can't help with that. Would you like something safe instead?",
            ),
        ),
    ),
    "ambig_qa": Task(
        "ambiguous",
        (
            Choice("Clear.", "DQ_DA", "Here is the answer to your question."),
            Choice("Vague.", "VQ_CQ", "Which one do you mean?"),
            Choice(
                "Both.",
                "VQ_AQ",
                "Here is the answer to your question. Which one do you mean?",
            ),
        ),
    ),
}


def wildguard(view: View, seed: int) -> str:
    """The teacher of wildguard: it does not look at the request."""
    return taught(TASKS["wildguard"], seed)


def ambig_qa(view: View, seed: int) -> str:
    """The teacher of ambig_qa: it does not look at the question."""
    return taught(TASKS["ambig_qa"], seed)


def taught(task: Task, seed: int) -> str:
    """Four blocks with one of the task's decisions, all equally likely; a share of them
    is malformed.
    """
    dice = seeds.generator(seed, "decision")
    text = task.choices[dice.integers(len(task.choices))].blocks()
    if dice.random() >= MALFORMED:
        return text
    return (
        text.replace("</payoff>", ""),
        f"Well: {text}",
        text.replace("<analyze>", ""),
    )[dice.integers(3)]


def recipe(name: str, data: Path, seed: int, generations: int) -> dict[str, Any]:
    """The settings over the task's packaged recipe."""
    return {
        "extends": f"gtalign_{name}",
        "seed": seed,
        "generations": generations,
        "players": {
            "assistant": {
                "max_new_tokens": 140,
                "max_length": 512,
                "batch_size": 96,
                "temperature": TEMPERATURE,
            }
        },
        "prompts": {
            "path": str(data / name / "train.parquet"),
            "held_out_path": str(data / name / "test.parquet"),
            "cut_at": CHARACTERS,
            "per_generation": 64,
            "held_out": 300,
        },
        "game": {"kind": "assistance", "text": "assistance_compact"},
        "judge": {
            "terms": {
                "response_words": [1, 30],
                "output_words": [5, 40],
                "steepness": 0.3,
            }
        },
        "schedule": {"samples": 4},
        "learner": {
            "estimator": "group_relative",
            "critic": None,
            "critic_learning_rate": None,
            "learning_rate": 5e-4,
            "warmup_steps": 10,
            "minibatches": 4,
            "epochs": 2,
            "batch_size": 32,
            "kl": 0.05,
            "max_grad_norm": 0.1,
        },
        "evaluate": {"samples": 1, "every": 1000},
    }


def rows(name: str, data: Path, part: str) -> list[Prompt]:
    """Every row of one of the task's files, cut as the run cuts it."""
    source = {
        "path": str(data / name / f"{part}.parquet"),
        "text": "chat",
        "cut_at": CHARACTERS,
    }
    return Files.model_validate(source).load().training


def make_start(name: str, data: Path, folder: Path, seed: int) -> dict[str, Any]:
    """A new model that knows the four blocks and decides at random, in
    `folder`/traces/model; what `traces` said.
    """
    prompts = [prompt.messages[-1].content for prompt in rows(name, data, "train")]
    asked = "Answer in four blocks: <thinking> <payoff> <analyze> <response>."
    written = [f"{asked}\n{choice.blocks()}" for choice in TASKS[name].choices] * (
        len(prompts) // 10
    )
    corpus = folder / "corpus.jsonl"
    corpus.write_text(
        "\n".join(json.dumps({"text": text}) for text in [*prompts, *written])
    )
    shape = ("--layers", "2", "--vocabulary", "3000", "--context", "512")
    equipoise(
        "new-model",
        "--corpus",
        str(corpus),
        "--out",
        str(folder / "new"),
        *shape,
        "--seed",
        str(seed),
        "--json",
    )
    teacher = f"{{kind: scripted, call: 'benchmarks.assistance_questions:{name}'}}"
    training = (
        "--train",
        str(folder / "new"),
        "--epochs",
        "2",
        "--learning-rate",
        "2e-3",
        "--batch-size",
        "8",
    )
    words = (
        "--teacher",
        teacher,
        "--candidates",
        "1",
        "--out",
        str(folder / "traces"),
        *training,
        "--json",
    )
    return json.loads(equipoise("traces", str(folder / "recipe.yaml"), *words))


def figures(facts: dict[str, Any]) -> dict[str, float]:
    """What was measured of one generation."""
    rates, utilities = facts["rates"], facts["utilities"]
    return {
        "right": rates["quality_llm"]["mean"],
        "welfare": facts["welfare"]["mean"],
        "user": utilities["user"]["mean"],
        "llm": utilities["llm"]["mean"],
        "format": rates["format"]["mean"],
    }


def one_seed(name: str, seed: int, asked: argparse.Namespace, place: Path) -> Figures:
    """One task from nothing to the end of its run, and its peers on the same rows."""
    folder, began = place / f"{name}-{seed}", time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    settings = recipe(name, asked.data.resolve(), seed, asked.generations)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    if not (folder / "traces" / "model").exists():
        make_start(name, asked.data.resolve(), folder, seed)
    started = time.perf_counter()
    words = (
        "-s",
        f"players.assistant.model={folder / 'traces' / 'model'}",
        *(w for s in asked.set for w in ("-s", s)),
    )
    equipoise(
        "run",
        str(folder / "recipe.yaml"),
        "--out",
        str(folder / "run"),
        "--overwrite",
        "--json",
        *words,
    )
    with Run.read(folder / "run") as opened:
        measured = [found for _, _, _, found, _ in opened.ledger.stages("measure")]
        tests = opened.ledger.prompts("held_out")
    minutes = {
        "start": (started - began) / 60,
        "trained": (time.perf_counter() - started) / 60,
    }
    found = {"start": figures(measured[0]), "trained": figures(measured[-1])}
    there = {prompt.id for prompt in tests}
    training = [
        prompt for prompt in rows(name, asked.data, "train") if prompt.id not in there
    ]
    peers = peer_accuracies(training, tests, TASKS[name].fact)
    return {
        row: {**values, "minutes": minutes[row]} for row, values in found.items()
    } | {row: {"right": value} for row, value in peers.items()}


def peer_accuracies(
    training: Sequence[Prompt], tests: Sequence[Prompt], fact: str
) -> dict[str, float]:
    """How many labels of `tests` the commoner label of `training` gets right, and how
    many its words do.
    """
    label_P, label_T = (
        np.array([bool(p.facts[fact]) for p in part], float)
        for part in (training, tests)
    )
    guessed_T = by_words(
        [p.messages[-1].content for p in training],
        label_P,
        [p.messages[-1].content for p in tests],
    )
    return {
        "commoner label": float((label_T == (label_P.mean() > 0.5)).mean()),
        "bag of words": float((label_T == guessed_T).mean()),
    }


def by_words(
    texts: Sequence[str], label_P: np.ndarray, asked: Sequence[str]
) -> np.ndarray:
    """Labels [T] of `asked` by logistic regression on words and pairs of neighbours,
    fitted to (texts, label_P).

        min Σ log(1 + exp(−y (x·w + b))) + ½ λ |w|²,  x: which words are there, at unit length

    λ is the one of a few with which four fifths of the texts say most about the last.
    """
    names = {
        name: k
        for k, name in enumerate(
            dict.fromkeys(word for text in texts for word in features(text))
        )
    }
    x_PW, x_TW = presence(texts, names), presence(asked, names)
    cut = len(texts) * 4 // 5
    weights = {
        decay: _fitted(x_PW[:cut], label_P[:cut], decay)
        for decay in (0.03, 0.1, 0.3, 1.0, 3.0)
    }
    right = {
        decay: (_guessed(x_PW[cut:], weight) == label_P[cut:]).mean()
        for decay, weight in weights.items()
    }
    return _guessed(
        x_TW, _fitted(x_PW, label_P, max(right, key=lambda decay: right[decay]))
    )


def features(text: str) -> Iterator[str]:
    """Its words and its pairs of neighbouring words."""
    words = re.findall(r"\w+", text.lower())
    yield from words
    yield from map(" ".join, pairwise(words))


def presence(texts: Sequence[str], names: dict[str, int]) -> csr_matrix:
    """[B, W]: 1 / √(features there) under each feature of a text that has a name."""
    there = [
        sorted({names[word] for word in features(text) if word in names})
        for text in texts
    ]
    value = np.concatenate(
        [np.full(len(row), len(row) ** -0.5) for row in there if row]
    )
    ends = np.cumsum([0, *map(len, there)])
    return csr_matrix(
        (value, np.concatenate(there).astype(int), ends), (len(texts), len(names))
    )


def _fitted(x_BW: csr_matrix, label_B: np.ndarray, decay: float) -> np.ndarray:
    sign_B = 2 * label_B - 1

    def loss(weight_W: np.ndarray) -> tuple[float, np.ndarray]:
        margin_B = sign_B * (x_BW @ weight_W[:-1] + weight_W[-1])
        slope_B = -sign_B / (1 + np.exp(margin_B))
        gradient_W = np.append(x_BW.T @ slope_B + decay * weight_W[:-1], slope_B.sum())
        return np.logaddexp(0, -margin_B).sum() + decay / 2 * weight_W[:-1] @ weight_W[
            :-1
        ], gradient_W

    return minimize(loss, np.zeros(x_BW.shape[1] + 1), jac=True, method="L-BFGS-B").x


def _guessed(x_BW: csr_matrix, weight_W: np.ndarray) -> np.ndarray:
    return x_BW @ weight_W[:-1] + weight_W[-1] > 0


def table(name: str, found: Sequence[Figures]) -> Table:
    """Before, after and the peers: mean over seeds with Student's interval where there
    are three or more, else each.
    """
    count = f"{len(found)} seed{'s' * (len(found) > 1)}"
    shown = Table(
        title=f"{name}, test rows, {count}{', mean and 95 % interval' * (len(found) > 2)}"
    )
    for column in ("", *COLUMNS, "minutes"):
        shown.add_column(column, justify="left" if not column else "right")
    for row, values in found[0].items():
        cells = [
            _cell([seed[row][column] for seed in found], column)
            if column in values
            else ""
            for column in COLUMNS
        ]
        minutes = (
            f"{np.mean([seed[row]['minutes'] for seed in found]):.1f}"
            if "minutes" in values
            else ""
        )
        shown.add_row(row, *cells, minutes)
    return shown


def _cell(values: Sequence[float], column: str) -> str:
    share = column in ("right", "format")
    if len(values) > 2:
        return over_seeds(values).text("%" if share else "").replace(" (", "\n(")
    return ", ".join(f"{value:.1%}" if share else f"{value:.3f}" for value in values)


def main() -> None:
    """Print a table for each task, and write the figures behind it as JSON when asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data/gtalign"),
        help="the folder of the tasks'",
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--generations",
        type=int,
        default=32,
        help="updates of a run, of 64 prompts each",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        nargs="+",
        default=[],
        help="settings of the run over these",
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds played side by side")
    parser.add_argument(
        "--out",
        type=Path,
        help="keep models and runs here; a start that is here already is used",
    )
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    everything: dict[str, list[Figures]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="assistance-") as spare,
        ThreadPoolExecutor(asked.jobs) as workers,
    ):
        place = (asked.out or Path(spare)).resolve()
        for name in asked.tasks:
            if not (asked.data / name).exists():
                console.print(f"{asked.data / name} is absent; nothing to run")
                continue
            tasks = [
                workers.submit(one_seed, name, seed, asked, place)
                for seed in asked.seeds
            ]
            for seed, task in zip(asked.seeds, tasks, strict=True):
                everything.setdefault(name, []).append(found := task.result())
                for row, values in found.items():
                    told = "  ".join(
                        f"{column} {value:.3f}" for column, value in values.items()
                    )
                    console.print(
                        f"{name} seed {seed}  {row:15} {told}", highlight=False
                    )
                if asked.json:
                    asked.json.write_text(json.dumps(everything, indent=1))
            console.print(table(name, everything[name]))


if __name__ == "__main__":
    main()
