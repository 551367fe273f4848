"""A cold start: a teacher plays a recipe's game, its best plays are kept as traces, and a model is
fine-tuned on them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.learners.sft import SFT
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.runs import recipes
from equipoise.runs.config import RunConfig
from equipoise.runs.fine_tune import fine_tune
from equipoise.runs.ledger import Ledger
from equipoise.runs.monitor import Monitor, Silent
from equipoise.runs.reading.traces import TeacherMatches, Trace, write_traces
from equipoise.system.wings import added


@dataclass(frozen=True)
class ColdStart:
    """What came of it: the file of traces, the prompts that were played on, how many plays there
    were, how many traces were kept and their mean pay-off, and the trained model's folder.
    """

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
    out.mkdir(parents=True, exist_ok=True)
    monitor = monitor or Silent()
    with _ledger(out / "ledger.sqlite") as ledger:
        judged = matches.played(ledger, out / "players", monitor)
    with (out / "candidates.jsonl").open("w", encoding="utf-8") as lines:
        for row in matches.rows(judged):
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    traces = matches.kept(judged, least)
    write_traces(traces, out / "traces.jsonl")
    model = None
    if train is not None:
        model = _train(train, traces, out / "model", training, config, monitor)
    return ColdStart(
        traces=out / "traces.jsonl",
        prompts=len(matches.prompts),
        played=len(judged),
        kept=len(traces),
        mean=fmean(trace.scores[config.utility] for trace in traces),
        model=model,
    )


def teacher_named(text: str) -> Player:
    """A teacher: the name of a packaged one, a YAML file, or YAML text of a player.

    Raises ConfigError.
    """
    packaged = added("TEACHERS")
    if text in packaged:
        return Player.build(packaged[text])
    return recipes.component(Player, text, [], "--teacher")


def load(recipe: str, overrides: Sequence[str], train: str | None = None) -> RunConfig:
    """The recipe's configuration; where it leaves players' models open, they are the one to be
    trained, or the built-in one. Raises ConfigError.
    """
    values = recipes.read(recipe)
    players = values.get("players")
    if not players:
        raise ConfigError(f"{recipe}: has no players; {nearest(recipe, list(recipes.packaged()))}")
    open_models = [
        f"players.{name}.model={train or 'builtin'}"
        for name, player in players.items()
        if player and "model" in player and player["model"] is None
    ]
    chosen = any(text.partition("=")[0].endswith(".model") for text in overrides)
    return recipes.load(recipe, [*([] if chosen else open_models), *overrides])


def _ledger(path: Path) -> Ledger:
    return Ledger.open(path) if path.exists() else Ledger.create(path)


def _train(
    model: str,
    traces: Sequence[Trace],
    out: Path,
    training: SFT | None,
    config: RunConfig,
    monitor: Monitor,
) -> Path:
    """The folder of `model`, trained on the traces at the learner's own length."""
    learner = config.players[config.learning[0]]
    return fine_tune(
        model,
        [(trace.messages, trace.text) for trace in traces],
        out,
        training,
        seed=config.seed,
        max_length=learner.max_length if isinstance(learner, Local) else None,
        overwrite=True,
        monitor=monitor,
    ).model
