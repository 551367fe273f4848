"""Compare runs, players, models, endpoints, imported matches and logs of other programs: one record
of differences, and one page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise.api.comparison_result import Comparison
from equipoise.api.functions import run_to_measure
from equipoise.api.handle import Run
from equipoise.api.measure_sets import folder_of_model, model_settings, players_of, sets_announced
from equipoise.api.model_targets import Model, is_address, player_of, settings_for
from equipoise.api.play_out import console
from equipoise.api.side_by_side import answers_to_sets, judged_side_by_side
from equipoise.api.targets import (
    KINDS_OF_TARGETS,
    Given,
    Target,
    check_is_there,
    is_log,
    kinds_of,
    named_targets,
)
from equipoise.blocks.terminal import Display, show_notes
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.compared_arms import Arm, ComparisonNumbers, Sheet, Shown
from equipoise.evaluation.compared_arms import compare as compare_arms
from equipoise.evaluation.harnesses.log_files import logged_scores
from equipoise.judges.base import Judge
from equipoise.ledger.item_scores import BenchmarkResult
from equipoise.people.calibrated_judges import CalibratedPair, calibrated_pairs
from equipoise.report.score_sheets import ScoredRun, set_scores, set_title, sheet_of
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run, named_run
from equipoise.types import PlayerId, Prompt


def compare(
    *targets: Given,
    on: Any = None,
    judge: Any = None,
    settings: recipe_loader.Overrides = (),
    player_settings: recipe_loader.Overrides = (),
    keep: str | Path | None = None,
    trust: bool = False,
    progress: bool = True,
) -> Comparison:
    """Compare targets by what they scored, item by item.

    Args: targets: runs (`runs/a`, a `Run`: the newest of who learns), players
    (`runs/a@policy@3`), folders of runs, folders and hub ids of models, endpoints
    (`http://…/v1#MODEL`), a player's settings (`{"base_url": …, "model": …}`), imported matches,
    logs of Inspect, lm-eval and AlpacaEval, and a `Comparison`, for all that it compared;
    `NAME=TARGET` names one, and a pattern (`mnpo=runs/mnpo*`) or a list under a name in a mapping
    are runs of one recipe; on: sets, as `evaluate` takes them, which are played by whoever has not
    answered them yet, None: what is recorded; judge: of every set that names none;
    player_settings: of models, each where its kind has it; keep: a folder for the answers of
    models, and for judgements side by side.

    Raises ConfigError, DataError and RunError, Stopped on Ctrl-C: the same call goes on.
    """
    named = list(named_targets(targets))
    if not named:
        raise ConfigError(f"name what to compare: {KINDS_OF_TARGETS}")
    names = [name for name, _ in named if name]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"'{name}' names two targets; runs of one recipe are given by a pattern, as "
                f"{name}='runs/{name}*', or from Python as a list"
            )
    every = [target for _, of_name in named for target in of_name]
    wanted = Wanted(on, judge, settings, player_settings, kinds_of(every), keep, trust, progress)
    arms: list[Arm] = []
    for name, given in named:
        arms += arms_of(name, given, wanted)
    if len(arms) < 2:
        raise ConfigError(f"only '{arms[0].name}' is named; a comparison needs two targets or more")
    check_named_once(arms)
    arms = with_own_names(arms)
    if wanted.comparing_judge is not None:
        with Display(console=console(), silent=not progress) as display:
            arms, folder = judged_side_by_side(
                arms, wanted.prompts, wanted.comparing_judge, wanted.keep, trust, display
            )
        wanted.kept.append(folder.resolve())
    numbers = compare_arms(with_readable_measures(arms))
    if not numbers.differences:
        raise nothing_in_common(numbers)
    kept = tuple(dict.fromkeys(wanted.kept))
    return Comparison(numbers, tuple(arms), kept, tuple(pairs_with_votes(wanted.players)))


def pairs_with_votes(players: Mapping[Path, Sequence[PlayerId]]) -> Iterator[CalibratedPair]:
    """Every two compared players of one run on whose answers people voted."""
    for folder, of_run in players.items():
        if len(of_run) > 1:
            with RunDirectory.read(folder) as run:
                yield from calibrated_pairs(run, [str(player) for player in of_run])


class Wanted:
    """A request of `compare`, and the folders that keep what was played for it."""

    def __init__(
        self,
        on: Any,
        judge: Any,
        settings: recipe_loader.Overrides,
        player_settings: recipe_loader.Overrides,
        kinds: set[str],
        keep: str | Path | None,
        trust: bool,
        progress: bool,
    ) -> None:
        self.on = on
        self.judge = judge
        self.settings = settings
        self.player_settings = player_settings
        self.kinds = kinds  # of players among the targets that are models
        self.keep = None if keep is None else Path(keep)
        self.trust = trust
        self.progress = progress
        self.kept: list[Path] = []
        self.players: dict[Path, list[PlayerId]] = {}
        self.prompts: dict[str, Prompt] = {}
        self.comparing_judge: Judge | None = None
        if not self.plays and judge is not None:
            raise ConfigError("--judge judges answers to sets; name them: --on SET")
        if not self.plays and settings:
            raise ConfigError("-s sets something of sets; name them: --on SET")
        if judge is not None and self.plays:
            built = recipe_loader.component_announced(Judge, judge, None, "--judge", show_notes)
            built = built.as_it_is()
            self.comparing_judge = built if built.compares else None

    @property
    def plays(self) -> bool:
        """True if sets are named, which are played where they are missing."""
        return self.on is not None


# -- arms


def arms_of(name: str, targets: Sequence[Target], wanted: Wanted) -> list[Arm]:
    """The arms that one name stands for: replicates under it, or each target's own."""
    if len(targets) == 1:
        if isinstance(targets[0], Comparison):
            own = targets[0].arms
            return [replace(arm, name=f"{name}/{arm.name}") if name else arm for arm in own]
        sheets = list(sheets_of(targets[0], wanted))
        if len(sheets) == 1 and name:
            return [Arm(name, (sheets[0][1],))]
        prefix = f"{name}/" if name else ""
        return [Arm(f"{prefix}{label}", (sheet,)) for label, sheet in sheets]
    if not targets:
        raise ConfigError(f"{name}: names no target")
    replicates: list[Sheet] = []
    for target in targets:
        sheets = list(sheets_of(target, wanted))
        if len(sheets) != 1:
            listed = ", ".join(label for label, _ in sheets)
            raise ConfigError(
                f"{target}: a replicate is one player, and this has several ({listed}); name one: "
                f"{target}@NAME"
            )
        replicates.append(sheets[0][1])
    title = name or str(targets[0])
    return [Arm(title, tuple(replicates))]


def check_named_once(arms: Sequence[Arm]) -> None:
    """Raises ConfigError for a player or model that is named twice, as two targets or two runs."""
    seen: dict[str, str] = {}
    for arm in arms:
        for sheet in arm.sheets:
            if sheet.key in seen:
                source = sheet.source or arm.name
                raise ConfigError(
                    f"{source}: is named twice, in '{seen[sheet.key]}' and '{arm.name}'; a target "
                    "does not differ from itself, and counts as one run"
                )
            seen[sheet.key] = arm.name


def with_own_names(arms: Sequence[Arm]) -> list[Arm]:
    """The arms under names that are each given once: those of equal names by where they lie."""
    names = [arm.name for arm in arms]
    taken: dict[str, int] = {}
    renamed = []
    for arm in arms:
        title = arm.name
        if names.count(title) > 1 and len(arm.sheets) == 1:
            title = arm.sheets[0].source or title
        count = taken.get(title, 0) + 1
        taken[title] = count
        renamed.append(Arm(title if count == 1 else f"{title} ({count})", arm.sheets))
    return renamed


def with_readable_measures(arms: Sequence[Arm]) -> list[Arm]:
    """The arms with measures and judges as the user named them; two of one name keep their own."""
    sheets = [sheet for arm in arms for sheet in arm.sheets]
    titles: dict[str, str] = {}
    for sheet in sheets:
        for name in (*sheet.measures, *sheet.meetings):
            titles[name] = sheet.titles.get(name, name)
    given = list(titles.values())
    readable = {name: title for name, title in titles.items() if given.count(title) == 1}
    renamed = []
    for arm in arms:
        own = []
        for sheet in arm.sheets:
            measures = {readable.get(name, name): each for name, each in sheet.measures.items()}
            meetings = {readable.get(name, name): each for name, each in sheet.meetings.items()}
            own.append(replace(sheet, measures=measures, meetings=meetings))
        renamed.append(Arm(arm.name, tuple(own)))
    return renamed


def nothing_in_common(numbers: ComparisonNumbers) -> ConfigError:
    """The error where no two targets have a measure in common."""
    lines = []
    for arm in numbers.arms:
        own = sorted({name for sheet in arm.sheets for name in sheet.measures})
        lines.append(f"  {arm.name}: {', '.join(own) or 'nothing recorded'}")
    listed = "\n".join(lines)
    return ConfigError(
        "no two of the targets were measured by the same measure; name a set that all of them can "
        f"be asked, as --on held_out.jsonl --judge JUDGE. Recorded are:\n{listed}"
    )


# -- the scores of each target


def sheets_of(target: Target, wanted: Wanted) -> Iterator[tuple[str, Sheet]]:
    """(label, sheet) of a run's players, of a model, of the models of a log, or of a comparison."""
    if isinstance(target, Comparison):
        for arm in target.arms:
            for sheet in arm.sheets:
                yield arm.name, sheet
        return
    if isinstance(target, Run):
        yield from run_sheets(target, "", target.path.name, wanted)
        return
    if isinstance(target, Mapping):
        yield from model_sheets(target, wanted)
        return
    text = str(target)
    folder, player = named_run(text)
    if is_run(folder):
        run = Run(folder, trust=trusted(folder, wanted))
        yield from run_sheets(run, player, Path(folder).resolve().name, wanted)
    elif is_log(text):
        path, _, model = text.partition("@")
        if Path(text).exists():
            path, model = text, ""
        yield from log_sheets(Path(path), model, wanted)
    else:
        yield from model_sheets(text, wanted)


def trusted(folder: str, wanted: Wanted) -> bool:
    """True if the run may execute what it names; asked only where something is played."""
    from equipoise.api.handle import ask_for_trust

    return ask_for_trust(folder, wanted.trust) if wanted.plays else wanted.trust


def run_sheets(
    run: Run, player: str, title: str, wanted: Wanted, source: str = ""
) -> Iterator[tuple[str, Sheet]]:
    """The sheets of a run's players; without a name the newest of each that learns, or everybody
    where nobody does. `source`: of a model's own run, what was asked there.
    """
    with RunDirectory.read(run.path, run.trust) as opened:
        players = compared_players(opened, player)
    wanted.players.setdefault(run.path, []).extend(players)
    several = len(players) > 1
    results: list[BenchmarkResult] | None = None
    answers: dict[PlayerId, dict[str, Shown]] = {}
    if wanted.comparing_judge is not None:
        answers = play_answers(run, players, wanted)
        results = []
    elif wanted.plays:
        results = play_sets(run, players, wanted)
    with RunDirectory.read(run.path, run.trust) as opened:
        learning = opened.config.learning
        scored = ScoredRun(opened)
        for each in players:
            label = title
            if not learning and several:
                label = opened.config.title_of(each)
            elif several or player:
                label = f"{title}@{each}"
            where = source or f"{opened.config.title_of(each)} of {near(run.path)}"
            sheet = replace(sheet_of(scored, each, results), source=where)
            if each in answers:
                sheet = replace(sheet, answers=answers[each])
            yield label, sheet


def near(path: Path) -> str:
    """A path as one names it from here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def compared_players(run: RunDirectory, player: str) -> list[PlayerId]:
    """The players that a target names. Raises RunError."""
    if player:
        return players_of(run, [player])
    newest: dict[str, PlayerId] = {}
    for each in players_of(run, []):
        newest[each.name] = each
    return list(newest.values())


def play_sets(run: Run, players: Sequence[PlayerId], wanted: Wanted) -> list[BenchmarkResult]:
    """Have the players answer the sets, where they have not yet; the results."""
    results = run.evaluate(
        wanted.on,
        [str(player) for player in players],
        wanted.judge,
        wanted.settings,
        progress=wanted.progress,
    )
    wanted.kept.append(run.path)
    return results


def play_answers(
    run: Run, players: Sequence[PlayerId], wanted: Wanted
) -> dict[PlayerId, dict[str, Shown]]:
    """Have the players answer the sets, for a judge that sets the answers side by side."""
    with (
        RunDirectory.open(run.path, run.trust, show_notes) as opened,
        Display(console=console(), silent=not wanted.progress) as display,
    ):
        sets = sets_announced(wanted.on, wanted.comparing_judge, wanted.settings)
        answers, prompts = answers_to_sets(opened, players, sets, display)
    wanted.prompts |= prompts
    wanted.kept.append(run.path)
    return answers


def log_sheets(path: Path, model: str, wanted: Wanted) -> Iterator[tuple[str, Sheet]]:
    """A sheet for each model of a log. Raises ConfigError where sets should be played."""
    if wanted.plays:
        raise ConfigError(
            f"{path}: is a log, whose model cannot be asked; leave out --on, or name the model"
        )
    by_model: dict[str, dict[str, Any]] = {}
    notes: dict[str, list[str]] = {}
    for name, (result, items) in logged_scores(path, model):
        title = set_title(result)
        of_model = by_model.setdefault(name, {})
        if items:
            of_model[title] = set_scores(result, items)
        else:
            notes.setdefault(name, []).append(
                f"{title}: the log has only its mean, not each item, so it cannot be paired"
            )
        if result.note:
            notes.setdefault(name, []).append(f"{title}: {result.note}")
    for name, measures in by_model.items():
        key = f"{path.resolve()}@{name}"
        source = f"{name} in {near(path.resolve())}"
        yield name, Sheet(key, measures, notes=tuple(notes.get(name, ())), source=source)


def model_sheets(target: Model, wanted: Wanted) -> Iterator[tuple[str, Sheet]]:
    """The sheet of a model or endpoint: its answers are kept in a run of its own."""
    if not isinstance(target, Mapping):
        check_is_there(str(target))
    given = settings_for(target, wanted.player_settings, wanted.kinds)
    config = recipe_loader.load(model_settings(target, given))
    folder = folder_of_model(config, wanted.keep)
    player = player_of(target)
    source = str(player.get("model", config.name))
    if is_address(player.get("base_url", "")):
        source = f"{source} at {player['base_url']}"
    if wanted.plays:
        with run_to_measure(target, folder, given, trust=wanted.trust, option="--keep") as run:
            yield from run_sheets(run, "", config.name, wanted, source)
        return
    if not is_run(folder):
        raise RunError(
            f"{source}: nothing is recorded of it in {folder}; name what it is to be asked: "
            "--on SET"
        )
    yield from run_sheets(Run(folder), "", config.name, wanted, source)
