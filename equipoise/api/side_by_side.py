"""Answers of a comparison's targets judged side by side, in a run of recorded players."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from math import inf
from pathlib import Path

from equipoise import seeds
from equipoise.api.targets import JUDGED
from equipoise.blocks.terminal import show_notes
from equipoise.errors import ConfigError
from equipoise.evaluation.compared_arms import Arm, Sheet, Shown
from equipoise.evaluation.sets.base import Benchmark, Conversation, asked_prompt
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import MEETING
from equipoise.payoffs.table import Meeting, preference
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.contexts import judge_context
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.measure_set import SetMeasurement
from equipoise.runs.named_sets.recorded_answers import PART
from equipoise.runs.named_sets.set_plan import Sets, check_sets
from equipoise.runs.open_run import OpenRun
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, record_id

KEPT = Path("runs", "compare")  # where judgements of a comparison are kept


def answers_to_sets(
    directory: RunDirectory, players: Sequence[PlayerId], sets: Sets, monitor: Monitor
) -> tuple[dict[PlayerId, dict[str, Shown]], dict[str, Prompt]]:
    """(player -> item -> its answers, item -> its prompt); what is recorded is not asked again.

    Raises ConfigError for a set whose own data bring the answer to compare with.
    """
    items = check_sets(directory.config.playing, sets, players)
    answers: dict[PlayerId, dict[str, Shown]] = {player: {} for player in players}
    prompts: dict[str, Prompt] = {}
    with OpenRun(directory, monitor) as run:
        for name, named_set in sets.items():
            plain = isinstance(named_set, Benchmark) and isinstance(
                named_set.game_played, Conversation
            )
            if not plain or not named_set.against_start:
                raise ConfigError(
                    f"{name}: a judge that compares sets targets beside each other on plain "
                    "prompts (a file of them); this set has a way of judging of its own"
                )
            for player in players:
                generation = player.generation
                asked_prompts = [asked_prompt(item) for item in items[name]]
                run.ledger.add_prompts(asked_prompts, PART, generation)
                measurement = SetMeasurement(run, name, named_set, items[name], player)
                given = measurement.answers_of(player)
                for item in items[name]:
                    texts = tuple(each.text for each in given[item.id] if not each.error)
                    answers[player][item.id] = Shown(item.prompt.messages, texts)
                    prompts[item.id] = item.prompt
    return answers, prompts


def judged_side_by_side(
    arms: Sequence[Arm],
    prompts: Mapping[str, Prompt],
    judge: Judge,
    keep: Path | None,
    trust: bool,
    monitor: Monitor,
) -> tuple[list[Arm], Path]:
    """The arms with the meetings of every two of them, and the folder that keeps the judgements."""
    sheets = [sheet for arm in arms for sheet in arm.sheets]
    arm_of = {sheet.key: arm.name for arm in arms for sheet in arm.sheets}
    digest = record_id(judge.name, *(sheet.key for sheet in sheets))[:12]
    folder = (keep or KEPT) / f"{JUDGED}{digest}"
    names = {sheet.key: f"target_{i}" for i, sheet in enumerate(sheets, 1)}
    config = recipe_loader.load(
        {
            "name": folder.name,
            "generations": 0,
            "players": {
                name: {"kind": "recorded", "model": arm_of[key]} for key, name in names.items()
            },
            "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
            "game": {"kind": "answers", "samples": 2},
            "judge": judge.settings(),
            "evaluate": "sets",
        }
    )
    meetings: list[Meeting] = []
    with opened(config, folder, trust) as directory, OpenRun(directory, monitor) as run:
        judge_here = directory.config.judge
        run.ledger.add_prompts(prompts.values(), PART, 0)
        for first, second in combinations(sheets, 2):
            if arm_of[first.key] == arm_of[second.key]:
                continue
            matches = list(side_by_side(first, second, names, directory.config.seed))
            if not matches:
                continue
            run.ledger.add_matches(matches)
            key = record_id("compared", *(match.id for match in matches))[:16]
            judgements = record_judgements(
                run,
                f"0/meet/{names[first.key]}/{names[second.key]}/{judge_here.name}/{key}",
                judge_here,
                judge_context(run, 0),
                matches,
                prompts,
                0,
            )
            for match, judgement in zip(matches, judgements, strict=True):
                chance, other = (judgement.score(seat, "score") for seat in "12")
                value = None if chance is None else 2 * chance - 1
                if judge_here.score_range == (-inf, inf):
                    value = preference(chance, other)
                meetings.append(Meeting(first.key, second.key, value, match.prompt))
    judged = []
    for arm in arms:
        own = []
        for sheet in arm.sheets:
            titles = {**sheet.titles, judge.name: judge.title}
            met = [meeting for meeting in meetings if meeting.first == sheet.key]
            own.append(replace(sheet, meetings={judge.name: met}, titles=titles))
        judged.append(Arm(arm.name, tuple(own)))
    return judged, folder


@contextmanager
def opened(config: RunConfig, folder: Path, trust: bool) -> Iterator[RunDirectory]:
    """The run that keeps the judgements, made where it is not there yet."""
    if is_run(folder):
        with RunDirectory.open(folder, trust, show_notes) as directory:
            yield directory
        return
    with new_run(config, folder, announce=show_notes, option="--keep") as directory:
        yield directory


def side_by_side(
    first: Sheet, second: Sheet, names: Mapping[str, str], run_seed: int
) -> Iterator[Match]:
    """A match for the i-th answers of both to each item."""
    for item, own in first.answers.items():
        other = second.answers.get(item)
        if other is None:
            continue
        for i, texts in enumerate(zip(own.answers, other.answers, strict=False)):
            identity = record_id("compared", first.key, second.key, item, i, *texts)
            view = View(own.prompt)
            yield Match(
                id=identity,
                generation=0,
                split="held_out",
                game=MEETING,
                prompt=item,
                seats={"1": PlayerId(names[first.key]), "2": PlayerId(names[second.key])},
                seed=seeds.child(run_seed, "match", identity),
                turns=(Turn("1", view, Move(texts[0])), Turn("2", view, Move(texts[1]))),
            )
