"""A pool by SPARTA on real questions, end to end, with models made on the spot; and
what of the answers was learned.

A base model of about a million parameters is made from nothing and learns how questions
and answers look: it spells questions, answers at random and repeats answers that it is
shown. Four members start from it; each is taught the right answers to another quarter
of the questions, and to grade answers to those as the pool's judges are asked to. Then
they play by the `sparta` recipe. Nobody is taught the questions that are held out or
tested on, so only what is right there beyond the answer that is right most often can be
called learned.

    python -m benchmarks.questions [--task culture gsm8k] [--data ../shared/data/sparta] [--seeds 0 1 2] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from equipoise import seeds
from equipoise.environments.clerk.build import Example
from equipoise.environments.clerk.build_pool import BAD, GOOD, QUESTION, quoted
from equipoise.judges.gold import Gold
from equipoise.learners.sft import SFT, train_sft
from equipoise.models.new_model import new_model
from equipoise.models.resources import Resources
from equipoise.payoffs.intervals import Interval, mean_interval, over_seeds
from equipoise.players.local import Local
from equipoise.prompts.files import Files
from equipoise.run import recipes
from equipoise.run.arena import RunArena
from equipoise.run.config import RunConfig
from equipoise.run.directory import Run
from equipoise.run.loop import league
from equipoise.run.monitor import Silent
from equipoise.run.stages import RunStages
from equipoise.types import PlayerId, Prompt, View, user

MEMBERS = ("north", "east", "south", "west")
GENERATIONS, SAMPLES = 3, 2  # answers to each prompt that is measured
SPELLED, GUESSED, REPEATED = (
    800,
    400,
    600,
)  # examples that teach the base the form of things
TIMES = 8  # how often a member meets each of its questions, and grades answers to it
CONTEXT = 640  # tokens


@dataclass(frozen=True)
class Task:
    """Where a task's questions lie, and how its answers are written."""

    scored: str  # the file whose `dev` teaches the members and whose `test` is held out and tested on
    played: str  # what the pool plays; it may come without answers
    said: str  # how an answer is written
    group: str  # rows with the same value of this fact stay together
    vocabulary: int
    per_generation: int


TASKS = {
    "culture": Task(
        "culturebench_scored.json",
        "culturebench_scored.json#dev",
        "{}",
        "question_id",
        1500,
        120,
    ),
    "gsm8k": Task(
        "gsm8k_scored.json", "gsm8k_questions.json", "The answer is {}.", "id", 2000, 60
    ),
}


def read(path: Path) -> list[Prompt]:
    """The prompts of a file or of its part, each once."""
    found = Files.model_validate({"path": str(path)}).load().training
    return list({prompt.id: prompt for prompt in found}.values())


def answers(prompts: Sequence[Prompt]) -> list[str]:
    """The right ones."""
    return [str(prompt.facts["answer"]) for prompt in prompts]


def dealt(
    prompts: Sequence[Prompt], parts: int, group: str, seed: int
) -> list[list[Prompt]]:
    """`prompts` in so many parts of about one size; what has the fact `group` in common
    stays together.
    """
    names = list(dict.fromkeys(str(prompt.facts[group]) for prompt in prompts))
    order = seeds.generator(seed, "parts", parts).permutation(len(names)).tolist()
    place = {names[number]: i % parts for i, number in enumerate(order)}
    return [
        [prompt for prompt in prompts if place[str(prompt.facts[group])] == part]
        for part in range(parts)
    ]


def graded(
    prompt: Prompt, answer: str, grade: str, dice: np.random.Generator
) -> Example:
    """A judge's question, as the pool asks it, and what to reply."""
    return QUESTION.view(
        quoted(prompt, answer), int(dice.integers(2**60))
    ).messages, grade


def form(
    task: Task, prompts: Sequence[Prompt], known: Sequence[str], seed: int
) -> Iterator[Example]:
    """What says nothing of what is right: to spell the questions, to answer at random,
    to repeat a quoted answer.
    """
    dice, possible = seeds.generator(seed, "form"), sorted(set(known))
    for number in range(SPELLED):
        yield (user("Ask."),), prompts[number % len(prompts)].messages[0].content
    for number in range(GUESSED):
        yield (
            prompts[number % len(prompts)].messages,
            task.said.format(dice.choice(possible)),
        )
    for number in range(REPEATED):
        answer = task.said.format(dice.choice(possible))
        (asked,), _ = graded(prompts[number % len(prompts)], answer, "", dice)
        yield (user(f"{asked.content}\nRepeat the answer."),), answer


def lessons(
    task: Task, own: Sequence[Prompt], known: Sequence[str], seed: int
) -> Iterator[Example]:
    """Right answers to the questions of `own`; high grades for these, low ones for
    other answers of `known`.
    """
    dice = seeds.generator(seed, "lessons")
    for prompt, right in zip(own, answers(own), strict=True):
        others = [answer for answer in known if answer != right]
        for _ in range(TIMES):
            yield prompt.messages, task.said.format(right)
            yield prompt.messages, task.said.format(right)
            yield graded(prompt, task.said.format(right), str(dice.choice(GOOD)), dice)
            yield graded(
                prompt,
                task.said.format(dice.choice(others)),
                str(dice.choice(BAD)),
                dice,
            )


def make_pool(task: Task, data: Path, folder: Path, seed: int) -> dict[str, float]:
    """The base and the members, a folder each; returns the parameters of one, and how
    well they were taught.
    """
    taught = read(data / f"{task.scored}#dev")
    asked = list(
        {prompt.id: prompt for prompt in [*read(data / task.played), *taught]}.values()
    )
    known = answers(taught)
    start = list(form(task, asked, known, seed))
    texts = [
        text for messages, answer in start for text in (messages[0].content, answer)
    ]
    made = new_model(
        texts, folder / "new", vocabulary=task.vocabulary, context=CONTEXT, seed=seed
    )
    train_sft(
        folder / "new",
        start,
        folder / "base",
        settings(1.5e-3),
        seed=seed,
        device="cpu",
    )
    known_by: list[tuple[float, float]] = []
    for name, own in zip(
        MEMBERS, dealt(taught, len(MEMBERS), task.group, seed), strict=True
    ):
        examples = list(lessons(task, own, known, seeds.child(seed, name)))
        train_sft(
            folder / "base",
            examples,
            folder / name,
            settings(1e-3),
            seed=seed,
            device="cpu",
        )
        known_by.append(taught_well(task, folder / name, own, known, seed))
    answered, judged = (fmean(shares) for shares in zip(*known_by, strict=True))
    return {
        "parameters": float(made.parameters),
        "taught answers": answered,
        "taught grades": judged,
    }


def taught_well(
    task: Task, model: Path, own: Sequence[Prompt], known: Sequence[str], seed: int
) -> tuple[float, float]:
    """Of a member's own questions: the share it answers right, and how often it grades
    right above wrong.

    By its most likely words. Equal grades count half, so chance is one half; NaN where
    no two grades can be read.
    """
    player = Local.model_validate(
        {"model": str(model), "temperature": 0, "max_new_tokens": 12, "device": "cpu"}
    )
    actor, dice = player.open(None, Resources()), seeds.generator(seed, "taught well")

    def ask(views: list[View]) -> list[str]:
        return [move.text.strip() for move in actor.act(views, list(range(len(views))))]

    rights = answers(own)
    wrongs = [
        dice.choice([answer for answer in known if answer != right]) for right in rights
    ]
    said = ask([View(prompt.messages) for prompt in own])
    grades = [
        ask(
            [
                View(graded(p, task.said.format(answer), "", dice)[0])
                for p, answer in zip(own, shown, strict=True)
            ]
        )
        for shown in (rights, wrongs)
    ]
    above = [
        (float(a) > float(b)) + (float(a) == float(b)) / 2
        for a, b in zip(*grades, strict=True)
        if a.isdigit() and b.isdigit()
    ]
    answered = fmean(
        text == task.said.format(right)
        for text, right in zip(said, rights, strict=True)
    )
    return answered, fmean(above) if above else math.nan


def settings(learning_rate: float) -> SFT:
    """One pass."""
    return SFT.model_validate(
        {
            "learning_rate": learning_rate,
            "batch_size": 8,
            "log_steps": 1000,
            "save_steps": 0,
        }
    )


def recipe(task: Task, data: Path, folder: Path, seed: int) -> RunConfig:
    """`sparta` over the members; the test's questions are halved into those held out
    and those tested on.
    """
    whole = json.loads((data / task.scored).read_text())
    common = {key: value for key, value in whole.items() if isinstance(value, str)}
    rows = {str(row["id"]): {**common, **row} for row in whole["test"]}
    paths = {"path": str(data / task.played)}
    halves = dealt(read(data / f"{task.scored}#test"), 2, task.group, seed)
    for part, prompts in zip(("held_out", "test"), halves, strict=True):
        file = folder / f"{part}.jsonl"
        file.write_text(
            "".join(
                json.dumps(rows[str(prompt.facts["id"])]) + "\n" for prompt in prompts
            )
        )
        paths[f"{part}_path"] = str(file)
    values = recipes.read("sparta")
    values["name"], values["seed"], values["generations"] = (
        f"sparta on {task.scored}",
        seed,
        GENERATIONS,
    )
    values["player_defaults"] |= {
        "lora": None,
        "max_new_tokens": 12,
        "max_length": CONTEXT,
        "device": "cpu",
    }
    values["players"] = {name: {"model": str(folder / name)} for name in MEMBERS}
    values["prompts"] = {
        "kind": "files",
        **paths,
        "per_generation": task.per_generation,
        "reuse": True,
        "held_out": 200,
        "test": 200,
    }
    values["judge"] = {"kind": "peers", "text": "rubric_compact"}
    values["learner"] |= {
        "batch_size": 16,
        "gradient_accumulation": 1,
        "learning_rate": 1e-4,
        "save_steps": 0,
    }
    values["evaluate"]["samples"] = SAMPLES
    return recipes.build(values, "benchmark")


def one_seed(task: Task, data: Path, seed: int) -> dict[str, float]:
    """A pool made and played, and what came of it."""
    with tempfile.TemporaryDirectory(prefix="questions-") as name:
        folder, started = Path(name), time.perf_counter()
        taught = make_pool(task, data, folder, seed)
        made = time.perf_counter()
        with Run.create(recipe(task, data, folder, seed), folder / "run") as run:
            league(RunStages.of(run, Silent()), GENERATIONS)
            found = figures(run, task)
        ended = time.perf_counter()
    return {**found, **taught, "making": made - started, "playing": ended - made}


def figures(run: Run, task: Task) -> dict[str, float]:
    """What a run came to."""
    ledger = run.ledger
    measured = [found["scores"] for _, _, _, found, _ in ledger.stages("measure")]
    scores = [
        {PlayerId.parse(name).name: score["mean"] for name, score in each.items()}
        for each in measured
    ]
    (selected,) = [found for _, _, _, found, _ in ledger.stages("select")]
    paired = [found for _, _, _, found, _ in ledger.stages("pair")]
    kept, lost = (
        sum(found["pairs"] for found in paired),
        sum(sum(found["dropped"].values()) for found in paired),
    )
    matches = ledger.matches("train")
    words = ledger.judgements_of((match.id for match in matches), run.config.judge.name)
    votes = [vote for word in words.values() for vote in word.votes]
    played = [right(run, "train", t) for t in (0, GENERATIONS - 1)]
    said = [constant(run, t) for t in (0, GENERATIONS)]
    over, baseline = over_majority(run, selected["chosen"], task)
    return {
        "pool before": fmean(scores[0].values()),
        "pool after": fmean(scores[-1].values()),
        "pool majority": majority(ledger.prompts("held_out", 0))[1],
        "best before": selected["test"][selected["start"]]["mean"],
        "best after": selected["test"][selected["chosen"]]["mean"],
        "best majority": baseline,
        "over": over.mean,
        "over low": over.low,
        "over high": over.high,
        "chosen generation": float(PlayerId.parse(selected["chosen"]).generation),
        "played before": played[0],
        "played after": played[1],
        "same before": said[0],
        "same after": said[1],
        "unreadable": sum(vote.value is None for vote in votes) / len(votes),
        "dropped": lost / (kept + lost),
        "spearman": agreement(run, scores),
    }


def majority(prompts: Sequence[Prompt]) -> tuple[str, float]:
    """The answer that is right most often, and how often: what can be had without
    reading the questions.
    """
    answer, count = Counter(answers(prompts)).most_common(1)[0]
    return answer, count / len(prompts)


def over_majority(run: Run, chosen: str, task: Task) -> tuple[Interval, float]:
    """By how much `chosen` beats the majority answer on the test, questions counting as
    clusters; and that answer.
    """
    judge = run.config.evaluate.judge
    assert judge is not None
    prompts = {prompt.id: prompt for prompt in run.ledger.prompts("test", 0)}
    answer, share = majority(list(prompts.values()))
    scored = RunArena.of(run, Silent()).scores(
        PlayerId.parse(chosen), SAMPLES, judge, "test"
    )
    rows = [
        (
            score - (str(prompts[name].facts["answer"]) == answer),
            str(prompts[name].facts[task.group]),
        )
        for name, found in scored.items()
        for score in found
        if score is not None
    ]
    return mean_interval(
        [value for value, _ in rows], [group for _, group in rows]
    ), share


def right(run: Run, part: str, t: int) -> float:
    """The share of right answers in the matches of generation t; NaN where the
    questions come without answers.
    """
    judge = run.config.evaluate.judge
    assert isinstance(judge, Gold)
    prompts = {prompt.id: prompt for prompt in run.ledger.prompts(part, t)}
    asked = [
        (prompts[match.prompt], turn.move.text)
        for match in run.ledger.matches(part, t)
        for turn in match.turns
    ]
    scored = [
        verdict["score"]
        for verdict in judge.scores(asked)
        if not isinstance(verdict, str)
    ]
    return fmean(scored) if scored else math.nan


def constant(run: Run, t: int) -> float:
    """How often generation t gives its most frequent answer to the held-out questions:
    the mean over its members.
    """
    said: dict[PlayerId, Counter[str]] = defaultdict(Counter)
    for match in run.ledger.matches("held_out", t):
        for turn in match.turns:
            said[match.seats[turn.seat]][turn.move.text] += 1
    return fmean(
        max(texts.values()) / texts.total()
        for who, texts in said.items()
        if who.generation == t
    )


def agreement(run: Run, scores: Sequence[Mapping[str, float]]) -> float:
    """Spearman's correlation of a generation's reputations with its held-out scores;
    the mean over generations.

    A generation's reputations come of its own answers, so they are held against what it
    was worth before it learned. Generations whose members all score alike say nothing;
    NaN where there are no others.
    """
    rated = [
        {rating["name"]: rating["value"] for rating in found["ratings"]}
        for _, _, _, found, _ in run.ledger.stages("rate")
    ]
    found = [
        float(spearmanr(list(values.values()), [score[name] for name in values])[0])  # pyright: ignore
        for values, score in zip(rated, scores, strict=False)
        if len(set(values.values())) > 1 and len(set(score.values())) > 1
    ]
    return fmean(found) if found else math.nan


def reading(name: str, rows: Sequence[Mapping[str, float]]) -> str:
    """What was learned, in one sentence; with one seed, the interval is over the test's
    questions.
    """
    over = over_seeds([row["over"] for row in rows])
    if len(rows) == 1:
        over = Interval(rows[0]["over"], rows[0]["over low"], rows[0]["over high"], 1)
    if over.low > 0:
        said = "more than the majority answer was learned"
    elif over.high < 0:
        said = "not even the majority answer was learned"
    else:
        said = "nothing beyond the majority answer is shown to be learned"
    after, base, before = (
        mean(rows, key) for key in ("best after", "best majority", "best before")
    )
    points = f"{100 * over.mean:+.1f} points ({100 * over.low:+.1f} to {100 * over.high:+.1f})"
    return (
        f"{name}: {said}: on the test the best member is right in {after:.1%} (the best start in {before:.1%}), the "
        f"majority answer in {base:.1%}, a difference of {points}; a member's most frequent answer is "
        f"{mean(rows, 'same before'):.0%} of its answers before and {mean(rows, 'same after'):.0%} after."
    )


def mean(rows: Sequence[Mapping[str, float]], key: str) -> float:
    """Over seeds."""
    return fmean(row[key] for row in rows)


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> Table:
    """A column a task: mean over seeds with its interval."""
    seeds_of = max(map(len, found.values()))
    shown = Table(
        title=f"SPARTA on real questions, {seeds_of} seed(s), mean and 95 % interval"
    )
    shown.add_column("")
    lines = {
        "taught questions answered": "taught answers",
        "taught questions judged": "taught grades",
        "pool before (held out)": "pool before",
        "pool after": "pool after",
        "majority answer (held out)": "pool majority",
        "best before (test)": "best before",
        "best after": "best after",
        "majority answer (test)": "best majority",
        "played questions, before": "played before",
        "played questions, after": "played after",
        "most frequent answer, before": "same before",
        "most frequent answer, after": "same after",
        "unreadable grades": "unreadable",
        "matches without a pair": "dropped",
    }
    for name in found:
        shown.add_column(name, justify="right")
    for label, key in lines.items():
        shown.add_row(
            label,
            *(
                interval([row[key] for row in rows]).percent()
                for rows in found.values()
            ),
        )
    shown.add_row(
        "Spearman, reputation",
        *(
            interval([row["spearman"] for row in rows]).text()
            for rows in found.values()
        ),
    )
    for key in ("making", "playing"):
        shown.add_row(
            f"{key}, seconds", *(f"{mean(rows, key):.0f}" for rows in found.values())
        )
    return shown


def interval(values: Sequence[float]) -> Interval:
    """Over the seeds that say anything."""
    return over_seeds([value for value in values if not math.isnan(value)])


def main() -> None:
    """Print the table and what it says, and write the figures behind it as JSON when
    asked.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/sparta"))
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="seeds played side by side, each on its share of the cores",
    )
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    asked = parser.parse_args()
    console = Console()
    if not asked.data.exists():
        console.print(f"{asked.data} is absent; nothing to run")
        return
    found: dict[str, list[dict[str, float]]] = {}
    with ThreadPoolExecutor(asked.jobs) as workers:
        for name in asked.task:
            ask = [
                sys.executable,
                "-m",
                "benchmarks.questions",
                "--data",
                str(asked.data),
                "--task",
                name,
            ]

            def play(
                seed: int, name: str = name, ask: list[str] = ask
            ) -> dict[str, float]:
                if asked.jobs > 1:
                    return elsewhere([*ask, "--seeds", str(seed)], name, asked.jobs)
                return one_seed(TASKS[name], asked.data, seed)

            found[name] = list(
                (map if asked.jobs == 1 else workers.map)(play, asked.seeds)
            )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    console.print(table(found))
    for name, rows in found.items():
        console.print(reading(name, rows))


def elsewhere(command: list[str], task: str, jobs: int) -> dict[str, float]:
    """One seed in a process of its own, on its share of the cores."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // jobs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        done = subprocess.run(
            [*command, "--json", str(path)],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(path.read_text())[task][0]


if __name__ == "__main__":
    main()
