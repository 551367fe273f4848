"""SPARTA on a real model: four members who each know one field teach each other without labels.

The recipe `smollm2_sparta`: adapters on one base, taught to answer and to grade one field each
(`equipoise warm-start fields`). In each generation they duel, the two who do not play grade, and
everybody learns from all pairs. Alone, each member answers and grades by itself: as many answers in
all, and each learns from its own pairs, one a step. Grades of one's own answers lie closer together,
so they make pairs from one grade apart, the pool's from three: with three, a member had no pair in
the second generation of two seeds of four.

    python -m benchmarks.field_pool --model FOLDER-OR-ID --starts FOLDER [--seeds 1 2 …]
        [--arms sparta "self-rewarding"] [--out DIR] --json FILE

    right      held-out questions that a member answers right, greedily, the mean over four members
    own        the same, of its own field
    foreign    the same, of the three others
    judged     training pairs of which exactly one answer is right: the share in which the grades
               place it above the wrong one, a tie a half
    telling    the share of training matches of which exactly one answer is right
    pairs      pairs that each member learned from
    spearman   rank correlation of the members' reputations with their shares of right answers

`start` is the start, measured alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from benchmarks.controls import decoded
from benchmarks.experiment import Experiment, Options, name_of
from benchmarks.running import recorded
from benchmarks.taught_starts import add_options, need_start, taught
from benchmarks.verdicts import Item
from equipoise.answer import answer_of
from equipoise.api.warm_start import WarmStart
from equipoise.environments.fields.field_questions import FIELDS
from equipoise.judges.rules import plain_text
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Prompt

START = "start"
RATED = "sparta"  # the arm whose members have reputations
ARMS: dict[str, list[str]] = {
    RATED: [],
    "self-rewarding": [
        "schedule=self_play",
        "training_matches=own",
        "judge.who=self",
        "training_ratings=bradley_terry",
        "prompts.per_generation=52",
        "learner.batch_size=1",
        "pairs.min_margin=1.0",
    ],
}
COLUMNS = ("right", "own", "foreign", "judged", "telling", "pairs", "spearman")
ONCE = {"evaluate.samples": 1}  # a match of two answers: greedy ones are all alike


def begin(place: Path, o: Options) -> None:
    """Teach the start, or read the one that was taught; ends where a gate is not met."""
    need_start(WarmStart.build("fields"), o)


def common(arm: str, place: Path, o: Options) -> list[str]:
    """The model and the start that all arms share."""
    start = taught(WarmStart.build("fields"), o)
    adapters = [f"players.{name}.adapter={path.resolve()}" for name, path in start.adapters.items()]
    return [f"player_defaults.model={o.model}", *adapters]


def is_right(prompt: Prompt, text: str) -> bool:
    """True for the prompt's answer."""
    return plain_text(text) == plain_text(str(prompt.facts["answer"]))


def answered(folder: Path, arm: str, seed: int) -> Iterator[Item]:
    """Every member's greedy answers of a run that trains nothing."""
    with RunDirectory.read(folder) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("held_out")}
        matches = list(run.ledger.matches("held_out"))
    for match in matches:
        (player,) = {player.name for player in match.seats.values()}
        prompt = prompts[match.prompt]
        part = "own" if prompt.facts["field"] == player else "foreign"
        for turn in match.turns:
            value = float(is_right(prompt, answer_of(turn.move).text))
            for column in ("right", part):
                yield Item(arm, seed, 0, f"{prompt.id} {player}", column, value)


def judged(
    matches: list[Match], judgements: Mapping[str, Judgement], prompts: Mapping[str, Prompt]
) -> dict[str, float]:
    """How often one of a match's two answers alone is right, and is graded above the other."""
    above: list[float] = []
    for match in matches:
        right = {
            t.seat: is_right(prompts[match.prompt], answer_of(t.move).text) for t in match.turns
        }
        if sum(right.values()) != 1 or len(right) != 2:
            continue
        good, bad = sorted(right, key=lambda seat: not right[seat])
        grades = [judgements[match.id].score(seat, "score") for seat in (good, bad)]
        if None not in grades:
            gap = float(grades[0]) - float(grades[1])  # type: ignore[arg-type]
            above.append(0.5 if gap == 0 else float(gap > 0))
    figures = {"telling": len(above) / len(matches)}
    return figures | ({"judged": fmean(above)} if above else {})


def of_training(run: RunDirectory) -> dict[str, float]:
    """The figures of a run's training matches."""
    matches = list(run.ledger.matches("train"))
    judgements = run.ledger.judgements_of(match.id for match in matches)
    prompts: dict[str, Prompt] = {}
    for t in range(run.config.generations):
        prompts |= {prompt.id: prompt for prompt in run.ledger.prompts("train", t)}
    learned = [facts["pairs"] for facts in recorded(run, "pair")]
    found = judged(matches, judgements, prompts)
    return found | ({"pairs": sum(learned) / len(FIELDS)} if learned else {})


def reputation_against_skill(run: RunDirectory) -> dict[str, float]:
    """The rank correlation of the first generation's reputations with what its members know."""
    rated: list[Any] = recorded(run, "rate")
    measured: list[Any] = recorded(run, "measure")
    if not rated or not measured:
        return {}
    values = {rating["name"]: rating["value"] for rating in rated[0]["ratings"]}
    scores = {name.partition("@")[0]: s["mean"] for name, s in measured[0]["scores"].items()}
    result: Any = spearmanr([values[n] for n in FIELDS], [scores[n] for n in FIELDS])
    known = not math.isnan(result.statistic)  # where members differ
    return {"spearman": float(result.statistic)} if known else {}


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """The start and the end of every arm of a seed, and how right its judges were."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        if arm == o.arms[0]:
            start = decoded(folder, "start", place / f"start-{seed}", settings=ONCE)
            yield from answered(start, START, seed)
        end = decoded(folder, "end", place / f"end-{folder.name}", settings=ONCE)
        yield from answered(end, arm, seed)
        with RunDirectory.read(folder) as run:
            figures = of_training(run)
            figures |= reputation_against_skill(run) if arm == RATED else {}
        for column, value in figures.items():
            yield Item(arm, seed, 0, "", column, value)


EXPERIMENT = Experiment(
    name="field_pool",
    doc=__doc__,
    arms=ARMS,
    seeds=(1, 2, 3, 4, 5, 6),
    generations=2,
    recipe="smollm2_sparta",
    begin=begin,
    common=common,
    measure=measure,
    columns=COLUMNS,
    points=("pairs", "spearman"),
    add=add_options,
    decides=("model",),
    beside={"sparta": START, "self-rewarding": START},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
