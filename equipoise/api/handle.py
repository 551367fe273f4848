"""A run in Python: read it, go on with it, and look at it anew."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from equipoise.api.extending import change_settings
from equipoise.api.play_out import Played, console, play_out
from equipoise.api.rejudge import JudgedPart, Rejudgement, rejudge
from equipoise.api.rerate import RatedBy, Rerating, rerate
from equipoise.blocks.terminal import Display, show_notes
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.harnesses.base import Harness
from equipoise.judges.base import Judge
from equipoise.ledger import frames
from equipoise.ledger.benchmark_results import BENCHMARKS, against_start, benchmark_rows
from equipoise.ledger.frames import Frame, frame
from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult
from equipoise.ledger.parquet import export
from equipoise.players.scripted import Recorded
from equipoise.ratings.base import Ratings
from equipoise.report.history import measurements_beside
from equipoise.report.model_card import copy_cards, write_data_card
from equipoise.report.page import page
from equipoise.report.summary import Summary, summary
from equipoise.report.summary import progress as progress_of
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.consent import has_consent
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.sets import Sweep
from equipoise.runs.recipe_loader import component_announced
from equipoise.system.folder import write_text
from equipoise.system.hugging_face import hub_repository
from equipoise.system.locks import check_writable
from equipoise.system.plugins import neighbours
from equipoise.types import PlayerId


@dataclass(frozen=True)
class Exported:
    """The Parquet files with their rows, and the address where they were uploaded to."""

    rows: Mapping[Path, int]
    address: str


Part = Literal["train", "held_out", "test", "benchmark", "people"]
Given = Any  # a set: a name, a file, YAML, a mapping, a `Benchmark`
PARTS = get_args(Part)


def ask_for_trust(folder: Path | str, trust: bool, directory: Path | None = None) -> bool:
    """True if the user trusts a run: by --trust, or asked on a terminal, if there is one.

    `directory`: of the run's relative paths, None: where it was started.
    """
    import typer

    from equipoise.runs.directory import is_run
    from equipoise.system.command_options import say

    if trust or not is_run(folder) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return trust
    with RunDirectory.read(Path(folder)) as run:
        effects = run.effects(directory)
        if has_consent(run.ledger, effects):
            return False
    say(f"{folder} was not begun here by you. It", err=True)
    for note in effects.notes():
        say(f"  {note}", err=True)
    return typer.confirm("Do you trust it?", err=True)


class Run:
    """A run, by its folder.

    Reading takes no lock, loads no model, writes nothing and runs no code but Equipoise's own, also
    while the run is played. Frames are `pandas.DataFrame`s where pandas is installed, else
    `pyarrow.Table`s; docs/python.md lists their columns.
    """

    def __init__(
        self, path: str | Path, played: Played | None = None, *, trust: bool = False
    ) -> None:
        """The run in the folder `path`; `played` is what this process played of it.

        `trust`: allow parts of the run's own to be imported. Raises RunError where there is no run.
        """
        self.path = Path(path).resolve()
        self.played = played
        self.trust = trust
        with self._read():
            pass

    @contextlib.contextmanager
    def _read(self) -> Iterator[RunDirectory]:
        with RunDirectory.read(self.path, self.trust) as run, run.ledger.moment():
            yield run

    # -- reading

    @property
    def config(self) -> RunConfig:
        """The configuration; without `trust`, stand-ins take the places of the run's own parts."""
        with self._read() as run:
            return run.config

    def status(self) -> dict[str, Any]:
        """Progress of the run, what was used and spent, and its last measurement."""
        with self._read() as run:
            return progress_of(run)

    def measures(self) -> Frame:
        """Measurements: one row a learner and generation, with 95 % intervals."""
        with self._read() as run:
            return frame(frames.MEASURES, frames.measured_rows(run.ledger))

    def matches(self, part: Part | None = None, generation: int | None = None) -> Frame:
        """One row a seat of a match, with its answer; None: of all parts, of all generations."""
        one_of(part, PARTS, "part")
        with self._read() as run:
            return frame(
                frames.MATCHES,
                frames.match_rows(run.ledger, part, generation, run.config.game.raw_moves),
            )

    def judgements(self, part: Part | None = None, generation: int | None = None) -> Frame:
        """Judgements: one row a judge's score of a seat of a match; args as `matches`."""
        one_of(part, PARTS, "part")
        with self._read() as run:
            utility = run.settings.get("utility", "score")
            rows = frames.judgement_rows(
                run.ledger, utility, part, generation, run.config.game.raw_moves
            )
            return frame(frames.JUDGEMENTS, rows)

    def pairs(self, generation: int | None = None) -> Frame:
        """Training pairs: one row a pair of answers."""
        with self._read() as run:
            return frame(frames.PAIRS, frames.pair_rows(run.ledger, generation))

    def benchmarks(self) -> Frame:
        """Results on named sets: one row a set, player and metric."""
        with self._read() as run:
            return frame(BENCHMARKS, benchmark_rows(run.ledger))

    def beside_start(self, results: Sequence[BenchmarkResult] | None = None) -> list[AgainstStart]:
        """The newest results on named sets, or these, each beside the player's start."""
        with self._read() as run:
            rows = list(against_start(run.ledger, every=results is not None))
        return [row for row in rows if results is None or row.result in results]

    def ratings(self) -> Frame:
        """Ratings: one row a player and rating, with 95 % intervals."""
        with self._read() as run:
            return frame(frames.RATINGS, frames.rating_rows(run.ledger))

    def report(self, out: str | Path | None = None, beside: Sequence[str] = ()) -> Path:
        """Write the report, one HTML file that works offline, and return its path.

        Args: out: None: report.html in the run's folder; beside: other runs to draw beside this
        one, `RUN` or `RUN@GENERATION`, where the evaluation compares runs. Raises RunError where
        the file cannot be written.
        """
        from equipoise.blocks.html import render

        path = self._page_file(out, "report.html")
        with self._read() as run:
            others = measurements_beside(run, beside)
            text = render(page(run, beside=others))
            self._write_page(run, path, text)
        return path

    def leaderboard(self, out: str | Path | None = None, judge: str = "") -> Path:
        """Write the leaderboard of the run's players, and return its path.

        One HTML file that works offline: ratings, who beats whom, the equilibrium, the cycles.

        Args: out: None: leaderboard.html in the run's folder; judge: whose judgements count, by its
        name in the ledger, "" for the run's own. Raises what `rerate` raises, and RunError where
        the file cannot be written.
        """
        from equipoise.blocks.html import render
        from equipoise.people.calibrated_judges import calibration_sections
        from equipoise.report.leaderboard import leaderboard

        path = self._page_file(out, "leaderboard.html")
        with self._read() as run:
            config = run.config
            rerating = rerate(run, judge=judge)
            titles = {}
            for name, player in config.players.items():
                if not config.learning:
                    titles[str(PlayerId(name))] = config.title_of(PlayerId(name))
                if isinstance(player, Recorded):
                    titles[name] = player.model
            name = judge or config.measuring_judge.name
            board = leaderboard(
                config.name,
                rerating.ratings[-1],
                rerating.table,
                rerating.kind,
                config.judge_titles.get(name, name),
                rerating.warning,
                titles,
                list(calibration_sections(run)),
            )
            self._write_page(run, path, render(board))
        return path

    def _page_file(self, out: str | Path | None, name: str) -> Path:
        """The file of a page, in the run's folder where `out` is None. Raises RunError."""
        path = self.path / name if out is None else Path(out)
        if path.is_dir():
            raise RunError(f"{path}: is a folder; name the file, as {path}/{name}")
        check_writable(path.parent)
        return path

    def _write_page(self, run: RunDirectory, path: Path, text: str) -> None:
        """Write a page, through the run's door where it lies in its folder."""
        if path.parent.resolve() == self.path:
            run.files.write(path.name, text)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)

    def export(self, to: str | Path, push: str = "") -> Exported:
        """Write every record as Parquet into the folder `to`, with the model and data cards.

        `push`: also upload them as this data set of a hub, under its own login.
        """
        folder = Path(to)
        repository = hub_repository(push, "dataset") if push else None
        with self._read() as run:
            rows = export(run.ledger, folder)
            cards = copy_cards(run, folder / "cards")
            cards += write_data_card(run, rows, folder)
        address = repository.upload(folder, [*rows, *cards]) if repository else ""
        return Exported(rows, address)

    def export_answers(self, to: str | Path) -> dict[Path, int]:
        """Write answers as official judges take them: file -> answers. Reads the sets again.

        Raises ConfigError where Equipoise's neighbours are not installed.
        """
        with self._read() as run:
            return neighbours("answer_files").write_answer_files(run, Path(to))

    # -- going on, and looking anew

    def resume(
        self,
        settings: recipe_loader.Overrides | None = None,
        *,
        directory: str | Path | None = None,
        progress: bool = True,
    ) -> Run:
        """Go on where the run stopped or ended; what is recorded is not done again.

        `settings` may add to the run, `{"generations": 6}`, and raise what limits it (budgets,
        time-outs, `max_unjudged`; `api/extending.py` lists all). `directory`: what relative paths
        are relative to from now on, None: the folder that the run was started in. Raises
        ConfigError for other settings and for an edited configuration, RunError where another
        process plays the run or where it is somebody else's (see `trust`), Stopped on Ctrl-C.
        """
        place = None if directory is None else Path(directory)
        with (
            RunDirectory.in_home_folder(self.path, place, show_notes),
            RunDirectory.open(self.path, self.trust, show_notes, Path.cwd()) as run,
        ):
            if place is not None:
                run.settle_here()
            if settings:
                change_settings(run, settings)
            self.played = play_out(run, progress=progress)
        return self

    def rerate(
        self,
        by: str | Mapping[str, Any] | Ratings | type[Ratings] | None = None,
        settings: recipe_loader.Overrides = (),
        *,
        of: RatedBy | None = None,
        judge: str = "",
    ) -> Rerating:
        """Rate the players anew, from the records alone; nothing is written.

        Args: by: None: the run's; settings: of the rating, `{"k": 8}`; of: "matches" (the players,
        by training matches), "league" (every generation, by held-out pay-offs) or "votes" (by
        people's), None: matches where several players met; judge: whose judgements count, "" for
        the run's own.
        """
        one_of(of, get_args(RatedBy), "of")
        ratings = None
        if by is not None:
            ratings = component_announced(Ratings, by, settings, "--by", show_notes)
        with self._read() as run:
            return rerate(run, ratings, of, judge)

    def rejudge(
        self,
        judge: str | Mapping[str, Any] | Judge | type[Judge],
        settings: recipe_loader.Overrides = (),
        *,
        part: JudgedPart = "held_out",
        generation: int | None = None,
        progress: bool = True,
    ) -> Rejudgement:
        """Have another judge score recorded matches, beside the run's; nothing is played."""
        one_of(part, get_args(JudgedPart), "part")
        other = component_announced(Judge, judge, settings, "--with", show_notes).as_it_is()
        with (
            RunDirectory.open(self.path, self.trust, show_notes) as run,
            Display(console=console(), silent=not progress) as display,
        ):
            return rejudge(run, other, part, generation, display)

    def evaluate(
        self,
        on: Given | Sequence[Given],
        players: str | Sequence[str] = (),
        judge: str | Mapping[str, Any] | Judge | type[Judge] | None = None,
        settings: recipe_loader.Overrides = (),
        *,
        sweep: Sweep = (),
        trained: bool = False,
        progress: bool = True,
    ) -> list[BenchmarkResult]:
        """Measure players on named sets; nothing is trained, and what is recorded is not asked
        again.

        Args: on: a benchmark's name, a file of prompts, a YAML file, a mapping or a `Benchmark`, or
        several of them; a list of prompts, as texts or rows, or a data frame, `{"mine": […]}` under
        a name; players: `policy@3`, `policy` (its newest) or `policy@all`, none: the start
        and the newest of everyone who learns; judge: of every set that names none; settings: of
        every set, `{"limit": 100}`; sweep: a setting of every set -> its values, `{"temperature":
        [0, 0.7]}`; trained: sets of prompts are played by the run's game and judged by its judge.

        Raises ConfigError and DataError before anything is asked, RunError for missing players or a
        run that is in use, Stopped on Ctrl-C: the same call goes on.
        """
        from equipoise.api.measure_sets import measure

        with (
            RunDirectory.open(self.path, self.trust, show_notes) as run,
            Display(console=console(), silent=not progress) as display,
        ):
            return measure(run, on, players, judge, settings, sweep, trained, monitor=display)

    def evaluate_by_harness(
        self,
        harness: str | Mapping[str, Any] | Harness | type[Harness],
        players: str | Sequence[str] = (),
        settings: recipe_loader.Overrides = (),
    ) -> list[BenchmarkResult]:
        """Measure players by another program that loads their weights, such as lm-eval.

        Args: harness: a kind of harness with its tasks, `{"kind": "lm_eval", "tasks":
        ["arc_easy"]}`; players: as in `evaluate`. What is recorded is not measured again.

        Raises ConfigError, before anything is measured, for a missing harness or task and for
        players without weights, DataError where data cannot be had.
        """
        from equipoise.api.measure_sets import players_of
        from equipoise.runs.named_sets.harness import measure_by_harness

        by = component_announced(Harness, harness, settings, "--harness", show_notes)
        wanted = [players] if isinstance(players, str) else players
        with RunDirectory.open(self.path, self.trust, show_notes) as run:
            return measure_by_harness(run, players_of(run, wanted), by)

    def best_response(
        self,
        player: str,
        start: str = "",
        settings: recipe_loader.Overrides = (),
        *,
        role: str = "",
        out: str | Path | None = None,
        overwrite: bool = False,
        progress: bool = True,
    ) -> Run:
        """Train a fresh player against a frozen one of this run, and return its run.

        Its result is `status()["best_response"]`; called again, it goes on there.

        Args: player: `policy@3`, or `policy` (its newest); start: a model or a player of the run to
        begin from, "": as the run's player of that role was given; settings: of the new run,
        `{"generations": 50}`; role: the exploiter's, where several are left; out: the folder, None:
        best_responses/PLAYER in this run's.

        Raises RunError and ConfigError before anything is sampled, Stopped on Ctrl-C.
        """
        from equipoise.api.best_response import prepare

        with self._read() as run:
            folder = prepare(run, player, start, role, settings, out, overwrite, self.trust)
        return Run(folder, trust=True).resume(progress=progress)

    def import_scores(
        self,
        player: str,
        files: str | Path | Sequence[str | Path],
        source: str,
        *,
        model: str = "",
        name: str = "",
    ) -> list[BenchmarkResult]:
        """Record beside the run what a harness or an official judge wrote of a player.

        Args: player: `policy@3`, or `policy` (its newest); files: its results; source: lm_eval,
        evalscope, inspect, alpaca_eval, arena_hard, mt_bench or verifiers; model: which, where a
        file holds several; name: of the set, "" for its own.

        Raises ConfigError, DataError and RunError before anything is recorded.
        """
        from equipoise.runs.named_sets.harness import import_scores

        many = [files] if isinstance(files, str | Path) else files
        paths = [Path(file) for file in many]
        with RunDirectory.open(self.path, self.trust, show_notes) as run:
            return import_scores(run, player, paths, source, model, name)

    # -- what it looks like

    def _summary(self) -> Summary:
        with self._read() as run:
            return summary(run)

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


def one_of(value: str | None, known: Sequence[str], option: str) -> None:
    """Raises ConfigError for a value that is none of those known; None is no value."""
    if value is not None and value not in known:
        raise ConfigError(f"--{option} {value}: must be {' or '.join(known)}")
