"""An open run: its directory, who watches it, its workers, and the services that stages share.

Everything that a run is made of is assembled here, each service when it is first asked for. The
stages of the loop, evaluations, cold starts and re-judging all take this one record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from equipoise.learners.process_group import StandingGroup
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.population import Population
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.runs.earlier_texts import EarlierTexts
from equipoise.runs.executors.dispatcher import Dispatcher
from equipoise.runs.executors.worker_pool import WorkerPool
from equipoise.runs.live_learners import LiveLearners
from equipoise.runs.monitor import Monitor, Observer, Silent
from equipoise.runs.prompt_splits import PromptSplits
from equipoise.runs.roster import Roster
from equipoise.runs.stage_clock import StageClock
from equipoise.types import PlayerId

Service = TypeVar("Service")


@dataclass(frozen=True)
class OpenRun:
    """A run open to be played or measured; a context manager that closes what it opened.

    `workers`: None: this process works. `extra_players`: players beside the configured ones, by
    name. `observers` follow what is recorded.
    """

    directory: RunDirectory
    monitor: Monitor = field(default_factory=Silent)
    workers: WorkerPool | None = None
    extra_players: Mapping[str, Player] = field(default_factory=dict)
    observers: Sequence[Observer] = ()

    @property
    def config(self) -> RunConfig:
        """The run's settings."""
        return self.directory.config

    @property
    def ledger(self) -> Ledger:
        """The run's records."""
        return self.directory.ledger

    # -- services, made when they are first asked for

    @cached_property
    def roster(self) -> Roster:
        """The players present at each generation."""
        return Roster(self.config, self.ledger)

    @cached_property
    def prompts(self) -> PromptSplits:
        """The prompts, split into parts at their first use."""
        return PromptSplits(self.config, self.ledger, self.stage, self.monitor)

    @cached_property
    def earlier_texts(self) -> EarlierTexts:
        """The texts of earlier generations."""
        return EarlierTexts(self.config, self.ledger)

    @cached_property
    def resources(self) -> Resources:
        """Opened models and kept replies, shared by players, judges and learners."""
        addresses = self.directory.first_addresses()
        return Resources(self.ledger, self.config.unit_rows, addresses)

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Cuts model work into units, for the workers or for this process."""
        if self.workers is not None:
            self.workers.on_loss = lambda message: self.monitor.numbers(worker_lost=message)
        return Dispatcher(self.workers, self.config.unit_rows)

    @cached_property
    def standing(self) -> StandingGroup:
        """The processes of `learner.launch` that train by pairs, from generation to generation."""
        return StandingGroup()

    @cached_property
    def live(self) -> LiveLearners:
        """The learners that stay in memory between generations."""
        files = self.directory.files
        return LiveLearners(self.config, self.ledger, files, self.resources, self.monitor)

    @cached_property
    def population(self) -> Population:
        """The players at all their generations, opened on demand."""
        return Population(
            {**self._players(), **self.extra_players},
            self.directory.folder / "players",
            resources=self.resources,
            live=self.live.actor,
            open_actor=self.dispatcher.open,
        )

    def _players(self) -> dict[str, Player]:
        players = self.config.playing
        return {name: self.directory.from_anywhere(each) for name, each in players.items()}

    @cached_property
    def stage(self) -> StageClock:
        """Times stages and marks them finished: `with run.stage("play", key, t) as facts:`."""
        return StageClock(self.ledger)

    @cached_property
    def newest_at_start(self) -> dict[str, PlayerId]:
        """Name -> the newest generation recorded when this process first asked."""
        return {birth.player.name: birth.player for birth in self.ledger.players()}

    @cached_property
    def _services(self) -> dict[Callable[[Any], Any], Any]:
        return {}

    def service(self, make: Callable[[OpenRun], Service]) -> Service:
        """The one `make(run)` of this run, made at its first use, for what stages share."""
        if make not in self._services:
            self._services[make] = make(self)
        return self._services[make]

    # -- for whoever watches

    def show(
        self, stage: str, total: int | None = None, t: int | None = None, player: str = ""
    ) -> None:
        """Tell the monitor which stage begins, of which player where the run has several."""
        several = len(self.config.players) > 1
        title = f"{stage} {player}" if player and several else stage
        self.monitor.stage(title, total, t)

    # -- its end

    def close(self) -> None:
        """Close learners in memory, processes that train, and players."""
        if "standing" in vars(self):
            self.standing.close()
        if "live" in vars(self):
            self.live.close()
        if "population" in vars(self):
            self.population.release()

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
