"""Experiments: arms played over seeds, what is measured of their runs, and what that says of the
claims.

Figures go to FILE.json, an arm's row of columns for each seed, with what decides them; and to
FILE.parquet, one row an item: arm, seed, generation, decoding, prompt, column, value. A column of
an arm and seed is the mean over the items of its last generation. Items without a prompt are
figures of a whole run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.claims import DESIGNED, REAL_MODELS, TABLE_GAMES, TRIALS, Trial
from benchmarks.replays import Playing, check_bridges, read_playing, replayed
from benchmarks.running import equipoise, provenance, with_settings, write_results
from benchmarks.verdicts import AT, GREEDY, Item, Scores, verdict, write_items
from equipoise.runs.directory import RunDirectory

Row = Mapping[str, float]
Options = argparse.Namespace
WIDTH = 150  # of what is printed into a file
WHENCE = ("commit", "command", "date")
UNCOMPARED = {
    "seeds",
    "joined",
    "replayed",
    "chosen",
    "swept",
}  # of the arguments of two results that are joined


@dataclass(frozen=True)
class Experiment:
    """Arms, how a seed of them is played and measured, and what is printed.

    Args: arms: name -> settings over the recipe's; seeds, generations: by default; measure: the
    items of a seed, one seed after the other; columns: those that are printed; play: plays a seed's
    arms, --jobs seeds side by side, by default each by `recipe`, or by that of `recipes` under its
    name; common: settings of an arm that depend on the options; begin: what is done once before any
    is played; add: further options; decides: the names of those that decide the figures; points:
    columns that are no shares.
    """

    name: str
    doc: str | None
    arms: Mapping[str, Sequence[str]]
    seeds: Sequence[int]
    generations: int
    measure: Callable[[int, Path, Options], Iterable[Item]]
    columns: Sequence[str]
    recipe: str = ""
    recipes: Mapping[str, str] = field(default_factory=dict)
    common: Callable[[str, Path, Options], Iterable[str]] = lambda arm, place, o: ()
    play: Callable[[int, Path, Options], Any] | None = None
    begin: Callable[[Path, Options], None] = lambda place, o: None
    add: Callable[[argparse.ArgumentParser], Any] = lambda parser: None
    decides: Sequence[str] = ()
    points: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)

    def parser(self) -> argparse.ArgumentParser:
        """The options that all experiments share, and this one's."""
        made = argparse.ArgumentParser(
            description=self.doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add = made.add_argument
        every = list(self.arms)
        add("--seeds", type=int, nargs="*", default=list(self.seeds))
        add("--arms", nargs="+", default=every, choices=every)
        add("--generations", type=int, default=self.generations, help="of each arm's run")
        add("--jobs", type=int, default=1, help="seeds played side by side")
        add("--out", type=Path, help="keep the runs here; those here are gone on with and measured")
        add("--join", type=Path, nargs="+", default=[], help="raw results to be taken into this")
        add("--json", type=Path, help="write every run's figures here, and its items beside it")
        if not self.play:
            add("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of every arm")
        if self.trial and self.trial.swept:
            swept = list(self.trial.swept)
            add("--sweep", action="store_true", help="every arm at every swept setting instead")
            add("--only", nargs="+", default=swept, choices=swept, help="settings that it sweeps")
            add("--swept", type=Path, help="what --sweep wrote: each arm at its best setting")
            add("--usual", nargs="+", default=[], help="arms that have theirs even so")
        made.set_defaults(at={})  # arm -> its best setting, of --swept
        self.add(made)
        return made

    @property
    def trial(self) -> Trial | None:
        """What is claimed of this experiment, where something is."""
        return (TRIALS | DESIGNED | REAL_MODELS | TABLE_GAMES).get(self.name)

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Play, measure and write what is asked for, and print tables and verdicts."""
        o = self.parser().parse_args(argv)
        decides = [*self.decides, *(["set"] if getattr(o, "set", None) else [])]
        told = {"generations": o.generations, **{name: plain(o, name) for name in decides}}
        if sweeping(o) and self.trial and self.trial.swept:
            o.arms = [AT.join(pair) for pair in itertools.product(o.arms, o.only)]
            o.seeds = list(self.trial.reserved)
        elif getattr(o, "swept", None):
            best = chosen(o.swept, self.trial, o.generations)
            o.at = told["swept"] = {arm: at for arm, at in best.items() if arm not in o.usual}
        scores = self.scores(o, told)
        show(self.table(scores))
        for line in self.differences(scores):
            show(line)
        for claim in self.trial.claims if self.trial else ():
            arms = {arm.partition(":")[0] for arm in (claim.first, claim.second)}
            if arms <= set(scores.arms):
                show(f"{claim.text}: {verdict(claim, scores, told).text(claim)}")

    def scores(self, o: Options, told: dict[str, Any]) -> Scores:
        """Of the runs that are asked for and of the results that are joined; written after each
        seed.
        """
        usual = self.trial.usual if self.trial else ""
        commit = provenance()["commit"]
        earlier = [read_playing(file) for file in o.join]
        if earlier:
            check_bridges(earlier, commit, {(arm, seed) for arm in o.arms for seed in o.seeds})
        items, former = joined(earlier, told, sweeping(o), usual)
        former |= bridges(earlier)
        seeds = sorted({item.seed for item in items})
        with (
            tempfile.TemporaryDirectory(prefix="arms-") as spare,
            ThreadPoolExecutor(o.jobs) as workers,
        ):
            place = (o.out or Path(spare)).resolve()
            place.mkdir(parents=True, exist_ok=True)
            if o.seeds:
                self.begin(place, o)
            play = self.play or self.play_arms
            tasks = [workers.submit(play, seed, place, o) for seed in o.seeds]
            for seed, task in zip(o.seeds, tasks, strict=True):
                task.result()
                new = list(self.measure(seed, place, o))
                measured = {item.arm for item in new}
                now = Playing("this", commit, new)
                for other in earlier:
                    former.setdefault("replayed", []).extend(replayed(other, now))
                items = [i for i in items if i.seed != seed or i.arm not in measured] + new
                seeds = sorted({*seeds, seed})
                for arm, rows in Scores(new).figures().items():
                    shown = "  ".join(f"{name} {value:.3f}" for name, value in rows[seed].items())
                    show(f"seed {seed}  {arm:22} {shown}")
                self.save(o, items, seeds, told | former)
        if not o.seeds:
            self.save(o, items, seeds, told | former)
        return Scores(items)

    def play_arms(self, seed: int, place: Path, o: Options) -> None:
        """Every arm of a seed by the recipe, where it has not been played yet."""
        for arm in o.arms:
            folder = place / name_of(arm, seed)
            played(self.recipe_of(arm), folder, seed, self.overrides(arm, place, o))

    def overrides(self, arm: str, place: Path, o: Options) -> list[str]:
        """All that an arm has over its recipe."""
        own = self.settings(arm, o.at)
        return [f"generations={o.generations}", *self.common(arm, place, o), *own, *o.set]

    def recipe_of(self, arm: str) -> str:
        """An arm's recipe, whatever settings it is swept at."""
        return self.recipes.get(arm.partition(AT)[0], self.recipe)

    def settings(self, arm: str, at: Mapping[str, str]) -> list[str]:
        """Those of an arm; those of the setting that it is swept at, or that was best for it, come
        last.
        """
        name, _, label = arm.partition(AT)
        label = label or at.get(arm, "")
        if not label or not self.trial or not self.trial.swept:
            return [*self.arms[name]]
        of_arms = self.trial.swept[label]
        return [*self.arms[name], *of_arms.get(name, of_arms[""])]

    def save(
        self, o: Options, items: Sequence[Item], seeds: Sequence[int], told: Mapping[str, Any]
    ) -> None:
        """Write the figures and the items, and of a sweep the best setting of each arm."""
        if not o.json:
            return
        scores, best = Scores(items), {}
        if sweeping(o) and self.trial:
            best = {"chosen": best_settings(scores, self.trial)}
        figures = {
            arm: [{"seed": seed, **row} for seed, row in sorted(rows.items())]
            for arm, rows in scores.figures().items()
        }
        write_results(o.json, figures, seeds=list(seeds), **told, **best)
        write_items(o.json, items)

    def differences(self, scores: Scores) -> Iterator[str]:
        """Each arm less the one that it stands beside, in every column that both have."""
        for arm, other in self.beside.items():
            for column in self.columns:
                try:
                    gap = scores.difference(arm, other, column)
                except ValueError:
                    continue  # one of them was not played, or has no such figure
                yield f"{arm} − {other}, {column}: {gap.text()}"

    def table(self, scores: Scores) -> Table:
        """A row for each arm: mean with its interval over seeds and prompts."""
        title = f"{self.name}: mean and 95 % interval over seeds, and over prompts that they share"
        shown = Table(title=title)
        for column in ("", *self.columns):
            shown.add_column(column, justify="right" if column else "left")
        for arm in scores.arms:
            cells = []
            for column in self.columns:
                try:
                    own = scores.mean(arm, column)
                except ValueError:
                    cells.append("")
                else:
                    share = column.removesuffix(GREEDY) not in self.points
                    if share:
                        low, high = np.clip([own.low, own.high], 0, 1)
                        own = replace(own, low=float(low), high=float(high))
                    cells.append(own.text("%" if share else "").replace(" (", "\n("))
            shown.add_row(arm, *cells)
        return shown


def of_run(
    folder: Path,
    arm: str,
    seed: int,
    columns: Mapping[int, str],
    players: Sequence[str],
    ending: str = "",
    part: str = "held_out",
) -> Iterator[Item]:
    """A finished run's scores of a part, one an answer that could be judged.

    Args: columns: generation -> the figure that its scores are of; negative ones count from the
    last; players: whose answers; ending: ", greedy" where they are.
    """
    with RunDirectory.read(folder) as run:
        last, utility = run.config.generations, run.config.utility
        matches = list(run.ledger.matches(part))
        judgements = run.ledger.judgements_of(match.id for match in matches)
    named = {generation % (last + 1): name + ending for generation, name in columns.items()}
    for match in matches:
        playing = set(match.seats.values())
        player = min(playing)
        if len(playing) > 1 or player.name not in players or player.generation not in named:
            continue
        for seat in match.seats:
            score = judgements[match.id].score(seat, utility)
            if score is not None:
                column = named[player.generation]
                yield Item(arm, seed, player.generation, match.prompt, column, float(score))


def of_rows(rows: Mapping[str, Row], seed: int, generation: int = 0) -> Iterator[Item]:
    """The figures of whole runs, arm by arm."""
    for arm, row in rows.items():
        for column, value in row.items():
            yield Item(arm, seed, generation, "", column, float(value))


def best_settings(scores: Scores, trial: Trial) -> dict[str, str]:
    """Arm -> the label of the swept settings that are best by the trial's column.

    The usual ones stay where the best are better by less than the trial's margin.
    """
    found: dict[str, dict[str, float]] = {}
    for pair in scores.arms:
        arm, _, label = pair.partition(AT)
        if label:
            found.setdefault(arm, {})[label] = scores.mean(pair, trial.column).mean
    best = max if trial.best == "most" else min
    labels = {}
    for arm, values in found.items():
        label = best(values, key=values.__getitem__)
        usual = values.get(trial.usual, math.inf)
        labels[arm] = trial.usual if abs(values[label] - usual) < trial.margin else label
    return labels


def name_of(arm: str, seed: int) -> str:
    """The name of an arm's folder."""
    return f"{arm.replace(' ', '_').replace(',', '')}-{seed}"


def written(values: Mapping[str, Any], file: Path) -> str:
    """A recipe's values in a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))
    return str(file)


def played(recipe: str, folder: Path, seed: int, overrides: Iterable[str]) -> Path:
    """A run of the recipe with these overrides, in a process, to its end; one that is there goes
    on where it has fewer generations. Ends the benchmark where it was played otherwise.
    """
    settings = [*overrides, f"seed={seed}"]
    asked = folder.with_name(f"{folder.name}.settings")
    written = Path(recipe).read_text().splitlines() if Path(recipe).is_file() else [recipe]
    kept = ("generations:", "generations=")  # may grow
    told = [line for line in (*written, *settings) if not line.startswith(kept)]
    if not (folder / "config.yaml").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        asked.write_text("\n".join(told))
        equipoise("run", recipe, "--out", str(folder), "--json", *with_settings(settings))
        return folder
    if asked.exists() and asked.read_text().split("\n") != told:
        raise SystemExit(f"{folder}: was played with other settings, {asked}; take another --out")
    lengths = [int(s.removeprefix(kept[1])) for s in settings if s.startswith(kept[1])]
    with RunDirectory.read(folder) as run:
        count, own = run.config.generations, run.config.seed
    last = lengths[-1] if lengths else count  # what is set twice counts as set last
    more = [f"generations={last}"] if last > count else []
    if own != seed or last < count:
        raise SystemExit(f"{folder}: has seed {own} and {count} generations; take another --out")
    if more or not (folder / "report.html").exists():
        equipoise("resume", str(folder), "--json", *with_settings(more))
    return folder


def plain(o: Options, name: str) -> Any:
    """An option as raw results hold it: of a path or a packaged model its last name."""
    value = getattr(o, name)
    if isinstance(value, Path) or (isinstance(value, str) and Path(value).is_absolute()):
        return Path(value).name
    return value.removeprefix("builtin/") if isinstance(value, str) else value


def show(what: Table | str) -> None:
    """Print a table or a line, wide where nobody sits before it."""
    Console(width=None if sys.stdout.isatty() else WIDTH).print(what, highlight=False)


def sweeping(o: Options) -> bool:
    """Whether every arm is played at every swept setting."""
    return getattr(o, "sweep", False)


def chosen(file: Path, trial: Trial | None, generations: int) -> dict[str, str]:
    """Arm -> its best setting in a sweep. Ends the benchmark for a file that is no sweep, or one that
    chose by what is reported or by shorter runs.
    """
    told = json.loads(file.read_text())["arguments"]
    if "chosen" not in told:
        raise SystemExit(f"--swept {file}: is not what --sweep writes")
    if not told.get("dev", True):
        raise SystemExit(f"--swept {file}: chose without --dev, by the part that is reported")
    if trial and not set(told["seeds"]) <= set(trial.reserved):
        raise SystemExit(f"--swept {file}: chose by seeds {told['seeds']}, not by reserved ones")
    if told["generations"] != generations:
        raise SystemExit(f"--swept {file}: chose by {told['generations']} generations")
    return told["chosen"]


def joined(
    playings: Sequence[Playing], settings: Mapping[str, Any], sweep: bool = False, usual: str = ""
) -> tuple[list[Item], dict[str, Any]]:
    """The items of raw results, and what says where they come from, without those of arms that were
    played at another step than now; one that was not swept was played at the `usual` one.

    Ends the benchmark where one was measured otherwise than these settings say.
    """
    items: list[Item] = []
    former: list[Any] = []
    for playing in playings:
        file, earlier = playing.name, playing.result
        told = earlier.get("arguments", earlier)  # older ones hold them at the top
        names = settings.keys() | (told.keys() if "arguments" in earlier else set())
        for name in sorted(names - UNCOMPARED):
            own, other = settings.get(name), told.get(name)
            if own != other and (name in told or "arguments" in earlier):
                raise SystemExit(f"{file}: {name} is {other}, not {own}")
        if ("chosen" in told) != sweep:
            raise SystemExit(f"{file}: a sweep joins a sweep")
        now, then = settings.get("swept", {}), told.get("swept", {})
        moved = {i.arm for i in playing.items if now.get(i.arm, usual) != then.get(i.arm, usual)}
        own = [item for item in playing.items if item.arm not in moved]
        if moved:
            show(f"{file}: left out, played at another step: {', '.join(sorted(moved))}")
        new = {(item.arm, item.seed) for item in own}
        items = [item for item in items if (item.arm, item.seed) not in new] + own
        former += [*told.get("joined", []), {k: earlier.get(k, "") for k in WHENCE}]
    return items, {"joined": former} if former else {}


def bridges(playings: Sequence[Playing]) -> dict[str, Any]:
    """What joined results played at several commits, and agree on, as a raw result keeps it."""
    rows = [row for playing in playings for row in playing.replayed]
    for first, second in itertools.combinations(playings, 2):
        rows += replayed(first, second)
    return {"replayed": rows} if rows else {}
