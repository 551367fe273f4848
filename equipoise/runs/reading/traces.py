"""Traces for a cold start: a teacher plays the learner's part, several times a prompt, and the best
plays are kept.

Everything that was played and judged is recorded in a ledger, in whole chunks: after a crash the
same call goes on from there and pays for nothing twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from equipoise import seeds
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.base import JudgedMatch
from equipoise.judges.base import JudgeContext
from equipoise.matches.base import Planned
from equipoise.players.base import Player
from equipoise.players.population import Population
from equipoise.prompts.split import load_split
from equipoise.runs.config import RunConfig
from equipoise.runs.ledger import Ledger
from equipoise.runs.monitor import Monitor
from equipoise.runs.recorder import Recorder
from equipoise.types import Judgement, Match, Message, PlayerId, Turn, record_id

TEACHER = "teacher"


@dataclass(frozen=True)
class Trace:
    """What a learner is to write in reply to `messages`, and the utilities of the match that it is
    from.
    """

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


class TeacherMatches:
    """A teacher's matches on a configuration's training prompts; the held-out and test prompts stay
    untouched.
    """

    def __init__(
        self, config: RunConfig, teacher: Player, candidates: int, count: int | None = None
    ) -> None:
        """`candidates` matches on each of the first `count` prompts (None: on all).

        Raises ConfigError for a schedule without roles, or with more than one player that learns.
        """
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
        parts = load_split(config.prompts, config.generations, config.seed).parts
        by_id = {prompt.id: prompt for part in parts for prompt in part}
        self.prompts = list(by_id.values())[:count]
        self._sources = {prompt.id: prompt.source for prompt in self.prompts}
        self._players = {role: PlayerId(name) for name, role in role_of.items()}
        self._players[self._role] = PlayerId(TEACHER)

    def planned(self) -> list[Planned]:
        """Every match; its identity holds the teacher's settings, so that the matches of another
        teacher are others.
        """
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

    def played(self, ledger: Ledger, folder: Path, monitor: Monitor) -> list[JudgedMatch]:
        """Every match with its judgement, recorded in `ledger`; the players' weights lie in
        `folder`.

        Raises NoSignal where too few could be judged.
        """
        config = self._config
        planned = self.planned()
        players = {**config.playing, TEACHER: self._teacher}
        population = Population(players, folder, ledger)
        recorder = Recorder(config, ledger, population, monitor)
        ledger.add_prompts(self.prompts, "train", 0)
        monitor.stage("traces", len(planned), 0)
        recorder.play(planned)
        ids = [plan.id for plan in planned]
        recorded = ledger.matches_of(ids)
        matches = [recorded[match] for match in ids]
        judgements = recorder.judgements(
            f"judge/{self._judge.name}/{record_id(*ids)}",
            self._judge,
            JudgeContext(
                game=config.game,
                seed=seeds.child(config.seed, "bench", 0),
                pool=[PlayerId(name) for name in (TEACHER, *config.players)],
                ratings={},
                resources=population.resources,
                actor=population.actor,
            ),
            matches,
            {prompt.id: prompt for prompt in self.prompts},
            0,
        )
        population.release()
        return list(zip(matches, judgements, strict=True))

    def kept(self, judged: Sequence[JudgedMatch], least: float) -> list[Trace]:
        """The best match on each prompt, of those worth `least` or more; every move of the teacher
        in it is a trace.

        A match that the judge calls malformed (its utility `format` is below 1) is left out. Of
        equals the first is kept. Raises DataError where no match is good enough.
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
        """Every match as plain JSON values: its prompt, what was written, its utilities or why it
        has none.
        """
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
        """The teacher's."""
        role = self._config.game.role
        return [turn for turn in match.turns if role(turn.seat) == self._role]


def write_traces(traces: Sequence[Trace], file: Path) -> None:
    """One JSON line a trace; the file appears whole or not at all."""
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("w", encoding="utf-8") as lines:
        for trace in traces:
            lines.write(json.dumps(trace.row(), ensure_ascii=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())
    draft.replace(file)
