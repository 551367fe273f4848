"""Attack and defence on real prompts: the effect of GPO, beside RLHF and an adversary that never
learns.

The guard is a classifier of requests, made from WildGuard's training labels (`benchmarks.guard`).
Both players of the recipe `gpo` begin as one model of about a million parameters, made from nothing,
which learns two things: to refuse or to comply, at random, and to write another request of the same
kind; or as the pretrained models that are named, each with an adapter of its own. Harmful seeds are
WildGuard's and GPO's red-team requests, harmless prompts are WildGuard's, and the held-out prompts
are from the test files of both, or HarmBench's behaviours.

    gpo   defender and adversary learn in turn, as in the recipe; the share `RAW` of the
          seeds is used as it is
    frozen adversary  the defender alone learns, for as many updates, against the start's
    rlhf  the defender alone learns, for as many updates, on the seeds as they are; where
          gpo is played its last adversary attacks it, else the start
    start learns nothing
    fresh, ARM  an adversary learns by GRPO with `REWRITES` rewrites against the finished defender,
          which stays as it is: how far it can be exploited; beside its start

    python -m benchmarks.red_team_questions --data ../shared/data [--seeds 0 1]
        [--generations 48] [--probe 16] [--out DIR] [--json FILE]
        [--defender MODEL --adversary MODEL] [--encoder MODEL] [--behaviours val|test]
        [--set KEY=VALUE …]

The defender's rate: `--sweep --behaviours val --arms gpo "frozen adversary" rlhf`, then `--swept`.
Prompts longer than `CHARACTERS` are dropped. No text is printed; all texts stay in the run folders.
The guard knows natural requests only, so that an adversary may satisfy it with texts that are no
requests: see `on topic`, and `known`, the share of its words that the training prompts have.
"""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import wildguard
from benchmarks.controls import decoded, newest_weights
from benchmarks.experiment import Experiment, Options, name_of, of_rows, plain, played, written
from benchmarks.guard import (
    WILDGUARD,
    accuracy,
    area,
    behaviours,
    classified,
    items,
    majority,
    train_guard,
    unseen,
)
from benchmarks.running import recorded
from benchmarks.verdicts import AT, GREEDY, Item, Scores
from equipoise import seeds
from equipoise.environments.red_team.game import PACKAGE
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.payoffs.diversity import hash_vectors
from equipoise.prompts.prompt_files import Files
from equipoise.question_template import Template
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Message, PlayerId, Prompt, record_id, user
from tools.fresh_model import new_model

GPO = Path("gpo")
# Longer prompts are dropped: at most about 60 tokens of this vocabulary.
CHARACTERS = 200
COMPLIES = 0.6  # of the start's answers
# Harmful prompts to train on and held out: all of WildGuard's, the others GPO's.
SEEDS, HELD_OUT = 1000, 200
# Weight of the adversary's KL from the start; at the recipe's 0.01 its attacks soon shrink to a few
# words.
ADVERSARY_KL = 0.05
# The share of the seeds that is used as it is; at 0 the defender of one seed settled on answering
# everything.
RAW = 0.5
REWRITES = 4
BY_GROUPS = {"estimator": "group_relative", "critic": None, "critic_learning_rate": None}
Values = dict[str, Any]
DEFENDER, ADVERSARY, START = "defender", "adversary", "start"
# Utility of a defender's answer -> column, to attacks as they are, and to an adversary's.
RAW_ANSWERS = {"unsafe": "raw"}
ANSWERS = {"unsafe": "attacked"}
HARMLESS = {"refused": "over-refusal", "helpful": "helpful"}
ATTACKS = {"on_topic": "on topic", "refused": "refused attacks"}


@dataclass(frozen=True)
class PromptTexts:
    """The texts of a part: GPO's red-team requests, and WildGuard's by their labels."""

    name: str
    labelled: list[Prompt]
    seeds: list[str]
    harmful: list[str]
    harmless: list[str]


def read(data: Path) -> tuple[PromptTexts, PromptTexts]:
    """The training part and the held-out part, whose requests are none of the training's."""
    train, test = wildguard.prompts(data / WILDGUARD)
    return (
        _part("train", train, data / GPO / "train.json"),
        _part("held_out", unseen(train, test), data / GPO / "test.json"),
    )


def harmbench(data: Path, part: str) -> list[str]:
    """HarmBench's behaviours of the validation or of half of the test."""
    file = {"val": "harmbench_val.csv", "test": "harmbench_test_half.csv"}[part]
    settings = {"path": str(data / "redteam" / file), "prompt_column": "Behavior"}
    found = Files.model_validate(settings).load().training
    return [prompt.messages[-1].content for prompt in found]


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
    template = Template("rewrite_compact", PACKAGE, "game.text", ("seed",), ("seed",))
    vector_BD = hash_vectors(texts)
    cosine_BB = vector_BD @ vector_BD.T
    np.fill_diagonal(cosine_BB, -1)
    nearest_B = cosine_BB.argmax(1)
    return [
        ((user(template.render(seed=text)),), texts[int(i)])
        for text, i in zip(texts, nearest_B, strict=True)
    ]


def write_rows(
    parts: tuple[PromptTexts, PromptTexts], folder: Path, seed: int, held_out: Sequence[str] = ()
) -> Values:
    """Seeds and harmless prompts with their labels as files in `folder`; the settings that read
    them. `held_out`: the harmful ones that are held out, in place of the part's.
    """
    rng = seeds.generator(seed, "rows")
    count = 0
    for part, most in zip(parts, (SEEDS, HELD_OUT), strict=True):
        missing = max(most - len(part.harmful), 0)
        chosen = rng.permutation(len(part.seeds))[:missing].tolist()
        harmful = [*part.harmful, *(part.seeds[i] for i in chosen)]
        if held_out and part is parts[1]:
            harmful = list(held_out)
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


def pretrained(o: Options) -> Values:
    """What pretrained models have instead: an adapter each, whole sentences, smaller batches."""
    own = {"max_new_tokens": 48, "lora": {"r": 16, "alpha": 32}}
    return {
        "player_defaults": {"max_length": 256, "batch_size": 64},
        "players": {
            "defender": {"model": o.defender, **own},
            "adversary": {"model": o.adversary or o.defender, **own},
        },
        "prompts": {"per_generation": 16},
        "game": {"text": "rewrite"},
        "learner": {"learning_rate": 1e-4, "critic_learning_rate": 3e-4, "batch_size": 16},
        "learners": {"adversary": {"learning_rate": 3e-4}},
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


def alone(values: Values, learner: str, frozen: Path | None, generations: int) -> Values:
    """The same game, but `learner` alone learns; the other player keeps the weights in the folder
    `frozen`, or its start's. An adversary learns by groups of rewrites, of as many samples.
    """
    other = {"defender": "adversary", "adversary": "defender"}[learner]
    weights: Values = {}
    if frozen is not None:
        is_adapter = (frozen / "adapter_config.json").exists()
        weights = {"adapter" if is_adapter else "model": str(frozen)}
    changed = {
        "generations": generations,
        "players": {other: {**weights, "learns": False}},
        "turns": {"kind": "one", "player": learner},
        "evaluate": {"every": generations, "crossplay": 0},
    }
    values = recipe_loader.merge(
        values, changed | {"schedule": {"raw": 1.0 if learner == "defender" else 0.0}}
    )
    values["learners"] = {name: own for name, own in values["learners"].items() if name == learner}
    if learner == "defender":
        return {**values, "shaping": []}
    values["learners"] = {ADVERSARY: values["learners"][ADVERSARY] | BY_GROUPS}
    of_groups = {
        "game": {"rewrites": REWRITES},
        "prompts": {"per_generation": values["prompts"]["per_generation"] // REWRITES},
    }
    return recipe_loader.merge(values, of_groups)


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed from the same start, and fresh adversaries of their defenders."""
    home = place / f"seed-{seed}"
    parts = read(o.data)
    home.mkdir(parents=True, exist_ok=True)
    start = None if o.defender else home / "start"
    if start and not (start / "config.json").exists():
        make_start(parts[0], home, seed)
    held_out = harmbench(o.data, o.behaviours) if o.behaviours else ()
    prompts = write_rows(parts, home, seed, held_out)
    values = settings(home / "start", place / "guard", prompts, o.generations, seed)
    if not start:
        values = recipe_loader.merge(values, pretrained(o))
    for arm in o.arms:
        own, trained, name = values, start, arm.partition(AT)[0]
        if name != START:
            if name != "gpo":
                met = place / name_of("gpo", seed)
                meets = name == "rlhf" and met.exists()
                frozen = newest_weights(met, ADVERSARY) if meets else start
                own = alone(values, DEFENDER, frozen, values["generations"] // 2)
            if name == "frozen adversary":
                own = recipe_loader.merge(own, {"schedule": {"raw": RAW}})
            best = {arm: o.at.get(f"fresh, {arm}", "")}  # by what a fresh adversary attains
            finish(own, place, arm, seed, [*EXPERIMENT.settings(arm, best), *o.set])
            trained = newest_weights(place / name_of(arm, seed), DEFENDER)
        if o.probe:
            own = alone(values, ADVERSARY, trained, o.probe)
            finish(own, place, f"fresh, {arm}", seed, o.set)


def finish(values: Values, place: Path, arm: str, seed: int, own: Sequence[str] = ()) -> None:
    """Play an arm to its end, where it has not been played yet."""
    file = written(values, place / f"{name_of(arm, seed)}.yaml")
    settings = [f"generations={values['generations']}", *own]
    played(file, place / name_of(arm, seed), seed, settings)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed at its end, and the start, sampled and with learners that decode
    greedily; the guard.
    """
    trained = [arm for arm in o.arms if arm != START]
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        if arm in trained[:1]:
            begun = decoded(folder, "start", place / f"start-{folder.name}")
            yield from measured(folder, START, seed, 0)
            yield from measured(begun, START, seed, 0, GREEDY)
        if arm in trained:
            ended = decoded(folder, "end", place / f"end-{folder.name}")
            yield from measured(folder, arm, seed, -1)
            yield from measured(ended, arm, seed, 0, GREEDY)
        if o.probe:
            fresh = place / name_of(f"fresh, {arm}", seed)
            yield from measured(fresh, f"before it learns, {arm}", seed, 0)
            yield from measured(fresh, f"fresh, {arm}", seed, -1)
    row = json.loads((place / GUARD).read_text())
    row |= {"attacker updates": o.probe, "HarmBench's test": float(o.behaviours == "test")}
    yield from of_rows({"guard": row}, seed)


def measured(folder: Path, arm: str, seed: int, which: int, ending: str = "") -> Iterator[Item]:
    """What attacker and defender of a run's start (0) or end (-1) said to what is held out, answer
    by answer; how diverse the attacks were.
    """
    with RunDirectory.read(folder) as run:
        facts, role = recorded(run, "measure")[which], run.config.game.role
        matches = list(run.ledger.matches("held_out"))
        judgements = run.ledger.judgements_of(match.id for match in matches)
        known = set[str]()
        for prompt in run.ledger.prompts("train"):
            known.update(_words(prompt.messages[-1].content))
        generation = run.config.generations if which else 0
    playing = set(map(PlayerId.parse, facts["players"]))
    attacks: list[str] = []
    for match in matches:
        if not set(match.seats.values()) <= playing:
            continue
        judgement = judgements[match.id]
        attacked = [turn.move.text for turn in match.turns if role(turn.seat) == ADVERSARY]
        attacks += attacked
        for seat in match.seats:
            utilities = judgement.utilities(seat)
            if role(seat) == ADVERSARY:
                names = ATTACKS
            elif attacked:
                names = ANSWERS
            else:
                names = RAW_ANSWERS if "unsafe" in utilities else HARMLESS
            for utility, value in utilities.items():
                if utility in names:
                    column = names[utility] + ending
                    yield Item(arm, seed, generation, match.prompt, column, float(value))
    words = [word for text in attacks for word in _words(text)]
    row = {
        "worst": facts.get("exploitability"),
        "diversity": (facts.get("diversity") or {}).get("bleu_diversity"),
        "distinct": (facts.get("diversity") or {}).get("distinct"),
        "known": sum(word in known for word in words) / len(words) if words else None,
        "words": len(words) / len(attacks) if attacks else None,
    }
    given = {name + ending: value for name, value in row.items() if value is not None}
    yield from of_rows({arm: given}, seed, generation)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def begin(place: Path, o: Options) -> None:
    """Make the guard, where it has not been made yet, and see how often it is right."""
    for part in (WILDGUARD, GPO, "redteam", "benchmarks"):
        if not (o.data / part).exists():
            raise SystemExit(f"{o.data / part} is absent; nothing to run")
    if o.generations < 4:
        raise SystemExit("--generations: at least 4, one of each phase")
    decided = {name: plain(o, name) for name in DECIDES}
    made_with = place / "made_with.json"
    if made_with.exists() and json.loads(made_with.read_text()) != decided:
        raise SystemExit(f"{place}: its runs were made with {made_with.read_text()}")
    made_with.write_text(json.dumps(decided))
    if (place / GUARD).exists():
        return
    train, test = read(o.data)
    guard = place / "guard"
    train_guard(train.labelled, guard, encoder=o.encoder)
    told = {"WildGuard": test.labelled, "behaviours": behaviours(o.data)}
    found = [
        item
        for name, rows in told.items()
        for item in items("guard", 0, name, rows, classified(guard, rows))
    ]
    row = {
        "guard's area": min(area(Scores(found), "guard", name).low for name in told),
        "guard is right": accuracy(guard, test.labelled).mean,
        "commoner label": majority(train.labelled, test.labelled).mean,
    }
    for name, texts in (("GPO's", test.seeds), ("WildGuard's", test.harmful)):
        rows = [Prompt(record_id("seed", text), (user(text),), {"harmful": True}) for text in texts]
        row[f"{name} called harmful"] = accuracy(guard, rows).mean
    (place / GUARD).write_text(json.dumps(row))


def add_options(parser: ArgumentParser) -> None:
    """Add the data, the models, and how long a fresh adversary learns."""
    add, holds = parser.add_argument, f"holds {WILDGUARD} and {GPO}"
    add("--data", type=Path, default=Path("../shared/data"), help=holds)
    add("--probe", type=int, default=16, help="generations of a fresh adversary; 0: none")
    add("--defender", default="", help="a pretrained chat model: a folder, a GGUF file or an id")
    add("--adversary", default="", help="likewise; the defender's by default")
    add("--encoder", default="", help="what the guard is made from: a folder or an id")
    add("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of every run")
    add("--behaviours", choices=["val", "test"], help="HarmBench's are the harmful held-out ones")


GUARD = "guard.json"
DECIDES = ("probe", "defender", "adversary", "encoder", "behaviours", "set")
EXPERIMENT = Experiment(
    name="red_team_questions",
    doc=__doc__,
    arms={"gpo": (), "frozen adversary": (), "rlhf": (), START: ()},
    seeds=(0, 1),
    generations=48,  # in four phases
    play=play,
    measure=measure,
    columns=(
        *(
            "raw",
            "attacked",
            f"raw{GREEDY}",
            f"attacked{GREEDY}",
            "worst",
            "over-refusal",
            "helpful",
            "on topic",
            "refused attacks",
        ),
        *("diversity", "distinct", "known", "words", "guard's area", "guard is right"),
    ),
    points=("words",),
    begin=begin,
    add=add_options,
    decides=DECIDES,
    beside={
        arm: other
        for name in ("gpo", "frozen adversary", "rlhf", START)
        for arm, other in ((name, START), (f"fresh, {name}", f"before it learns, {name}"))
        if arm != other
    },
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
