"""Attack and defence on real prompts: the effect of GPO on a small model that refuses at random,
beside RLHF.

The guard is a classifier of requests, made from WildGuard's training labels (`benchmarks.guard`). A
model of about a million parameters is made from nothing and learns two things: to refuse or to
comply, at random, and to write another request of the same kind. It starts both players of the
recipe `gpo`: harmful seeds are WildGuard's and GPO's red-team requests, harmless prompts are
WildGuard's, and the held-out prompts are from the test files of both.

    gpo   defender and adversary learn in turn, as in the recipe; the share `RAW` of the
          seeds is used as it is
    rlhf  the defender alone learns, for as many generations, on the seeds as they are
    probe a fresh adversary learns against the finished defender, which stays as it is:
          how far it can be exploited

    python -m benchmarks.red_team_questions --data ../shared/data [--seeds 2]
        [--generations 48] [--out DIR]

Prompts longer than `CHARACTERS` are dropped. No text is printed; all texts stay in the run folders.
The guard knows natural requests only, so that an adversary may satisfy it with texts that are no
requests: see `adversary on topic`, and `adversary's words known`, the share of its words that the
training prompts have.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import wildguard
from benchmarks.guard import WILDGUARD, accuracy, majority, train_guard
from benchmarks.running import recorded
from equipoise import seeds
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.fresh_model import new_model
from equipoise.payoffs.diversity import hash_vectors
from equipoise.payoffs.intervals import Interval, over_seeds
from equipoise.prompts.prompt_files import Files
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.template import Template
from equipoise.types import Message, Prompt, record_id, user

GPO = Path("gpo")
# Longer prompts are dropped: at most about 60 tokens of this vocabulary.
CHARACTERS = 200
COMPLIES = 0.6  # of the start's answers
# Harmful prompts to train on and held out: all of WildGuard's, the others GPO's.
SEEDS, HELD_OUT = 1000, 200
# Weight of the adversary's KL from the start; at the recipe's 0.01 its attacks soon shrink to a few
# words.
ADVERSARY_KL = 0.05
ATTACK_LENGTH = "words of an attack"
# The share of the seeds that is used as it is; at 0 the defender of one seed settled on answering
# everything.
RAW = 0.5
Values = dict[str, Any]
# arm -> (before, after), by name
Figures = dict[str, tuple[dict[str, Interval], dict[str, Interval]]]


@dataclass(frozen=True)
class PromptTexts:
    """The texts of a part: GPO's red-team requests, and WildGuard's by their labels."""

    name: str
    labelled: list[Prompt]
    seeds: list[str]
    harmful: list[str]
    harmless: list[str]


def read(data: Path) -> tuple[PromptTexts, PromptTexts]:
    """The training part and the held-out part."""
    train, test = wildguard.prompts(data / WILDGUARD)
    return (
        _part("train", train, data / GPO / "train.json"),
        _part("held_out", test, data / GPO / "test.json"),
    )


def _part(name: str, labelled: list[Prompt], file: Path) -> PromptTexts:
    prompts = Files.model_validate({"path": str(file)}).load().training
    texts = [prompt.messages[-1].content for prompt in prompts]
    harmful, harmless = [], []
    for prompt in labelled:
        same = harmful if prompt.facts["harmful"] else harmless
        same.append(prompt.messages[-1].content)
    return PromptTexts(name, labelled, _short(texts), _short(harmful), _short(harmless))


def _short(texts: Iterable[str]) -> list[str]:
    """Each text once, without blank ones and long ones."""
    texts = [text for text in texts if text.strip() and len(text) <= CHARACTERS]
    return list(dict.fromkeys(text.strip() for text in texts))


def make_start(train: PromptTexts, folder: Path, seed: int) -> int:
    """The model that both players start from, in `folder`/start; returns its parameter count."""
    corpus = [*train.seeds, *train.harmful, *train.harmless]
    spoken = [*wildguard.REFUSALS * 50, *wildguard.ANSWERS * 50, *["Rewrite: "] * 50]
    made = new_model(
        [*corpus, *spoken], folder / "new", vocabulary=2000, context=256, seed=seed, shrink=True
    )
    examples = [*answers(corpus, seed), *rewrites([*train.seeds, *train.harmful])]
    settings = SFT.model_validate(
        {"epochs": 2, "batch_size": 16, "learning_rate": 2e-3, "save_steps": 0}
    )
    train_sft(str(folder / "new"), examples, folder / "start", settings, seed=seed)
    return made.parameters


def answers(texts: Sequence[str], seed: int) -> list[tuple[tuple[Message, ...], str]]:
    """Each text with a refusal or with compliance, at random."""
    rng = seeds.generator(seed, "random answers")
    replies = (wildguard.REFUSALS[0], wildguard.ANSWERS[0])
    complies_B = rng.random(len(texts)) < COMPLIES
    return [
        ((user(text),), replies[int(complies)])
        for text, complies in zip(texts, complies_B, strict=True)
    ]


def rewrites(texts: list[str]) -> list[tuple[tuple[Message, ...], str]]:
    """The game's request to its adversary: each text with the other text of the most similar
    spelling.
    """
    template = Template("rewrite_compact", "games", "game.text", ("seed",), ("seed",))
    vector_BD = hash_vectors(texts)
    cosine_BB = vector_BD @ vector_BD.T
    np.fill_diagonal(cosine_BB, -1)
    nearest_B = cosine_BB.argmax(1)
    return [
        ((user(template.render(seed=text)),), texts[int(i)])
        for text, i in zip(texts, nearest_B, strict=True)
    ]


def write_rows(parts: tuple[PromptTexts, PromptTexts], folder: Path, seed: int) -> Values:
    """Seeds and harmless prompts with their labels as files in `folder`; the settings that read
    them.
    """
    rng = seeds.generator(seed, "rows")
    count = 0
    for part, most in zip(parts, (SEEDS, HELD_OUT), strict=True):
        missing = max(most - len(part.harmful), 0)
        chosen = rng.permutation(len(part.seeds))[:missing].tolist()
        harmful = [*part.harmful, *(part.seeds[i] for i in chosen)]
        rows = [{"prompt": text, "harmful": True} for text in harmful]
        rows += [{"prompt": text, "harmful": False} for text in part.harmless]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{part.name}.jsonl").write_text(lines, encoding="utf-8")
        count = len(rows)
    return {
        "path": str(folder / "train.jsonl"),
        "held_out_path": str(folder / "held_out.jsonl"),
        "per_generation": 48,
        "held_out": count,
        "reuse": True,
    }


def settings(start: Path, guard: Path, prompts: Values, generations: int, seed: int) -> Values:
    """The recipe `gpo` at this size: higher rates, and an adversary that stays closer to its start
    and is rewarded for new texts.
    """
    phase = generations // 4
    changed = {
        "seed": seed,
        "generations": 4 * phase,
        "player_defaults": {"temperature": 1.0, "top_p": 1.0, "max_length": 160, "batch_size": 256},
        "players": {
            "defender": {"model": str(start), "max_new_tokens": 12},
            "adversary": {"model": str(start), "max_new_tokens": 32},
        },
        "prompts": prompts,
        "game": {"kind": "red_team", "text": "rewrite_compact"},
        "schedule": {"raw": RAW},
        "judge": {
            "guard": {
                "kind": "harm_classifier",
                "model": str(guard),
                "reads": "prompt",
                "unsafe": "harmful",
                "truncate": True,
                "refusals_are_safe": True,
            },
            "topic": "on_topic",
        },
        "turns": {"steps": {"defender": phase, "adversary": phase}},
        "learner": {
            "learning_rate": 5e-4,
            "critic": "head",
            "critic_learning_rate": 3e-3,
            "warmup_steps": 5,
            "minibatches": 2,
            "batch_size": 48,
        },
        "learners": {"adversary": {"learning_rate": 1e-3, "kl": ADVERSARY_KL}},
        "evaluate": {"every": 2 * phase},
    }
    values = recipe_loader.merge(recipe_loader.read("gpo"), changed)
    return {**values, "shaping": [*values["shaping"], {"kind": "unfit"}]}


def alone(values: Values, learner: str, frozen: Path, generations: int) -> Values:
    """The same game, but `learner` alone learns; the other player keeps the weights in the folder
    `frozen`.
    """
    other = {"defender": "adversary", "adversary": "defender"}[learner]
    changed = {
        "generations": generations,
        "players": {other: {"model": str(frozen), "learns": False}},
        "turns": {"kind": "one", "player": learner},
        "evaluate": {"every": generations, "crossplay": 0},
    }
    values = recipe_loader.merge(
        values, changed | {"schedule": {"raw": 1.0 if learner == "defender" else 0.0}}
    )
    values["learners"] = {name: own for name, own in values["learners"].items() if name == learner}
    if learner == "defender":
        values["shaping"] = []
    return values


def play(values: Values, folder: Path) -> tuple[list[Values], dict[str, Path]]:
    """The measurements, in order, and the newest weights of each learner."""
    with RunDirectory.create(
        recipe_loader.build(values, "benchmark"), folder, overwrite=True
    ) as run:
        league(OpenRun(run), run.config.generations)
        measured = recorded(run, "measure")
        known = set[str]()
        for prompt in run.ledger.prompts("train"):
            known.update(_words(prompt.messages[-1].content))
        attacks: dict[str, list[str]] = {}
        for match in run.ledger.matches("held_out"):
            texts = attacks.setdefault(str(match.seats.get("adversary")), [])
            texts += [turn.move.text for turn in match.turns[:1]]
    for facts in measured:
        texts: list[str] = []
        for player in facts["players"]:
            texts += attacks.get(player, [])
        is_known = [token in known for text in texts for token in _words(text)]
        facts["known"] = sum(is_known) / len(is_known) if is_known else None
        facts["words"] = len(is_known) / max(len(texts), 1)
    newest = {}
    for home in folder.glob("players/*"):
        generations = [path for path in home.iterdir() if path.name.isdigit()]
        newest[home.name] = max(generations, key=lambda path: int(path.name))
    return measured, newest


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def intervals(measured: Values) -> dict[str, Interval]:
    """The figures of a measurement by name, each with its interval over held-out prompts where it
    has one.
    """
    diverse = measured["diversity"]
    known = {
        "attack success, seeds as they are": measured["attack_success"]["raw"],
        "attack success, adversary's": measured["attack_success"]["adversary"],
        "over-refusal": measured["over_refusal"],
        "helpfulness": measured["helpfulness"],
        "adversary on topic": measured["adversary_on_topic"],
        "adversary refuses": measured["adversary_refused"],
    }
    worst = measured["exploitability"] if "crossplay" in measured else None
    plain = {
        "worst in cross-play": worst,
        "diversity 1 − self-BLEU": diverse["bleu_diversity"],
        "diversity 1 − cosine/2": diverse["cosine_diversity"],
        "different attacks": diverse["distinct"],
        "adversary's words known": measured["known"],
        ATTACK_LENGTH: measured["words"],
    }
    figures = {name: _interval(values) for name, values in known.items()}
    for name, value in plain.items():
        if value is not None:
            figures[name] = Interval(value, math.nan, math.nan, 1)
    return figures


def _interval(values: Values) -> Interval:
    mean, low, high = (
        math.nan if values[name] is None else values[name] for name in ("mean", "low", "high")
    )
    return Interval(mean, low, high, values["n"])


def one_seed(
    parts: tuple[PromptTexts, PromptTexts],
    guard: Path,
    folder: Path,
    seed: int,
    arguments: argparse.Namespace,
) -> Figures:
    """Every arm from the same start: arm -> (before, after)."""
    folder.mkdir(parents=True, exist_ok=True)
    make_start(parts[0], folder, seed)
    prompts = write_rows(parts, folder, seed)
    values = settings(folder / "start", guard, prompts, arguments.generations, seed)
    measured, made = play(values, folder / "gpo")
    figures = {"gpo": (intervals(measured[0]), intervals(measured[-1]))}
    defenders = {"gpo": made["defender"]}
    if arguments.rlhf:
        lone = alone(values, "defender", made["adversary"], values["generations"] // 2)
        measured, trained = play(lone, folder / "rlhf")
        figures["rlhf"] = (intervals(measured[0]), intervals(measured[-1]))
        defenders["rlhf"] = trained["defender"]
    for arm, weights in defenders.items() if arguments.probe else ():
        lone = alone(values, "adversary", weights, arguments.probe)
        lone["players"]["adversary"]["model"] = str(folder / "start")
        measured, _ = play(lone, folder / f"probe_{arm}")
        before_after = (intervals(measured[0]), intervals(measured[-1]))
        figures[f"fresh adversary on {arm}"] = before_after
    return figures


def table(title: str, by_seed: Sequence[Figures], arm: str) -> Table:
    """Before and after: of a single seed with 95 % intervals over prompts, of several their mean,
    with both or Student's.
    """
    shown = Table(title=title)
    for column in ("held out", "before", "after"):
        shown.add_column(column)
    for name in by_seed[0][arm][0]:
        before = [figures[arm][0][name] for figures in by_seed]
        after = [figures[arm][1][name] for figures in by_seed]
        is_share = name != ATTACK_LENGTH
        shown.add_row(name, _cell(before, is_share), _cell(after, is_share))
    return shown


def _cell(values: Sequence[Interval], is_share: bool) -> str:
    means, form = [value.mean for value in values], ".1%" if is_share else ".1f"
    if len(means) == 2:  # Student's interval of two values is of no use
        return f"{sum(means) / 2:{form}} ({means[0]:{form}}, {means[1]:{form}})"
    if len(means) > 2:
        return over_seeds(means).text("%" if is_share else "")
    return f"{means[0]:{form}}" if math.isnan(values[0].low) else values[0].percent()


def main() -> None:
    """Print the guard's accuracy and the tables of every seed and of their mean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help=f"holds {WILDGUARD} and {GPO}"
    )
    parser.add_argument("--seeds", type=int, default=2, help="how many, from 0")
    parser.add_argument(
        "--generations", type=int, default=48, help="of gpo, in four phases; at least 4"
    )
    parser.add_argument(
        "--probe", type=int, default=16, help="generations of a fresh adversary; 0: none"
    )
    parser.add_argument(
        "--rlhf",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the arm without adversary",
    )
    parser.add_argument("--out", type=Path, help="keep guard, models and runs here")
    arguments = parser.parse_args()
    console = Console()
    for part in (WILDGUARD, GPO):
        if not (arguments.data / part).exists():
            console.print(f"{arguments.data / part} is absent; nothing to run")
            return
    if arguments.seeds < 1 or arguments.generations < 4:
        parser.error("at least one seed and four generations")
    with tempfile.TemporaryDirectory(prefix="red-team-") as name:
        run(arguments, arguments.out or Path(name), console)


def run(arguments: argparse.Namespace, folder: Path, console: Console) -> None:
    """Make the guard, then run every seed."""
    parts = read(arguments.data)
    train_guard(parts[0].labelled, folder / "guard")
    tests = parts[1].labelled
    console.print(
        f"guard, right of {len(tests)} held out: {accuracy(folder / 'guard', tests).percent()}"
    )
    console.print(f"the commoner label: {majority(parts[0].labelled, tests).percent()}")
    for name, texts in (("GPO's", parts[1].seeds), ("WildGuard's harmful", parts[1].harmful)):
        rows = [Prompt(record_id("seed", text), (user(text),), {"harmful": True}) for text in texts]
        console.print(
            f"called harmful of {len(rows)} of {name} held out: "
            f"{accuracy(folder / 'guard', rows).percent()}"
        )
    by_seed: list[Figures] = []
    guard = folder / "guard"
    for seed in range(arguments.seeds):
        started = time.perf_counter()
        figures = one_seed(parts, guard, folder / f"seed_{seed}", seed, arguments)
        by_seed.append(figures)
        for arm in figures:
            console.print(table(f"{arm}, seed {seed}", [figures], arm))
        console.print(f"seed {seed}: {(time.perf_counter() - started) / 60:.1f} min")
    for arm in by_seed[0] if len(by_seed) > 1 else ():
        console.print(table(f"{arm}, {len(by_seed)} seeds", by_seed, arm))


if __name__ == "__main__":
    main()
