"""A pool by SPARTA on real questions, end to end, with models made on the spot; and how much of the
answers was learned.

A base model of about a million parameters is made from nothing and learns the form of questions and
answers: it spells questions, answers at random and repeats answers that it is shown. Four members
start from it; each is trained on the right answers to another quarter of the questions, and to
grade answers to those as the pool's judges do. Then they play by the `sparta` recipe. No member is
trained on the questions that are held out or tested on, so only the accuracy beyond that of the
most frequent right answer can be called learned.

    python -m benchmarks.questions [--arms culture gsm8k] [--data ../shared/data/sparta]
        [--seeds 0 1 2] [--jobs 2] [--out DIR] [--json FILE]
"""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.controls import Decoded, decoded
from benchmarks.experiment import Experiment, Options, of_rows, of_run, played, written
from benchmarks.running import recorded, share_of_cores
from benchmarks.verdicts import GREEDY, Item
from equipoise import seeds
from equipoise.judges.gold import Gold
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.prompts.prompt_files import Files
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId, Prompt, View, user
from tools.build_clerk import Example
from tools.build_expert import BAD, GOOD, QUESTION, judge_quotes
from tools.fresh_model import new_model

MEMBERS = ("north", "east", "south", "west")
SAMPLES = 2  # answers to each prompt that is measured
TAUGHT = "taught.json"  # how well the members know what they were taught, beside them
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


def recipe(task: Task, data: Path, folder: Path, seed: int, generations: int) -> dict[str, Any]:
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
    values["generations"] = generations
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
    return values


def one_pool(name: str, data: Path, home: Path, seed: int) -> None:
    """The members of a pool, where they have not been made yet."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / TAUGHT).exists():
        (home / TAUGHT).write_text(json.dumps(make_pool(TASKS[name], data, home, seed)))


def play(seed: int, place: Path, o: Options) -> None:
    """Every task of a seed: its pool in a process of its own, on its share of the cores, its
    run.
    """
    data, threads = o.data.resolve(), int(share_of_cores(o.jobs)["OMP_NUM_THREADS"])
    for name in o.arms:
        home = place / f"{name}-{seed}"
        spawn = get_context("spawn")
        with ProcessPoolExecutor(1, spawn, torch.set_num_threads, (threads,)) as worker:
            worker.submit(one_pool, name, data, home, seed).result()
        values = recipe(TASKS[name], data, home, seed, o.generations)
        own = [f"generations={o.generations}", *o.set]
        played(written(values, home / "recipe.yaml"), home / "run", seed, own)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every task of a seed: the pool's answers to what is held out, the best member's to the test
    beside the commonest right answer, and the figures of whole runs. Questions that belong together
    are one prompt.
    """
    for name in o.arms:
        task, home = TASKS[name], place / f"{name}-{seed}"
        with RunDirectory.read(home / "run") as run:
            rows = figures(run, task)
            parts = {part: run.ledger.prompts(part, 0) for part in ("held_out", "test")}
            (selected,) = recorded(run, "select")
        groups = {p.id: str(p.facts[task.group]) for own in parts.values() for p in own}
        items = [*of_run(home / "run", name, seed, {0: "before", -1: "after"}, MEMBERS)]
        ways: dict[Decoded, str] = {"start": "before", "end": "after"}
        for which, when in ways.items():
            again = decoded(
                home / "run", which, home / f"{which}, greedy", settings={"evaluate.samples": 1}
            )
            items += of_run(again, name, seed, {0: when}, MEMBERS, GREEDY)
        for who, when in (("start", "best before"), ("chosen", "best after")):
            player = PlayerId.parse(selected[who])
            columns = {player.generation: when}
            items += of_run(home / "run", name, seed, columns, [player.name], part="test")
        yield from (item._replace(prompt=groups[item.prompt]) for item in items)
        columns = {"held_out": ("before", "after"), "test": ("best before", "best after")}
        for part, prompts in parts.items():
            commonest, _ = majority(prompts)
            for prompt, answer in zip(prompts, answers(prompts), strict=True):
                right = float(answer == commonest)
                for column in columns[part]:
                    peer = f"{name}, {COMMONEST}"
                    yield Item(peer, seed, 0, groups[prompt.id], column, right)
        yield from of_rows({name: rows | json.loads((home / TAUGHT).read_text())}, seed)


def figures(run: RunDirectory, task: Task) -> dict[str, float]:
    """The figures of a whole run; those that it does not have are absent."""
    ledger, last = run.ledger, run.config.generations
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
    found = {
        "chosen generation": float(PlayerId.parse(selected["chosen"]).generation),
        "played before": right(run, "train", 0),
        "played after": right(run, "train", last - 1),
        "same before": constant(run, 0),
        "same after": constant(run, last),
        "unreadable": fmean([vote.value is None for vote in votes]) if votes else math.nan,
        "dropped": lost / (kept + lost),
        "spearman": agreement(run, scores),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def majority(prompts: Sequence[Prompt]) -> tuple[str, float]:
    """The answer that is right most often, and its share: the accuracy without reading the
    questions.
    """
    answer, count = Counter(answers(prompts)).most_common(1)[0]
    return answer, count / len(prompts)


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


def begin(place: Path, o: Options) -> None:
    """End the benchmark where there are no data."""
    if not o.data.exists():
        raise SystemExit(f"{o.data} is absent; nothing to run")


def add_options(parser: ArgumentParser) -> None:
    """Add --data and --set."""
    add, data = parser.add_argument, Path("../shared/data/sparta")
    add("--data", type=Path, default=data, help="the tasks' files")
    add("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of every run")


COMMONEST = "commonest right answer"
EXPERIMENT = Experiment(
    name="questions",
    doc=__doc__,
    arms=dict.fromkeys(TASKS, ()),
    seeds=(0, 1, 2),
    generations=3,
    play=play,
    measure=measure,
    columns=(
        *("taught answers", "taught grades", "before", "after", f"before{GREEDY}"),
        *(f"after{GREEDY}", "best before", "best after", "same before", "same after"),
        *("unreadable", "dropped", "spearman"),
    ),
    points=("spearman",),
    begin=begin,
    add=add_options,
    beside={name: f"{name}, {COMMONEST}" for name in TASKS},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
