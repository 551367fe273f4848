"""A cold start: a teacher plays the learner's part of a recipe's game several times a prompt, its
best plays are kept as traces, and a model is fine-tuned on them.

Everything that was played and judged is recorded in a ledger, in whole chunks: after a crash the
same call goes on from there and pays for nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from equipoise import seeds
from equipoise.api.fine_tune import fine_tune
from equipoise.blocks.terminal import show_notes
from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.base import JudgedMatch
from equipoise.judges.base import JudgeContext
from equipoise.learners.sft_learner import SFT
from equipoise.ledger.ledger import Ledger
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.monitor import Monitor, Silent
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import request_moves, unplayed_chunks
from equipoise.runs.prompt_splits import deal
from equipoise.system.folder import Folder, write_text
from equipoise.system.plugins import plugin_table
from equipoise.types import Judgement, Match, Message, PlayerId, Turn, record_id

TEACHER = "teacher"
MODEL = "model"  # the folder of the trained model, below the one of traces


@dataclass(frozen=True)
class ColdStart:
    """The files that a cold start wrote, and counts of its plays and traces."""

    traces: Path
    prompts: int
    played: int
    kept: int
    mean: float
    model: Path | None = None


def cold_start(
    config: RunConfig,
    teacher: Player,
    out: Path,
    *,
    candidates: int = 9,
    count: int | None = None,
    least: float = 0.0,
    train: str | None = None,
    training: SFT | None = None,
    monitor: Monitor | None = None,
) -> ColdStart:
    """Have a teacher play the learner's part on the training prompts, and keep the best play on
    each.

    Writes `traces.jsonl`, `candidates.jsonl`, the ledger and perhaps `model` into `out`. Called
    again, it goes on where it was stopped: what the ledger holds is not played or judged twice.

    Args: candidates: plays on each prompt; count: how many prompts, None: all; least: the least
    pay-off of a play that is kept; train: the model to train on the traces, None: none; training:
    how.

    Raises ConfigError for a game that has no single learner with a role, DataError where no play is
    good enough, NoSignal where too few could be judged.
    """
    matches = TeacherMatches(config, teacher, candidates, count)
    config.game.check()
    with Folder.open(out, make=True) as files:
        if train is not None and files.has(MODEL):  # a link could lead to a folder of the user's
            files.inner(MODEL).close()
    monitor = monitor or Silent()
    judged = matches.play(out, monitor)
    write_rows(matches.rows(judged), out / "candidates.jsonl")
    traces = matches.select_traces(judged, least)
    write_rows((trace.row() for trace in traces), out / "traces.jsonl")
    model = None
    if train is not None:
        model = train_on_traces(train, traces, out / MODEL, training, config, monitor)
    return ColdStart(
        traces=out / "traces.jsonl",
        prompts=len(matches.prompts),
        played=len(judged),
        kept=len(traces),
        mean=fmean(trace.scores[config.utility] for trace in traces),
        model=model,
    )


def teacher_named(text: str) -> Player:
    """A teacher from a packaged name, a YAML file or YAML text. Raises ConfigError."""
    packaged = plugin_table("TEACHERS")
    if text in packaged:
        return Player.build(packaged[text])
    return recipe_loader.component(Player, text, None, "--teacher")


def load(recipe: str, overrides: Sequence[str], train: str | None = None) -> RunConfig:
    """The recipe's configuration; models left open are `train`, or the built-in one."""
    values = recipe_loader.read(recipe)
    players = values.get("players")
    if not players:
        hint = nearest(recipe, list(recipe_loader.recipe_descriptions()))
        raise ConfigError(f"{recipe}: has no players; {hint}")
    open_models = [
        f"players.{name}.model={train or 'builtin'}"
        for name, player in players.items()
        if player and "model" in player and player["model"] is None
    ]
    chosen = any(text.partition("=")[0].endswith(".model") for text in overrides)
    overrides = [*([] if chosen else open_models), *overrides]
    return recipe_loader.load_announced(recipe, overrides, show_notes)


def train_on_traces(
    model: str,
    traces: Sequence[Trace],
    out: Path,
    training: SFT | None,
    config: RunConfig,
    monitor: Monitor,
) -> Path:
    """Fine-tune a model on the traces; the folder of its weights."""
    learner = config.players[config.learning[0]]
    local = learner if isinstance(learner, Local) else None
    tuned = fine_tune(
        model,
        [(trace.messages, trace.text) for trace in traces],
        out,
        training,
        seed=config.seed,
        max_length=local and local.max_length,
        template=local and local.template,
        template_options=local.chat_options if local else {},
        too_long=config.too_long,
        overwrite=True,
        monitor=monitor,
    )
    show_notes(tuned.notes())
    return tuned.model


@dataclass(frozen=True)
class Trace:
    """An answer to learn in reply to `messages`, and the utilities of the match that it is from."""

    messages: tuple[Message, ...]
    text: str
    source: str
    scores: dict[str, float]

    def row(self) -> dict[str, Any]:
        """In TRL's conversational prompt-completion format, with the utilities beside."""
        return {
            "prompt": [msgspec.to_builtins(message) for message in self.messages],
            "completion": [{"role": "assistant", "content": self.text}],
            "source": self.source,
            **self.scores,
        }


def directory_of(folder: Folder, config: RunConfig, ledger: Ledger) -> RunDirectory:
    """The folder of a cold start, played as a run is."""
    directory = RunDirectory(folder, {}, ledger)
    directory.config = config
    return directory


class TeacherMatches:
    """A teacher's matches on training prompts alone."""

    def __init__(
        self, config: RunConfig, teacher: Player, candidates: int, count: int | None = None
    ) -> None:
        """`candidates` matches on each of `count` prompts (None: all). Raises ConfigError."""
        role_of = {name: role for role, name in config.schedule.player_of_role.items()}
        if not role_of or len(config.learning) != 1:
            raise ConfigError(
                "traces: need a recipe with schedule: roles and one player that "
                "learns, such as gtalign"
            )
        self._config = config
        self._teacher = teacher
        self._candidates = candidates
        (learner,) = config.learning
        self._role = role_of[learner]
        self._judge = config.judge_of(learner)
        parts = deal(config).parts
        by_id = {prompt.id: prompt for part in parts for prompt in part}
        self.prompts = list(by_id.values())[:count]
        self._sources = {prompt.id: prompt.source for prompt in self.prompts}
        self._players = {role: PlayerId(name) for name, role in role_of.items()}
        self._players[self._role] = PlayerId(TEACHER)

    def plan_matches(self) -> list[Planned]:
        """Every match; its id depends on the teacher's settings."""
        game = self._config.game
        seed = self._config.seed
        settings = (self._teacher.model_dump_json(), game.model_dump_json())
        planned = []
        for prompt in self.prompts:
            seats = {seat: self._players[game.role(seat)] for seat in game.seats_for(prompt)}
            for candidate in range(self._candidates):
                identity = record_id("trace", seed, prompt.id, candidate, *settings)
                dice = seeds.child(seed, "trace", prompt.id, candidate)
                planned.append(Planned(identity, 0, "train", prompt, seats, dice))
        return planned

    def play(self, folder: Path, monitor: Monitor) -> list[JudgedMatch]:
        """Play and judge, recorded in `folder`'s ledger; NoSignal if too few could be judged."""
        config, teacher = self._config, {TEACHER: self._teacher}
        planned = self.plan_matches()
        ids = [plan.id for plan in planned]
        path = folder / "ledger.sqlite"
        with (
            Folder.open(folder) as files,
            Ledger.open(path) if path.exists() else Ledger.create(path) as ledger,
            OpenRun(directory_of(files, config, ledger), monitor, extra_players=teacher) as run,
        ):
            ledger.add_prompts(self.prompts, "train", 0)
            monitor.stage("traces", len(planned), 0)
            act = partial(request_moves, run, engines={})
            for chunk in unplayed_chunks(run, planned):
                ledger.add_matches(play(chunk, config.game, None, act))
            recorded = ledger.matches_of(ids)
            matches = [recorded[match] for match in ids]
            judgements = record_judgements(
                run,
                f"judge/{self._judge.name}/{record_id(*ids)}",
                self._judge,
                JudgeContext(
                    game=config.game,
                    seed=seeds.child(config.seed, "bench", 0),
                    pool=[PlayerId(name) for name in (TEACHER, *config.players)],
                    ratings={},
                    resources=run.resources,
                    actor=run.population.actor,
                ),
                matches,
                {prompt.id: prompt for prompt in self.prompts},
                0,
            )
        return list(zip(matches, judgements, strict=True))

    def select_traces(self, judged: Sequence[JudgedMatch], least: float) -> list[Trace]:
        """The best match on each prompt, of those worth `least` or more; each teacher's move is a
        trace.

        Matches with a utility `format` below 1 are left out; of equals the first is kept. Raises
        DataError where no match is good enough.
        """
        best: dict[str, tuple[Match, dict[str, float]]] = {}
        utility = self._config.utility
        well_formed = 0
        for match, judgement in judged:
            scores = self._scores(match, judgement)
            if scores is None or scores.get("format", 1.0) < 1.0:
                continue
            well_formed += 1
            beaten = match.prompt in best and (scores[utility] <= best[match.prompt][1][utility])
            if scores[utility] >= least and not beaten:
                best[match.prompt] = match, scores
        if not best:
            raise DataError(
                f"traces: none of the {len(judged)} matches is good enough: "
                f"{well_formed} are well formed, and "
                f"--least is {least:g}; candidates.jsonl shows what the teacher wrote"
            )
        return [trace for match, scores in best.values() for trace in self._traces(match, scores)]

    def _traces(self, match: Match, scores: dict[str, float]) -> list[Trace]:
        source = self._sources[match.prompt]
        return [
            Trace(turn.view.messages, turn.move.text, source, dict(scores))
            for turn in self._turns(match)
            if turn.move.text.strip()
        ]

    def rows(self, judged: Sequence[JudgedMatch]) -> list[dict[str, Any]]:
        """Every match in plain JSON values: prompt, answers, utilities or why it has none."""
        prompts = {prompt.id: msgspec.to_builtins(prompt.messages) for prompt in self.prompts}
        rows = []
        for match, judgement in judged:
            turns = self._turns(match)
            rows.append(
                {
                    "prompt": prompts[match.prompt],
                    "written": [turn.move.text or turn.move.error for turn in turns],
                    "scores": self._scores(match, judgement),
                    "reason": judgement.reason,
                }
            )
        return rows

    def _scores(self, match: Match, judgement: Judgement) -> dict[str, float] | None:
        """The utilities of the teacher's first seat, or None where it was not judged."""
        role = self._config.game.role
        seat = next(seat for seat in match.seats if role(seat) == self._role)
        utilities = judgement.utilities(seat)
        return utilities if self._config.utility in utilities else None

    def _turns(self, match: Match) -> list[Turn]:
        role = self._config.game.role
        return [turn for turn in match.turns if role(turn.seat) == self._role]


def write_rows(rows: Iterable[Mapping[str, Any]], file: Path) -> None:
    """One JSON line a row; the file appears whole or not at all."""
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
