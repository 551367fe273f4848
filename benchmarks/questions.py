"""A pool by SPARTA on real questions, end to end, with models made on the spot; and how much of the
answers was learned.

A base model of about a million parameters is made from nothing and learns the form of questions and
answers: it spells questions, answers at random and repeats answers that it is shown. Four members
start from it; each is trained on the right answers to another quarter of the questions, and to
grade answers to those as the pool's judges do. Then they play by the `sparta` recipe. No member is
trained on the questions that are held out or tested on, so only the accuracy beyond that of the
most frequent right answer can be called learned.

    python -m benchmarks.questions [--task culture gsm8k] [--data ../shared/data/sparta]
        [--seeds 0 1 2] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import math
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
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks.running import recorded, share_of_cores
from equipoise import seeds
from equipoise.judges.gold import Gold
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.fresh_model import new_model
from equipoise.models.resources import Resources
from equipoise.payoffs.intervals import Interval, mean_interval, over_seeds
from equipoise.players.local import Local
from equipoise.prompts.prompt_files import Files
from equipoise.runs import recipe_loader
from equipoise.runs.arena import RunArena
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId, Prompt, View, user
from tools.build_clerk import Example
from tools.build_expert import BAD, GOOD, QUESTION, judge_quotes

MEMBERS = ("north", "east", "south", "west")
GENERATIONS, SAMPLES = 3, 2  # answers to each prompt that is measured
# Examples that teach the base the form of questions and answers.
SPELLED, GUESSED, REPEATED = 800, 400, 600
TIMES = 8  # how often a member sees each of its questions, and grades answers to it
CONTEXT = 640  # tokens


@dataclass(frozen=True)
class Task:
    """The files of a task's questions, and the form of its answers."""

    # The file whose `dev` trains the members and whose `test` is held out and tested on.
    scored: str
    # What the pool plays; it may come without answers.
    played: str
    # The form of an answer.
    answer_form: str
    # Rows with the same value of this fact stay together.
    group: str
    vocabulary: int
    per_generation: int


TASKS = {
    "culture": Task(
        "culturebench_scored.json", "culturebench_scored.json#dev", "{}", "question_id", 1500, 120
    ),
    "gsm8k": Task("gsm8k_scored.json", "gsm8k_questions.json", "The answer is {}.", "id", 2000, 60),
}


def read(path: Path) -> list[Prompt]:
    """The prompts of a file or of its part, each once."""
    prompts = Files.model_validate({"path": str(path)}).load().training
    return list({prompt.id: prompt for prompt in prompts}.values())


def answers(prompts: Sequence[Prompt]) -> list[str]:
    """The right answers."""
    return [str(prompt.facts["answer"]) for prompt in prompts]


def divided(prompts: Sequence[Prompt], parts: int, group: str, seed: int) -> list[list[Prompt]]:
    """`prompts` in so many parts of about the same size; prompts with the same fact `group` stay
    together.
    """
    names = list(dict.fromkeys(str(prompt.facts[group]) for prompt in prompts))
    order = seeds.generator(seed, "parts", parts).permutation(len(names)).tolist()
    place = {names[number]: i % parts for i, number in enumerate(order)}
    return [
        [prompt for prompt in prompts if place[str(prompt.facts[group])] == part]
        for part in range(parts)
    ]


def graded(prompt: Prompt, answer: str, grade: str, rng: np.random.Generator) -> Example:
    """A judge's question, as in the pool, and the reply to it."""
    view = QUESTION.view(judge_quotes(prompt, answer), int(rng.integers(2**60)))
    return view.messages, grade


def form(
    task: Task, prompts: Sequence[Prompt], known: Sequence[str], seed: int
) -> Iterator[Example]:
    """Examples of form without right answers: to spell the questions, to answer at random, to
    repeat a quoted answer.
    """
    rng, possible = seeds.generator(seed, "form"), sorted(set(known))
    for number in range(SPELLED):
        yield (user("Ask."),), prompts[number % len(prompts)].messages[0].content
    for number in range(GUESSED):
        yield (
            prompts[number % len(prompts)].messages,
            task.answer_form.format(rng.choice(possible)),
        )
    for number in range(REPEATED):
        answer = task.answer_form.format(rng.choice(possible))
        (question,), _ = graded(prompts[number % len(prompts)], answer, "", rng)
        yield (user(f"{question.content}\nRepeat the answer."),), answer


def own_examples(
    task: Task, own: Sequence[Prompt], known: Sequence[str], seed: int
) -> Iterator[Example]:
    """Right answers to the questions of `own`; high grades for these, low ones for other answers of
    `known`.
    """
    rng = seeds.generator(seed, "lessons")
    for prompt, right in zip(own, answers(own), strict=True):
        others = [answer for answer in known if answer != right]
        for _ in range(TIMES):
            yield prompt.messages, task.answer_form.format(right)
            yield prompt.messages, task.answer_form.format(right)
            yield graded(prompt, task.answer_form.format(right), str(rng.choice(GOOD)), rng)
            yield graded(
                prompt, task.answer_form.format(rng.choice(others)), str(rng.choice(BAD)), rng
            )


def make_pool(task: Task, data: Path, folder: Path, seed: int) -> dict[str, float]:
    """The base and the members, each in its folder; returns a model's parameters, and the members'
    accuracy on their own questions.
    """
    taught = read(data / f"{task.scored}#dev")
    played = read(data / task.played)
    distinct = {prompt.id: prompt for prompt in [*played, *taught]}
    known = answers(taught)
    start = list(form(task, list(distinct.values()), known, seed))
    texts: list[str] = []
    for messages, answer in start:
        texts += [messages[0].content, answer]
    made = new_model(
        texts, folder / "new", vocabulary=task.vocabulary, context=CONTEXT, seed=seed, shrink=True
    )
    train_sft(folder / "new", start, folder / "base", settings(1.5e-3), seed=seed, device="cpu")
    accuracies: list[tuple[float, float]] = []
    for name, own in zip(MEMBERS, divided(taught, len(MEMBERS), task.group, seed), strict=True):
        examples = list(own_examples(task, own, known, seeds.child(seed, name)))
        train_sft(folder / "base", examples, folder / name, settings(1e-3), seed=seed, device="cpu")
        accuracies.append(training_accuracy(task, folder / name, own, known, seed))
    answered, judged = (fmean(shares) for shares in zip(*accuracies, strict=True))
    return {
        "parameters": float(made.parameters),
        "taught answers": answered,
        "taught grades": judged,
    }


def training_accuracy(
    task: Task, model: Path, own: Sequence[Prompt], known: Sequence[str], seed: int
) -> tuple[float, float]:
    """Of a member's own questions: the share that it answers right, and how often it grades a right
    answer above a wrong one.

    By its most likely tokens. Equal grades count half, so chance is one half; NaN where no two
    grades can be read.
    """
    player = Local.model_validate(
        {"model": str(model), "temperature": 0, "max_new_tokens": 12, "device": "cpu"}
    )
    actor, rng = player.open(None, Resources()), seeds.generator(seed, "taught well")

    def ask(views: list[View]) -> list[str]:
        return [move.text.strip() for move in actor.act(views, list(range(len(views))))]

    rights = answers(own)
    wrongs = [rng.choice([answer for answer in known if answer != right]) for right in rights]

    def grade(answers: list[str]) -> list[str]:
        views = []
        for prompt, answer in zip(own, answers, strict=True):
            text = task.answer_form.format(answer)
            views.append(View(graded(prompt, text, "", rng)[0]))
        return ask(views)

    replies = ask([View(prompt.messages) for prompt in own])
    grades = zip(grade(rights), grade(wrongs), strict=True)
    above = [
        (float(a) > float(b)) + (float(a) == float(b)) / 2
        for a, b in grades
        if a.isdigit() and b.isdigit()
    ]
    answered = fmean(
        reply == task.answer_form.format(right)
        for reply, right in zip(replies, rights, strict=True)
    )
    return answered, fmean(above) if above else math.nan


def settings(learning_rate: float) -> SFT:
    """Settings of a training of one epoch."""
    return SFT.model_validate(
        {"learning_rate": learning_rate, "batch_size": 8, "log_steps": 1000, "save_steps": 0}
    )


def recipe(task: Task, data: Path, folder: Path, seed: int) -> RunConfig:
    """`sparta` over the members; the test's questions are halved into those held out and those
    tested on.
    """
    whole = json.loads((data / task.scored).read_text())
    common = {key: value for key, value in whole.items() if isinstance(value, str)}
    rows = {str(row["id"]): {**common, **row} for row in whole["test"]}
    paths = {"path": str(data / task.played)}
    halves = divided(read(data / f"{task.scored}#test"), 2, task.group, seed)
    for part, prompts in zip(("held_out", "test"), halves, strict=True):
        file = folder / f"{part}.jsonl"
        lines = [json.dumps(rows[str(prompt.facts["id"])]) for prompt in prompts]
        file.write_text("".join(f"{line}\n" for line in lines))
        paths[f"{part}_path"] = str(file)
    values = recipe_loader.read("sparta")
    values["name"] = f"sparta on {task.scored}"
    values["seed"] = seed
    values["generations"] = GENERATIONS
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
    return recipe_loader.build(values, "benchmark")


def one_seed(task: Task, data: Path, seed: int) -> dict[str, float]:
    """A pool, made and played, and its figures."""
    with tempfile.TemporaryDirectory(prefix="questions-") as name:
        folder, started = Path(name), time.perf_counter()
        taught = make_pool(task, data, folder, seed)
        made = time.perf_counter()
        with RunDirectory.create(recipe(task, data, folder, seed), folder / "run") as run:
            league(OpenRun(run), GENERATIONS)
            played = figures(run, task)
        ended = time.perf_counter()
    return {**played, **taught, "making": made - started, "playing": ended - made}


def figures(run: RunDirectory, task: Task) -> dict[str, float]:
    """The figures of a run."""
    ledger = run.ledger
    scores = [
        {PlayerId.parse(name).name: score["mean"] for name, score in by_player.items()}
        for by_player in (facts["scores"] for facts in recorded(run, "measure"))
    ]
    (selected,) = recorded(run, "select")
    paired = recorded(run, "pair")
    kept = sum(facts["pairs"] for facts in paired)
    lost = sum(sum(facts["dropped"].values()) for facts in paired)
    ids = [match.id for match in ledger.matches("train")]
    judgements = ledger.judgements_of(ids, run.config.judge.name)
    votes = [vote for judgement in judgements.values() for vote in judgement.votes]
    played = [right(run, "train", t) for t in (0, GENERATIONS - 1)]
    same = [constant(run, t) for t in (0, GENERATIONS)]
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
        "same before": same[0],
        "same after": same[1],
        "unreadable": sum(vote.value is None for vote in votes) / len(votes),
        "dropped": lost / (kept + lost),
        "spearman": agreement(run, scores),
    }


def majority(prompts: Sequence[Prompt]) -> tuple[str, float]:
    """The answer that is right most often, and its share: the accuracy without reading the
    questions.
    """
    answer, count = Counter(answers(prompts)).most_common(1)[0]
    return answer, count / len(prompts)


def over_majority(run: RunDirectory, chosen: str, task: Task) -> tuple[Interval, float]:
    """By how much `chosen` beats the majority answer on the test, questions counting as clusters;
    and that answer's share.
    """
    judge = run.config.evaluate.judge
    assert judge is not None
    prompts = {prompt.id: prompt for prompt in run.ledger.prompts("test", 0)}
    answer, share = majority(list(prompts.values()))
    scored = RunArena(OpenRun(run)).scores(PlayerId.parse(chosen), SAMPLES, judge, "test")
    differences, groups = [], []
    for name, values in scored.items():
        facts = prompts[name].facts
        for score in values:
            if score is not None:
                differences.append(score - (str(facts["answer"]) == answer))
                groups.append(str(facts[task.group]))
    return mean_interval(differences, groups), share


def right(run: RunDirectory, part: str, t: int) -> float:
    """The share of right answers in the matches of generation t; NaN where the questions come
    without answers.
    """
    judge = run.config.evaluate.judge
    assert isinstance(judge, Gold)
    prompts = {prompt.id: prompt for prompt in run.ledger.prompts(part, t)}
    answered = [
        (prompts[match.prompt], turn.move.text)
        for match in run.ledger.matches(part, t)
        for turn in match.turns
    ]
    scored = [
        verdict["score"] for verdict in judge.scores(answered) if not isinstance(verdict, str)
    ]
    return fmean(scored) if scored else math.nan


def constant(run: RunDirectory, t: int) -> float:
    """How often generation t gives its most frequent answer to the held-out questions: the mean
    over its members.
    """
    counts: dict[PlayerId, Counter[str]] = defaultdict(Counter)
    for match in run.ledger.matches("held_out", t):
        for turn in match.turns:
            counts[match.seats[turn.seat]][turn.move.text] += 1
    return fmean(
        max(texts.values()) / texts.total()
        for player, texts in counts.items()
        if player.generation == t
    )


def agreement(run: RunDirectory, scores: Sequence[Mapping[str, float]]) -> float:
    """Spearman's correlation of a generation's reputations with its held-out scores; the mean over
    generations.

    A generation's reputations follow from its own answers, so they are compared with its scores
    before it learned. Generations whose members all have the same score are left out; NaN where no
    other is left.
    """
    correlations = []
    for facts, score in zip(recorded(run, "rate"), scores, strict=False):
        values = {rating["name"]: rating["value"] for rating in facts["ratings"]}
        if len(set(values.values())) > 1 and len(set(score.values())) > 1:
            result: Any = spearmanr(list(values.values()), [score[name] for name in values])
            correlations.append(float(result.statistic))
    return fmean(correlations) if correlations else math.nan


def reading(name: str, rows: Sequence[Mapping[str, float]]) -> str:
    """What was learned, in a sentence; with a single seed, the interval is over the test's
    questions.
    """
    over = over_seeds([row["over"] for row in rows])
    if len(rows) == 1:
        over = Interval(rows[0]["over"], rows[0]["over low"], rows[0]["over high"], 1)
    if over.low > 0:
        result = "more than the majority answer was learned"
    elif over.high < 0:
        result = "not even the majority answer was learned"
    else:
        result = "nothing beyond the majority answer is shown to be learned"
    after, base, before = (
        mean(rows, key) for key in ("best after", "best majority", "best before")
    )
    points = f"{100 * over.mean:+.1f} points ({100 * over.low:+.1f} to {100 * over.high:+.1f})"
    return (
        f"{name}: {result}: on the test the best member is right in {after:.1%} (the "
        f"best start in {before:.1%}), the "
        f"majority answer in {base:.1%}, a difference of {points}; a member's most "
        "frequent answer is "
        f"{mean(rows, 'same before'):.0%} of its answers before and "
        f"{mean(rows, 'same after'):.0%} after."
    )


def mean(rows: Sequence[Mapping[str, float]], key: str) -> float:
    """The mean over seeds."""
    return fmean(row[key] for row in rows)


def table(by_task: Mapping[str, Sequence[Mapping[str, float]]]) -> Table:
    """A column for each task: mean over seeds with its interval."""
    seeds_of = max(map(len, by_task.values()))
    shown = Table(title=f"SPARTA on real questions, {seeds_of} seed(s), mean and 95 % interval")
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
    for name in by_task:
        shown.add_column(name, justify="right")
    for label, key in lines.items():
        shown.add_row(
            label, *(interval([row[key] for row in rows]).percent() for rows in by_task.values())
        )
    shown.add_row(
        "Spearman, reputation",
        *(interval([row["spearman"] for row in rows]).text() for rows in by_task.values()),
    )
    for key in ("making", "playing"):
        shown.add_row(f"{key}, seconds", *(f"{mean(rows, key):.0f}" for rows in by_task.values()))
    return shown


def interval(values: Sequence[float]) -> Interval:
    """Over the seeds that have the figure."""
    return over_seeds([value for value in values if not math.isnan(value)])


def main() -> None:
    """Print the table and its conclusions, and write the figures behind it as JSON with
    --json.
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
    options = parser.parse_args()
    console = Console()
    if not options.data.exists():
        console.print(f"{options.data} is absent; nothing to run")
        return
    by_task: dict[str, list[dict[str, float]]] = {}
    with ThreadPoolExecutor(options.jobs) as workers:
        for name in options.task:

            def play(seed: int, name: str = name) -> dict[str, float]:
                if options.jobs > 1:
                    return in_own_process(options.data, name, seed, options.jobs)
                return one_seed(TASKS[name], options.data, seed)

            each = map if options.jobs == 1 else workers.map
            by_task[name] = list(each(play, options.seeds))
    if options.json:
        options.json.write_text(json.dumps(by_task, indent=1))
    console.print(table(by_task))
    for name, rows in by_task.items():
        console.print(reading(name, rows))


def in_own_process(data: Path, task: str, seed: int, jobs: int) -> dict[str, float]:
    """A seed in its own process, on its share of the cores."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks.questions", "--data", str(data)]
        command += ["--task", task, "--seeds", str(seed), "--json", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=share_of_cores(jobs))
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(path.read_text())[task][0]


if __name__ == "__main__":
    main()
