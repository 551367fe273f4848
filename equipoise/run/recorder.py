"""Plays and judges, and records both: what is recorded is not done again, and it is
recorded in whole chunks.

What a stage computes is a pure function of the configuration and the records before it.
The composition of the chunks never changes, so a run that was killed and resumed ends
with the same records and numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned, Seatings
from equipoise.matches.play import play
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.population import Population
from equipoise.run.directory import Run
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, View, record_id


class Monitor(Protocol):
    """Whoever watches the run: a terminal, or nobody."""

    def stage(
        self, name: str, total: int | None = None, generation: int | None = None
    ) -> None:
        """A stage of a generation begins; `total` is how many steps it has."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done."""
        ...

    def numbers(self, **named: Any) -> None:
        """The numbers that matter have changed."""
        ...


@dataclass(frozen=True)
class Seat:
    """A judge's bench in a run: the pool and its ratings as they are, and the run's
    players to ask.
    """

    game: Game
    seed: int
    pool: Sequence[PlayerId]
    ratings: Mapping[str, float]
    population: Population

    @property
    def resources(self) -> Resources:
        """What is open in the run."""
        return self.population.resources

    def ask(
        self, who: Player | PlayerId, views: Sequence[View], seeds: Sequence[int]
    ) -> list[Move]:
        """One move a view."""
        return self.population.actor(who).act(views, seeds)


class Recorder:
    """The ledger's pen: stages, matches and judgements of one run."""

    def __init__(self, run: Run, monitor: Monitor, population: Population) -> None:
        self.config, self.ledger, self.monitor, self.population = (
            run.config,
            run.ledger,
            monitor,
            population,
        )

    @contextmanager
    def stage(self, name: str, key: str, t: int) -> Iterator[dict[str, Any]]:
        """Time a stage and mark it finished under `key` with the facts that it
        gathered.
        """
        started, facts = time.perf_counter(), {}
        yield facts
        self.ledger.finish(key, t, name, facts, time.perf_counter() - started)

    def titled(self, stage: str, who: str) -> str:
        """What a watcher calls a stage: with whose it is, where the run has several
        players.
        """
        return f"{stage} {who}" if who and len(self.config.players) > 1 else stage

    def matches(
        self, key: str, seatings: Seatings, t: int, part: str, who: str = ""
    ) -> list[Match]:
        """Play what is not recorded yet, a chunk at a time, and return all matches of
        `key` in order.

        `who`: the one player of all the seats, if there is only one.
        """
        planned = [
            self._planned(i, prompt, seats, t, part)
            for i, (prompt, seats) in enumerate(seatings)
        ]
        size = self.config.commit_every
        chunks = [
            planned[start : start + size] for start in range(0, len(planned), size)
        ]
        if self.ledger.finished(key) is None:
            stage = "play" if part == "train" else f"play {part.replace('_', '-')}"
            self.monitor.stage(self.titled(stage, who), len(planned), t)
            with self.stage("play", key, t) as facts:
                known = self.ledger.known("matches", [plan.id for plan in planned])
                for chunk in chunks:
                    if not all(plan.id in known for plan in chunk):
                        started = time.perf_counter()
                        matches = play(chunk, self.config.game, self._act)
                        self.ledger.add_matches(matches)
                        tokens = sum(
                            turn.move.tokens
                            for match in matches
                            for turn in match.turns
                        )
                        if tokens:
                            self.monitor.numbers(
                                tokens_per_second=tokens
                                / (time.perf_counter() - started)
                            )
                    self.monitor.advance(len(chunk))
                facts.update(matches=len(planned))
        found = self.ledger.matches_of(plan.id for plan in planned)
        return [found[plan.id] for plan in planned]

    def _planned(
        self, i: int, prompt: Prompt, seats: dict[str, PlayerId], t: int, part: str
    ) -> Planned:
        who = ",".join(f"{seat}={player}" for seat, player in seats.items())
        identity = record_id("match", self.config.seed, part, t, i, prompt.id, who)
        return Planned(
            identity,
            t,
            part,
            prompt,
            seats,
            seeds.child(self.config.seed, "match", identity),
        )

    def _act(self, player: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
        return self.population.actor(player).act(views, dice)

    def judgements(
        self,
        key: str,
        judge: Judge,
        judge_context: JudgeContext,
        matches: Sequence[Match],
        prompts: Mapping[str, Prompt],
        t: int,
        who: str = "",
    ) -> list[Judgement]:
        """The judge's word on each of the matches; raises NoSignal when too many of
        them say nothing.
        """
        ids = [match.id for match in matches]
        found = self.ledger.judgements_of(ids, judge.name)
        if self.ledger.finished(key) is None:
            self.monitor.stage(self.titled("judge", who), len(matches), t)
            seated = judge.at(judge_context)
            with self.stage("judge", key, t) as facts:
                for start in range(0, len(matches), self.config.commit_every):
                    chunk = matches[start : start + self.config.commit_every]
                    if not all(match.id in found for match in chunk):
                        self.ledger.add_judgements(
                            zip(chunk, seated.verdicts(chunk, prompts), strict=True)
                        )
                    self.monitor.advance(len(chunk))
                found = self.ledger.judgements_of(ids, judge.name)
                facts.update(self._unjudged(judge, matches, found))
        return [found[match.id] for match in matches]

    def _unjudged(
        self, judge: Judge, matches: Sequence[Match], found: Mapping[str, Judgement]
    ) -> dict[str, Any]:
        """Count the seats without a score; raise NoSignal when they are too many."""
        utility, missing, seats, reasons = self.config.utility, 0, 0, Counter()
        for match in matches:
            judgement = found[match.id]
            absent = match.seats.keys() - judgement.by_seat(utility).keys()
            seats += len(match.seats)
            missing += len(absent)
            if absent:
                reasons[judgement.reason or "no score for a seat"] += 1
        share = missing / max(1, seats)
        self.monitor.numbers(unjudged_share=share)
        if share > self.config.max_unjudged:
            why = "; ".join(
                f"{count} × {reason}" for reason, count in reasons.most_common(2)
            )
            why += f"; and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
            raise NoSignal(
                f"judge '{judge.kind}': {share:.0%} of {seats} answers have no '{utility}' score, more than "
                f"max_unjudged = {self.config.max_unjudged:.0%}. {why}"
            )
        return {
            "judge": judge.name,
            "answers": seats,
            "unjudged_share": share,
            "reasons": dict(reasons),
        }
