"""Plays and judges, and records both: what is recorded is not done again, and it is recorded in
whole chunks.

What a stage computes is a pure function of the configuration and the records before it. The
composition of the chunks never changes, so a run that was killed and resumed ends with the same
records and numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned, Seatings
from equipoise.matches.play import Act, play
from equipoise.players.base import SampledElsewhere
from equipoise.players.population import Population
from equipoise.players.together import Request
from equipoise.runs.config import RunConfig
from equipoise.runs.executors.sharing import Sharing
from equipoise.runs.ledger import WITHIN, Ledger
from equipoise.runs.monitor import Monitor
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, View, record_id

T = TypeVar("T")


@dataclass
class _OpenStage:
    """A stage under way, and the seconds of the stages that ended inside it."""

    name: str
    inside: float = 0.0


class Recorder:
    """Writes the stages, matches and judgements of one run."""

    def __init__(
        self,
        config: RunConfig,
        ledger: Ledger,
        population: Population,
        monitor: Monitor,
        sharing: Sharing | None = None,
    ) -> None:
        """`sharing`: who does the judges' model work; None: this process."""
        self._sharing = sharing or Sharing(None, config.unit_rows)
        self._config = config
        self._ledger = ledger
        self._population = population
        self._monitor = monitor
        self._elsewhere: dict[str, SampledElsewhere] = {}
        self._open: list[_OpenStage] = []  # the stages under way, the outermost first

    @contextmanager
    def stage(self, name: str, key: str, t: int, before: float = 0.0) -> Iterator[dict[str, Any]]:
        """Time a stage and mark it finished under `key`, with the facts that are put into the dict.

        The seconds are its own: a stage inside it has its own, and names it. `before`: seconds that
        were spent on it already.
        """
        outer = self._open[-1] if self._open else None
        stage = _OpenStage(name)
        self._open.append(stage)
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        try:
            yield facts
        finally:
            self._open.pop()
        seconds = time.perf_counter() - started
        if outer is not None:
            outer.inside += seconds
            facts[WITHIN] = outer.name
        self._ledger.finish(key, t, name, facts, before + seconds - stage.inside)

    def title(self, stage: str, player: str) -> str:
        """What a monitor calls a stage: with the player's name, where the run has several."""
        several = len(self._config.players) > 1
        return f"{stage} {player}" if player and several else stage

    # -- matches

    def matches(
        self, key: str, seatings: Seatings, t: int, part: str, player: str = ""
    ) -> list[Match]:
        """Play what is not recorded yet, a chunk at a time, and return all matches of `key` in
        order.

        `player`: the name of the only player in all the seats, if there is only one.
        """
        planned = [
            self._planned(i, prompt, seats, t, part) for i, (prompt, seats) in enumerate(seatings)
        ]
        if self._ledger.finished(key) is None:
            title = "play" if part == "train" else f"play {part.replace('_', '-')}"
            self._monitor.stage(self.title(title, player), len(planned), t)
            with self.stage("play", key, t) as facts:
                self.play(planned)
                facts.update(matches=len(planned), **self._sampler_facts())
        recorded = self._ledger.matches_of(plan.id for plan in planned)
        return [recorded[plan.id] for plan in planned]

    def _planned(
        self, i: int, prompt: Prompt, seats: dict[str, PlayerId], t: int, part: str
    ) -> Planned:
        seed = self._config.seed
        seating = ",".join(f"{seat}={player}" for seat, player in seats.items())
        identity = record_id("match", seed, part, t, i, prompt.id, seating)
        dice = seeds.child(seed, "match", identity)
        return Planned(identity, t, part, prompt, seats, dice)

    def play(
        self, planned: Sequence[Planned], game: Game | None = None, act: Act | None = None
    ) -> None:
        """Play those that are not recorded yet, in whole chunks.

        None for `game` and `act`: the run's game, by the players as they are.
        """
        game = game or self._config.game
        together = None if act else self._act_together
        known = self._ledger.known("matches", [plan.id for plan in planned])
        for chunk in chunks(planned, self._config.commit_every):
            if not all(plan.id in known for plan in chunk):
                started = time.perf_counter()
                matches = play(chunk, game, act or self._act, together)
                self._ledger.add_matches(matches)
                self._show_speed(matches, time.perf_counter() - started)
            self._monitor.advance(len(chunk))

    def _act(self, player: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
        return self._population.actor(player).act(views, dice)

    def _act_together(
        self, turns: list[tuple[PlayerId, list[View], list[int]]]
    ) -> list[list[Move]]:
        requests = []
        for player, views, dice in turns:
            actor = self._population.actor(player)
            if isinstance(actor, SampledElsewhere):
                self._elsewhere[str(player)] = actor
            requests.append(Request(actor, views, dice))
        return self._sharing.act(requests)

    def _sampler_facts(self) -> dict[str, Any]:
        """Which engines answered for whom since the last stage."""
        facts = {name: actor.sampler_facts() for name, actor in self._elsewhere.items()}
        self._elsewhere.clear()
        return {"samplers": facts} if facts else {}

    def _show_speed(self, matches: Sequence[Match], seconds: float) -> None:
        tokens = sum(turn.move.tokens for match in matches for turn in match.turns)
        if tokens:
            self._monitor.numbers(tokens_per_second=tokens / seconds)

    # -- judgements

    def judgements(
        self,
        key: str,
        judge: Judge,
        judge_context: JudgeContext,
        matches: Sequence[Match],
        prompts: Mapping[str, Prompt],
        t: int,
        player: str = "",
    ) -> list[Judgement]:
        """The judge's judgement of each match, made and recorded where there is none yet.

        Raises NoSignal when too many of them have no score.
        """
        ids = [match.id for match in matches]
        if self._ledger.finished(key) is None:
            self._monitor.stage(self.title("judge", player), len(matches), t)
            judge_here = judge.at(judge_context)
            with self.stage("judge", key, t) as facts:
                self.judge(judge_here, matches, prompts)
                recorded = self._ledger.judgements_of(ids, judge.name)
                facts.update(self._unjudged(judge, matches, recorded))
        recorded = self._ledger.judgements_of(ids, judge.name)
        return [recorded[match.id] for match in matches]

    def judge(self, judge: Judge, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> None:
        """Judge what is not recorded yet, in whole chunks; `judge` is in its context."""
        recorded = self._ledger.judgements_of([m.id for m in matches], judge.name)
        for chunk in chunks(matches, self._config.commit_every):
            if not all(match.id in recorded for match in chunk):
                made = self._sharing.judge(judge, chunk, prompts)
                self._ledger.add_judgements(zip(chunk, made, strict=True))
            self._monitor.advance(len(chunk))

    def _unjudged(
        self, judge: Judge, matches: Sequence[Match], judgements: Mapping[str, Judgement]
    ) -> dict[str, Any]:
        """Count the seats without a score; raise NoSignal when they are too many."""
        utility = self._config.utility
        missing = 0
        seats = 0
        reasons = Counter()
        for match in matches:
            judgement = judgements[match.id]
            absent = match.seats.keys() - judgement.by_seat(utility).keys()
            seats += len(match.seats)
            missing += len(absent)
            if absent:
                reasons[judgement.reason or "no score for a seat"] += 1
        share = missing / max(1, seats)
        self._monitor.numbers(unjudged_share=share)
        if share > self._config.max_unjudged:
            raise NoSignal(
                f"judge '{judge.kind}': {share:.0%} of {seats} answers have no "
                f"'{utility}' score, more than max_unjudged = "
                f"{self._config.max_unjudged:.0%}. {most_common(reasons)}"
            )
        return {
            "judge": judge.name,
            "answers": seats,
            "unjudged_share": share,
            "reasons": dict(reasons),
        }


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The values in order, `size` at a time."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def most_common(reasons: Mapping[str, int]) -> str:
    """The two most common reasons, with their counts, and how many others there are."""
    counted = Counter(reasons).most_common(2)
    text = "; ".join(f"{count} × {reason}" for reason, count in counted)
    more = len(reasons) - len(counted)
    return f"{text}; and {more} other reasons" if more else text
