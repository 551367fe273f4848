"""Compare runs, players, models, endpoints, imported matches and logs of other programs: one record
of differences, and one page.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from equipoise.api.functions import run_to_measure
from equipoise.api.handle import Run
from equipoise.api.measure_sets import model_settings, players_of
from equipoise.api.play_out import console
from equipoise.api.side_by_side import answers_to_sets, judged_side_by_side
from equipoise.blocks.terminal import Display, show_notes
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.compared_arms import Arm, ComparisonNumbers, Sheet, Shown
from equipoise.evaluation.compared_arms import compare as compare_arms
from equipoise.evaluation.harnesses.log_files import logged_scores
from equipoise.judges.base import Judge
from equipoise.ledger.frames import Frame, columns, frame
from equipoise.people.calibrated_judges import CalibratedPair, calibrated_pairs, calibration_section
from equipoise.report.score_sheets import set_scores, set_title, sheet_of
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run, named_run
from equipoise.runs.named_sets.sets import named_sets
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable
from equipoise.types import PlayerId, Prompt

Target: TypeAlias = "str | Path | Run"
Targets: TypeAlias = "Sequence[Target] | Mapping[str, Target | Sequence[Target]]"

NAMED = re.compile(r"([^\W\d][\w.+-]*)=(.+)", re.DOTALL)  # name=target
PATTERN = re.compile(r"[*?\[]")  # of several folders
WEIGHTS = ("config.json", "adapter_config.json", "*.safetensors", "*.gguf", "*.bin")
KEPT = Path("runs", "evaluate")  # where models' answers are kept
DIFFERENCES = columns(
    "measure first second difference:float low:float high:float items:int p:float adjusted:float "
    "together_low:float together_high:float smallest:float seed_p:float only_first:int "
    "only_second:int differs:bool verdict"
)


@dataclass(frozen=True)
class Comparison:
    """A comparison's numbers, and the folders in which new answers are kept.

    `calibrated` are win rates of players of one run, corrected by people's votes.
    """

    numbers: ComparisonNumbers
    kept: tuple[Path, ...] = ()
    calibrated: tuple[CalibratedPair, ...] = ()

    def differences(self) -> Frame:
        """One row a pair and measure, with intervals and corrected p-values."""
        rows = []
        for difference in self.numbers.differences:
            facts = difference.facts()
            facts.pop("seeds")
            rows.append(facts)
        return frame(DIFFERENCES, rows)

    def facts(self) -> dict[str, Any]:
        """Plain JSON values: differences, standings, win rates, what was left out."""
        return {
            **self.numbers.facts(),
            "kept": [str(path) for path in self.kept],
            "calibrated": [pair.facts() for pair in self.calibrated],
        }

    def write(self, out: str | Path) -> Path:
        """Write the page, one HTML file that works offline, and return its path."""
        from equipoise.blocks.html import render
        from equipoise.report.comparison_page import comparison_page

        path = Path(out)
        if path.is_dir():
            raise RunError(f"{path}: is a folder; name the file, as {path}/comparison.html")
        check_writable(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        further = list(calibration_section(self.calibrated))
        write_text(path, render(comparison_page(self.numbers, further)))
        return path

    def _repr_html_(self) -> str:
        from equipoise.report.comparison_page import comparison_table

        return comparison_table(self.numbers)

    def __repr__(self) -> str:
        from equipoise.report.comparison_page import comparison_lines

        lines = [*comparison_lines(self.numbers), *(pair.line() for pair in self.calibrated)]
        return "\n".join(lines)


def compare(
    *targets: Target | Targets,
    on: Any = None,
    judge: Any = None,
    settings: recipe_loader.Overrides = (),
    player_settings: recipe_loader.Overrides = (),
    keep: str | Path | None = None,
    trust: bool = False,
    progress: bool = True,
) -> Comparison:
    """Compare targets by what they scored, item by item.

    Args: targets: runs (`runs/a`: the newest of who learns), players (`runs/a@policy@3`), folders
    and hub ids of models, endpoints (`http://…/v1#MODEL`), imported matches, and logs of Inspect,
    lm-eval and AlpacaEval; `NAME=TARGET` names one, and a pattern (`mnpo=runs/mnpo*`) or a list
    under a name in a mapping are runs of one recipe; on: sets, as `evaluate` takes them, which are
    played by whoever has not answered them yet, None: what is recorded; judge: of every set that
    names none; keep: a folder for the answers of models, and for those of runs, which are otherwise
    recorded in the runs themselves.

    Raises ConfigError, DataError and RunError before anything is played, Stopped on Ctrl-C: the
    same call goes on.
    """
    wanted = Wanted(on, judge, settings, player_settings, keep, trust, progress)
    named = list(named_targets(targets))
    if not named:
        raise ConfigError("name what to compare: runs, players, models, endpoints or logs")
    arms: list[Arm] = []
    for name, given in named:
        arms += arms_of(name, given, wanted)
    if len(arms) < 2:
        raise ConfigError(f"only '{arms[0].name}' is named; a comparison needs two targets or more")
    arms = with_own_names(arms)
    if wanted.comparing_judge is not None:
        with Display(console=console(), silent=not progress) as display:
            arms, folder = judged_side_by_side(
                arms, wanted.prompts, wanted.comparing_judge, wanted.keep, trust, display
            )
        wanted.kept.append(folder.resolve())
    numbers = compare_arms(arms)
    if not numbers.differences:
        raise nothing_in_common(numbers)
    kept = tuple(dict.fromkeys(wanted.kept))
    return Comparison(numbers, kept, tuple(pairs_with_votes(wanted.players)))


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
        keep: str | Path | None,
        trust: bool,
        progress: bool,
    ) -> None:
        self.on = on
        self.judge = judge
        self.settings = settings
        self.player_settings = player_settings
        self.keep = None if keep is None else Path(keep)
        self.trust = trust
        self.progress = progress
        self.kept: list[Path] = []
        self.players: dict[Path, list[PlayerId]] = {}
        self.prompts: dict[str, Prompt] = {}
        self.comparing_judge: Judge | None = None
        if judge is not None and self.plays:
            built = recipe_loader.component(Judge, judge, (), "--judge").as_it_is()
            self.comparing_judge = built if built.compares else None

    @property
    def plays(self) -> bool:
        """True if sets are named, which are played where they are missing."""
        return self.on is not None and self.on != []


# -- targets by name


def named_targets(targets: Sequence[Target | Targets]) -> Iterator[tuple[str, list[Target]]]:
    """(name or "", its targets) of everything that is given; several targets are replicates."""
    for target in targets:
        if isinstance(target, Mapping):
            for name, given in target.items():
                many: list[Target] = []
                if isinstance(given, str | Path | Run):
                    many += expanded(given)
                else:
                    for each in given:
                        many += expanded(each)
                yield str(name), many
        elif isinstance(target, list | tuple):
            yield from named_targets(target)
        elif isinstance(target, str) and not Path(target).exists():
            match = NAMED.fullmatch(target)
            name, text = match.groups() if match else ("", target)
            yield name, expanded(text)
        elif isinstance(target, str | Path | Run):
            yield "", [target]


def expanded(target: Target) -> list[Target]:
    """The folders and files that a pattern names, or the target itself. Raises ConfigError."""
    if not isinstance(target, str) or "://" in target or Path(target).exists():
        return [target]
    path, at, player = target.partition("@")
    if not PATTERN.search(path):
        return [target]
    paths = sorted(glob.glob(path))
    if not paths:
        raise ConfigError(f"{target}: no file or folder has a name like this")
    return [f"{each}{at}{player}" for each in paths]


def arms_of(name: str, targets: Sequence[Target], wanted: Wanted) -> list[Arm]:
    """The arms that one name stands for: replicates under it, or each target's own."""
    if len(targets) == 1:
        sheets = list(sheets_of(targets[0], wanted))
        if len(sheets) == 1 and name:
            return [Arm(name, (sheets[0][1],))]
        prefix = f"{name}/" if name else ""
        return [Arm(f"{prefix}{label}", (sheet,)) for label, sheet in sheets]
    replicates: list[Sheet] = []
    for target in targets:
        sheets = list(sheets_of(target, wanted))
        if len(sheets) > 1:
            listed = ", ".join(label for label, _ in sheets)
            raise ConfigError(
                f"{target}: a replicate is one player, and this has several ({listed}); name one: "
                f"{target}@NAME"
            )
        replicates.append(sheets[0][1])
    title = name or str(targets[0])
    return [Arm(title, tuple(replicates))]


def with_own_names(arms: Sequence[Arm]) -> list[Arm]:
    """The arms under names that are each given once."""
    taken: dict[str, int] = {}
    renamed = []
    for arm in arms:
        count = taken.get(arm.name, 0) + 1
        taken[arm.name] = count
        title = arm.name if count == 1 else f"{arm.name} ({count})"
        renamed.append(Arm(title, arm.sheets))
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
    """(label, sheet) of a run's players, of a model, or of the models of a log."""
    if isinstance(target, Run):
        yield from run_sheets(target, "", target.path.name, wanted)
        return
    text = str(target)
    folder, player = named_run(text)
    if is_run(folder):
        run = Run(folder, trust=trusted(folder, wanted))
        yield from run_sheets(run, player, Path(folder).name or folder, wanted)
    elif is_log(text):
        path, _, model = text.partition("@")
        yield from log_sheets(Path(path), model, wanted)
    else:
        yield from model_sheets(text, wanted)


def trusted(folder: str, wanted: Wanted) -> bool:
    """True if the run may execute what it names; asked only where something is played."""
    from equipoise.api.handle import ask_for_trust

    return ask_for_trust(folder, wanted.trust) if wanted.plays else wanted.trust


def is_log(text: str) -> bool:
    """True for a file that is no model, and for a folder without weights."""
    path = Path(text)
    if "://" not in text and not path.exists():
        path = Path(text.partition("@")[0])
    if path.is_file():
        return path.suffix != ".gguf"
    return path.is_dir() and not any(any(path.glob(pattern)) for pattern in WEIGHTS)


def run_sheets(run: Run, player: str, title: str, wanted: Wanted) -> Iterator[tuple[str, Sheet]]:
    """The sheets of a run's players; without a name the newest of each that learns, or everybody
    where nobody does.
    """
    with RunDirectory.read(run.path, run.trust) as opened:
        players = compared_players(opened, player)
    wanted.players.setdefault(run.path, []).extend(players)
    several = len(players) > 1
    sets = None
    answers: dict[PlayerId, dict[str, Shown]] = {}
    if wanted.comparing_judge is not None:
        answers = play_answers(run, players, wanted)
        sets = set()
    elif wanted.plays:
        sets = play_sets(run, players, wanted)
    with RunDirectory.read(run.path, run.trust) as opened:
        for each in players:
            label = title
            if several or player:
                label = f"{title}@{each}"
            sheet = sheet_of(opened, each, sets)
            if each in answers:
                sheet = replace(sheet, answers=answers[each])
            yield label, sheet


def compared_players(run: RunDirectory, player: str) -> list[PlayerId]:
    """The players that a target names. Raises RunError."""
    if player:
        return players_of(run, [player])
    newest: dict[str, PlayerId] = {}
    for each in players_of(run, []):
        newest[each.name] = each
    return list(newest.values())


def play_sets(run: Run, players: Sequence[PlayerId], wanted: Wanted) -> set[str]:
    """Have the players answer the sets, where they have not yet; the sets' names."""
    results = run.evaluate(
        wanted.on,
        [str(player) for player in players],
        wanted.judge,
        wanted.settings,
        progress=wanted.progress,
    )
    wanted.kept.append(run.path)
    return {result.name for result in results}


def play_answers(
    run: Run, players: Sequence[PlayerId], wanted: Wanted
) -> dict[PlayerId, dict[str, Shown]]:
    """Have the players answer the sets, for a judge that sets the answers side by side."""
    many = wanted.on if isinstance(wanted.on, list | tuple) else [wanted.on]
    sets = named_sets(many, wanted.comparing_judge, wanted.settings, (), None)
    with (
        RunDirectory.open(run.path, run.trust, show_notes) as opened,
        Display(console=console(), silent=not wanted.progress) as display,
    ):
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
        yield name, Sheet(key, measures, notes=tuple(notes.get(name, ())))


def model_sheets(text: str, wanted: Wanted) -> Iterator[tuple[str, Sheet]]:
    """The sheet of a model or endpoint: its answers are kept in a run of its own."""
    target, _, model = text.partition("#")
    overrides = recipe_loader.plain_values(wanted.player_settings)
    given: Any = overrides if isinstance(overrides, dict) else list(wanted.player_settings)
    if model:
        given = {**given, "model": model} if isinstance(given, dict) else [*given, f"model={model}"]
    config = recipe_loader.load(model_settings(target, given))
    folder = (wanted.keep or KEPT) / config.name
    if wanted.plays:
        with run_to_measure(target, folder, given, trust=wanted.trust) as run:
            yield from run_sheets(run, "", config.name, wanted)
        return
    if not is_run(folder):
        raise RunError(
            f"{text}: nothing is recorded of it in {folder}; name what it is to be asked: --on SET"
        )
    yield from run_sheets(Run(folder), "", config.name, wanted)
