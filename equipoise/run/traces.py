"""Traces for a cold start: a teacher plays the learner's part, several times a prompt,
and the best plays are kept.

Everything that was played and judged stands in a ledger, in whole chunks: who asks
again after a crash gets what was there, pays for nothing twice, and goes on.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from equipoise import seeds
from equipoise.errors import ConfigError, DataError
from equipoise.judges.base import Judge
from equipoise.matches.base import Planned
from equipoise.matches.play import play
from equipoise.matches.roles import Roles
from equipoise.players.base import Player
from equipoise.players.population import Population
from equipoise.prompts.split import dealt
from equipoise.run.config import RunConfig
from equipoise.run.directory import Run
from equipoise.run.ledger import Ledger
from equipoise.run.recorder import Monitor, Recorder, Seat
from equipoise.types import Judgement, Match, Message, PlayerId, Turn, record_id

TEACHER = "teacher"


@dataclass(frozen=True)
class Trace:
    """What a learner is to write when it is asked `messages`, and what the judge said
    of the match that it is from.
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


class Lessons:
    """The teacher's matches on a configuration's training prompts; its held-out and
    test prompts stay untouched.
    """

    def __init__(
        self,
        config: RunConfig,
        teacher: Player,
        candidates: int,
        count: int | None = None,
    ) -> None:
        """`candidates` plays on each of the first `count` prompts (None: on all).

        Raises ConfigError for a schedule without roles, or with more than one player
        that learns.
        """
        if not isinstance(config.schedule, Roles) or len(config.learning) != 1:
            raise ConfigError(
                "traces: need a recipe with schedule: roles and one player that learns, such as gtalign"
            )
        self.config, self.teacher, self.candidates = config, teacher, candidates
        (name,) = config.learning
        self.role = next(
            role for role, player in config.schedule.roles.items() if player == name
        )
        self.judge: Judge = config.judge_of(name)
        parts = dealt(config.prompts, config.generations, config.seed).parts
        every = {prompt.id: prompt for part in parts for prompt in part}
        self.prompts = list(every.values())[:count]
        self._sources = {prompt.id: prompt.source for prompt in self.prompts}
        self._seats = {
            role: PlayerId(player) for role, player in config.schedule.roles.items()
        }
        self._seats[self.role] = PlayerId(TEACHER)

    def planned(self) -> list[Planned]:
        """Every match; its identity knows the teacher's settings, so that another
        teacher's plays are others.
        """
        game, seed = self.config.game, self.config.seed
        makings = (self.teacher.model_dump_json(), game.model_dump_json())
        found = []
        for prompt in self.prompts:
            seats = {
                seat: self._seats[game.role(seat)] for seat in game.seats_for(prompt)
            }
            for candidate in range(self.candidates):
                identity = record_id("trace", seed, prompt.id, candidate, *makings)
                dice = seeds.child(seed, "trace", prompt.id, candidate)
                found.append(Planned(identity, 0, "train", prompt, seats, dice))
        return found

    def played(
        self, ledger: Ledger, folder: Path, monitor: Monitor
    ) -> list[tuple[Match, Judgement]]:
        """Every match with the judge's word on it, recorded in `ledger`. Raises
        NoSignal where too few were judged.
        """
        planned, chunk = self.planned(), self.config.commit_every
        players = {**self.config.players, TEACHER: self.teacher}
        population = Population(players, folder, ledger)
        pool = [PlayerId(TEACHER), *(PlayerId(name) for name in self.config.players)]
        seat = Seat(
            self.config.game,
            seeds.child(self.config.seed, "bench", 0),
            pool,
            {},
            population,
        )
        ledger.add_prompts(self.prompts, "train", 0)
        monitor.stage("traces", len(planned), 0)
        for start in range(0, len(planned), chunk):
            plans = planned[start : start + chunk]
            ids = [plan.id for plan in plans]
            if len(ledger.known("matches", ids)) < len(plans):
                act = lambda who, views, dice: population.actor(who).act(views, dice)  # noqa: E731
                ledger.add_matches(play(plans, self.config.game, act))
            monitor.advance(len(plans))
        ids = [plan.id for plan in planned]
        found = ledger.matches_of(ids)
        matches, prompts = (
            [found[name] for name in ids],
            {prompt.id: prompt for prompt in self.prompts},
        )
        recorder = Recorder(Run(folder, self.config, ledger), monitor, population)
        judgements = recorder.judgements(
            f"judge/{self.judge.name}/{record_id(*ids)}",
            self.judge,
            seat,
            matches,
            prompts,
            0,
        )
        population.release()
        return list(zip(matches, judgements, strict=True))

    def _scores(self, match: Match, judgement: Judgement) -> dict[str, float] | None:
        """The utilities of the teacher's seat, or None where it was not judged."""
        seats = [
            seat for seat in match.seats if self.config.game.role(seat) == self.role
        ]
        found = judgement.utilities(seats[0])
        return found if self.config.utility in found else None

    def kept(self, met: Sequence[tuple[Match, Judgement]], least: float) -> list[Trace]:
        """The best play on each prompt, of those worth `least` or more; every move of
        the teacher in it is a trace.

        A play that the judge calls malformed (its utility `format` is below 1) is none.
        Of equals the first. Raises DataError where no play is good enough.
        """
        by_prompt: dict[str, list[tuple[float, Match, dict[str, float]]]] = defaultdict(
            list
        )
        formed = 0
        for match, judgement in met:
            scores = self._scores(match, judgement)
            if scores is None or scores.get("format", 1.0) < 1.0:
                continue
            formed += 1
            if scores[self.config.utility] >= least:
                by_prompt[match.prompt].append(
                    (scores[self.config.utility], match, scores)
                )
        if not by_prompt:
            raise DataError(
                f"traces: none of {len(met)} is good enough: {formed} are well formed, and --least is {least:g}; look "
                "at what the teacher writes in candidates.jsonl"
            )
        return [
            Trace(
                turn.view.messages, turn.move.text, self._sources[prompt], dict(scores)
            )
            for prompt, found in by_prompt.items()
            for _, match, scores in [max(found, key=lambda one: one[0])]
            for turn in self._moves(match)
            if turn.move.text.strip()
        ]

    def plays(self, met: Sequence[tuple[Match, Judgement]]) -> list[dict[str, Any]]:
        """Every play as plain JSON values: its prompt, what was written, its utilities
        or why it has none.
        """
        prompts = {
            prompt.id: msgspec.to_builtins(prompt.messages) for prompt in self.prompts
        }
        return [
            {
                "prompt": prompts[match.prompt],
                "written": [
                    turn.move.text or turn.move.error for turn in self._moves(match)
                ],
                "scores": self._scores(match, judgement),
                "reason": judgement.reason,
            }
            for match, judgement in met
        ]

    def _moves(self, match: Match) -> list[Turn]:
        """The teacher's."""
        return [
            turn
            for turn in match.turns
            if self.config.game.role(turn.seat) == self.role
        ]


def write_traces(traces: Sequence[Trace], file: Path) -> None:
    """One JSON line a trace; the file appears whole or not at all."""
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("w", encoding="utf-8") as lines:
        for trace in traces:
            lines.write(json.dumps(trace.row(), ensure_ascii=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())
    draft.replace(file)
