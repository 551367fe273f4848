"""GPO on a real model: what an attacker that nobody trained against still achieves.

The recipe `smollm2_gpo`: every arm begins with the same taught defender and adversary (`equipoise
warm-start requests`), and every defender learns in as many updates. An arm's adversary learns in
turn with it (`gpo`), rewrites and never learns (`frozen adversary`), or does not rewrite at all
(`fixed prompts`). A further adversary, which none of the arms meets, learns against the start's
defender from another seed. It then attacks the last defender of every arm, and the start's.

    python -m benchmarks.real_attack --model FOLDER-OR-ID --starts FOLDER [--seeds 1 2 …]
        [--arms gpo "frozen adversary" "fixed prompts"] [--tries 16] [--out DIR] --json FILE

    worst of tries  harmful held-out requests of which at least one rewrite of --tries is answered
    unmet           share of all those rewrites that are answered
    raw             share of held-out harmful requests that are answered as they stand
    own             … as the run's own last adversary rewrites them
    over-refusal    share of harmless held-out requests that are refused
    helpfulness     of answers to harmless requests, how near they are to them
    diversity       of the own adversary's rewrites, from 0, all alike, to 1

`start` is the start itself, measured alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import taught_starts
from benchmarks.experiment import Experiment, Options, name_of, of_rows, played
from benchmarks.red_team import ALONE, RESPONSE, measured
from benchmarks.taught_starts import need_start, taught
from benchmarks.verdicts import Item
from equipoise.api.warm_start import WarmStart
from equipoise.environments.red_team.cross_play import (
    CrossPlayPlan,
    plan_cross_play,
    play_cross_play,
)
from equipoise.environments.red_team.cross_play_table import attack_success
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Silent

RECIPE, START, GPO = "smollm2_gpo", "start", "gpo"
ARMS: dict[str, list[str]] = {
    GPO: [],
    "frozen adversary": ["turns={kind: one, player: defender}"],
    "fixed prompts": [
        "schedule.raw=1",
        "shaping=[]",
        "turns=everyone",
        "players.adversary.learns=false",
        ALONE,
    ],
}
UNMET = 1000  # added to the seed of the adversary that nobody meets
COLUMNS = ("worst of tries", "unmet", "raw", "own", "over-refusal", "helpfulness", "diversity")


def begin(place: Path, o: Options) -> None:
    """Teach the start, or read the one that was taught; ends where a gate is not met."""
    need_start(WarmStart.build("requests"), o)


def start_of(o: Options) -> list[str]:
    """The model of both roles and the adapters that all arms begin with."""
    start = taught(WarmStart.build("requests"), o)
    roles = {name: path.resolve() for name, path in start.adapters.items()}
    models = [f"players.{name}.model={o.model}" for name in roles]
    return [*models, *(f"players.{name}.adapter={path}" for name, path in roles.items())]


def length(arm: str, generations: int) -> list[str]:
    """An arm's generations, measured at both ends: in `gpo` half of them are the adversary's."""
    own = generations if arm == GPO else generations // 2
    return [f"generations={own}", f"evaluate.every={own}", "evaluate.crossplay=0"]


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, and the adversary that none of them meets."""
    shared = start_of(o)
    for arm in o.arms:
        settings = [*length(arm, o.generations), *shared, *ARMS[arm]]
        played(RECIPE, place / name_of(arm, seed), seed, settings)
    settings = [*length("unmet", o.generations), *shared, *RESPONSE[:2]]
    played(RECIPE, place / name_of("unmet", seed), seed + UNMET, settings)


def attack(folders: Sequence[Path], unmet: Path, tries: int, prompts: int) -> dict[str, Any]:
    """Defender, by its name in the table -> prompt -> the success of each try of the unmet
    adversary; the first folder's start is the start of all.
    """
    with ExitStack() as stack:
        runs = [stack.enter_context(RunDirectory.read(path)) for path in (*folders, unmet)]
        for run in runs:
            run.agree(True, lambda notes: None)
        plan = only(plan_cross_play(runs, "last", prompts), unmet.name, tries)
        cells = play_cross_play(plan, Silent())
    found: dict[str, Any] = {}
    for (_, defender), matches in cells.items():
        of_prompt: dict[str, list[float]] = found.setdefault(defender, {})
        for judged in matches:
            prompt = judged[0].prompt.partition("#")[0]
            of_prompt.setdefault(prompt, []).append(float(attack_success([judged]).mean))
    return found


def only(plan: CrossPlayPlan, unmet: str, tries: int) -> CrossPlayPlan:
    """The plan with one adversary, the newest of the run `unmet`, who tries each prompt so often,
    and every defender but that run's.
    """
    own = [entrant for entrant in plan.adversaries if entrant.name.startswith(f"{unmet}/")]
    newest = max(own, key=lambda entrant: entrant.player.generation)
    defenders = [each for each in plan.defenders if not each.name.startswith(f"{unmet}/")]
    prompts = [
        msgspec.structs.replace(prompt, id=f"{prompt.id}#{k}")
        for prompt in plan.prompts
        for k in range(tries)
    ]
    return replace(plan, adversaries=(newest,), defenders=tuple(defenders), prompts=tuple(prompts))


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """The start and every arm of a seed, under the same attacks."""
    folders = {arm: place / name_of(arm, seed) for arm in o.arms}
    unmet = place / name_of("unmet", seed)
    table = attack([*folders.values()], unmet, o.tries, o.attacked)
    first = folders[o.arms[0]]
    for arm in (START, *o.arms):
        folder = folders.get(arm, first)
        facts = measured(folder, 0 if arm == START else -1)
        age = facts["ages"].get("defender", 0)
        for prompt, tries in table[f"{folder.name}/defender@{age}"].items():
            yield Item(arm, seed, o.generations, prompt, "worst of tries", max(tries))
            yield Item(arm, seed, o.generations, prompt, "unmet", sum(tries) / len(tries))
        row = {
            "raw": facts["attack_success"]["raw"]["mean"],
            "over-refusal": facts["over_refusal"]["mean"],
            "helpfulness": facts["helpfulness"]["mean"],
        }
        if "adversary" in facts["attack_success"]:
            row["own"] = facts["attack_success"]["adversary"]["mean"]
            row["diversity"] = facts["diversity"]["bleu_diversity"]
        yield from of_rows({arm: row}, seed, o.generations)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the model, where its start is kept, and how it is attacked."""
    taught_starts.add_options(parser)
    parser.add_argument("--tries", type=int, default=16, help="rewrites of each request")
    parser.add_argument("--attacked", type=int, default=24, help="harmful held-out requests")


EXPERIMENT = Experiment(
    name="real_attack",
    doc=__doc__,
    arms=ARMS,
    seeds=(1, 2, 3, 4),
    generations=24,
    play=play,
    begin=begin,
    measure=measure,
    columns=COLUMNS,
    add=add_options,
    decides=("model", "tries", "attacked"),
    beside={GPO: "frozen adversary", "frozen adversary": START, "fixed prompts": START},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
