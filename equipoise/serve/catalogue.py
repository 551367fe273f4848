"""A server's models by name, with their engines: a run's players, a mixture, or one model."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Self

from equipoise import seeds
from equipoise.component import nearest
from equipoise.errors import RunError
from equipoise.evaluation.measures import Measures
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.players.population import Population
from equipoise.runs.directory import RunDirectory
from equipoise.serve.engine import (
    Engine,
    EngineRequest,
    Extension,
    ExtensionRequest,
    Refused,
    TextEngine,
)
from equipoise.serve.protocol import SAMPLING, Problem
from equipoise.types import PlayerId

MIXTURE = "mixture"


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that a server has: its player, and where its weights lie (None: the player's own)."""

    player: Local
    weights: Path | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that answers: its name, its engine, and the settings that a client leaves open."""

    name: str
    engine: Engine
    defaults: EngineRequest

    @property
    def text_engine(self) -> TextEngine:
        """The engine of a model without extensions, which goes on with texts too."""
        assert isinstance(self.engine, TextEngine), self.engine
        return self.engine


@dataclass
class Catalogue:
    """Models by name.

    `aliases` are further names; `mixture` weighs models that the name `mixture` draws from. Each of
    `extensions`, by the field of requests, puts an engine in front of the model's; the first can
    also be asked for by a name's suffix (`policy@3:SUFFIX`). `notes` say what is not served, and
    why.
    """

    offers: Mapping[str, OfferedModel]
    aliases: Mapping[str, str] = field(default_factory=dict)
    mixture: Mapping[str, float] = field(default_factory=dict)
    extensions: Mapping[str, Extension] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self._resources = Resources()
        self._open: dict[str, Engine] = {}
        self._lock = asyncio.Lock()

    @classmethod
    def of_run(
        cls,
        folder: Path,
        change: Callable[[Player], Player] = lambda player: player,
        extensions: Mapping[str, Extension] | None = None,
        trust: bool = False,
    ) -> Self:
        """Every kept generation of a run's players with a model, and the run's last equilibrium.

        `change` gives a player other settings. Raises RunError where there is none, and for
        somebody else's run that has effects, without `trust`.
        """
        with RunDirectory.read(folder) as run:
            reached = run.agree_without_parts(trust)
            players = {name: change(player) for name, player in run.players_anywhere().items()}
            population = Population(players, run.folder.resolve() / "players")
            measured = run.ledger.stages("measure")
        offers: dict[str, OfferedModel] = {}
        notes = list(reached)
        for name, player in players.items():
            if not isinstance(player, Local):
                notes.append(not_served(name, player))
                continue
            for generation in population.kept(name):
                identity = PlayerId(name, generation)
                offers[str(identity)] = OfferedModel(player, population.weights(identity))
        if not offers:
            raise RunError(
                f"{folder}: no player of this run is a language model here; there is nothing to "
                "serve"
            )
        mixture = _mixture(Measures.read(measured[-1][3])) if measured else {}
        missing = sorted(set(mixture) - set(offers))
        if missing:
            notes.append(
                f"the mixture is not served: {', '.join(missing)} is not kept, or no language "
                "model here"
            )
            mixture = {}
        newest = {PlayerId.parse(name).name: name for name in offers}
        return cls(offers, newest, mixture, extensions or {}, tuple(notes))

    @classmethod
    def of_player(
        cls, name: str, player: Local, extensions: Mapping[str, Extension] | None = None
    ) -> Self:
        """One model alone."""
        offers = {name: OfferedModel(player, player.start)}
        return cls(offers, extensions=extensions or {})

    @property
    def names(self) -> list[str]:
        """All names, without those that have a suffix."""
        names = [*self.offers]
        names += [name for name in self.aliases if name not in self.offers]
        if self._offers_mixture():
            names.append(MIXTURE)
        return names

    @property
    def default(self) -> str:
        """The newest model."""
        return list(self.offers)[-1]

    def warm(self) -> None:
        """Open the newest model, so that faults show before the first request. Raises UserError."""
        self._engine(self.default)

    async def find(
        self, model: str, seed: int, requests: Mapping[str, ExtensionRequest] | None = None
    ) -> ServedModel:
        """The model for this seed, with what is asked of extensions. Raises Problem (404), Refused.

        A known name that has a colon is a name without a suffix.
        """
        name = model
        colon = ""
        suffix = ""
        if ":" in model and model not in self.names:
            name, colon, suffix = model.rpartition(":")
        if colon and not self.extensions:
            raise self.unknown(model)
        name, engine = await self._open_engine(name, seed, model)
        return ServedModel(
            f"{name}{colon}{suffix}",
            self._extend(engine, suffix, requests or {}),
            _defaults(self.offers[name].player),
        )

    async def find_text(self, model: str, seed: int) -> ServedModel:
        """The model that goes on with a text, without extensions. Raises Problem (404)."""
        name, engine = await self._open_engine(model, seed, model)
        return ServedModel(name, engine, _defaults(self.offers[name].player))

    def unknown(self, model: str) -> Problem:
        """The answer to a request for a model that is not there."""
        hint = nearest(model[:100], self.names)
        return Problem(
            404, f"there is no model '{model[:100]}' here; {hint}", "model_not_found", "model"
        )

    async def close(self) -> None:
        """Close every engine."""
        for engine in self._open.values():
            await engine.close()
        self._open.clear()
        self._resources.clear()

    async def _open_engine(self, name: str, seed: int, model: str) -> tuple[str, Engine]:
        """The name of a model and its engine, which is opened at its first use."""
        if name == MIXTURE and self._offers_mixture():
            names = list(self.mixture)
            sums = list(accumulate(self.mixture.values()))
            number = seeds.generator(seed, MIXTURE).random()
            drawn = bisect_right(sums, number * sums[-1])
            name = names[min(drawn, len(names) - 1)]
        if name not in self.offers:
            name = self.aliases.get(name, name)
        if name not in self.offers:
            raise self.unknown(model)
        engine = self._open.get(name)
        if engine is None:
            async with self._lock:
                engine = await asyncio.to_thread(self._engine, name)
        return name, engine

    def _offers_mixture(self) -> bool:
        is_taken = MIXTURE in self.offers or MIXTURE in self.aliases
        return bool(self.mixture) and not is_taken

    def _engine(self, name: str) -> Engine:
        if name not in self._open:
            from equipoise.serve.local_engine import LocalEngine

            offer = self.offers[name]
            self._open[name] = LocalEngine(offer.player, offer.weights, self._resources)
        return self._open[name]

    def _extend(
        self, engine: Engine, suffix: str, requests: Mapping[str, ExtensionRequest]
    ) -> Engine:
        """The engine behind what a client asks of extensions, the first perhaps by a suffix."""
        for field_name, request in requests.items():
            if request.value is not None and field_name not in self.extensions:
                message = f"'{field_name}' is not supported by this server"
                raise Refused(message, "unsupported_value", field_name)
        for field_name, extension in self.extensions.items():
            request = requests.get(field_name, ExtensionRequest())
            if not suffix:
                engine = extension.wrap(engine, request.value, report=request.report)
                continue
            if request.value is not None:
                raise Refused(
                    f"'{field_name}' is asked for by the model's name or by the field, not by both",
                    param=field_name,
                )
            try:
                engine = extension.wrap(engine, suffix, report=request.report)
            except Refused as error:
                raise Problem(404, str(error), "model_not_found", "model") from error
            suffix = ""
        return engine


def not_served(name: str, player: Player) -> str:
    """Say why a player of a run is not served."""
    if isinstance(player, Endpoint):
        return f"{name} is not served: another server has it; ask {player.base_url} yourself"
    return f"{name} is not served: its kind is {player.kind}, which is no language model"


def _mixture(measures: Measures) -> dict[str, float]:
    weights: dict[str, float] = {}
    for name, weight in measures.mixture.items():
        if weight > 0:
            weights[str(PlayerId.parse(name))] = weight
    return weights


def _defaults(player: Local) -> EngineRequest:
    """The sampling of a player where the client does not say: as in its run."""
    sampling = {name: getattr(player, name) for name in SAMPLING}
    return EngineRequest((), max_tokens=player.max_new_tokens, **sampling)
