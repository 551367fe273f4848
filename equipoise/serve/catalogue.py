"""A server's models by name, with their engines: a run's players, a mixture, or one model."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Self, TypeAlias

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
    EmbeddingEngine,
    Engine,
    EngineRequest,
    Extension,
    Refused,
    TextEngine,
    Wish,
    extension_offers,
)
from equipoise.serve.protocol import Problem
from equipoise.types import PlayerId

MIXTURE = "mixture"
# Settings of sampling that an endpoint's player has not.
LOCAL_ONLY = ("top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
ModelPlayer: TypeAlias = "Local | Endpoint"


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that a server has: its player, and where its weights lie (None: the player's own)."""

    player: ModelPlayer
    weights: Path | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that answers: its name, its engine, and the settings that a client leaves open."""

    name: str
    engine: Engine
    defaults: EngineRequest

    @property
    def text_engine(self) -> TextEngine:
        """The engine, which goes on with texts too. Raises Refused where it does not."""
        if not isinstance(self.engine, TextEngine):
            raise Refused(
                f"{self.name} answers chats only: its tokens are another server's",
                "unsupported_value",
                "model",
            )
        return self.engine

    @property
    def embedding_engine(self) -> EmbeddingEngine:
        """The engine, which makes vectors of texts too. Raises Refused where it does not."""
        if not isinstance(self.engine, EmbeddingEngine):
            raise Refused(
                f"{self.name} is a language model and makes no embeddings: ask an embedding model "
                "behind an endpoint",
                "unsupported_value",
                "model",
            )
        return self.engine


@dataclass
class Catalogue:
    """Models by name.

    `aliases` are further names; `mixture` weighs models that the name `mixture` draws from. Each of
    `extensions`, by the field of requests, puts an engine in front of the model's; a wish of the
    first can also be a name's suffix (`policy@3:WISH`). `notes` say what is not served, and why.
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
            offers = _offers(Population(players, run.folder.resolve() / "players"), players)
            measured = run.ledger.stages("measure")
        if not offers:
            raise RunError(
                f"{folder}: no player of this run is a language model; there is nothing to serve"
            )
        notes = list(reached)
        notes += [
            f"{name} is not served: its kind is {player.kind}, which is no language model"
            for name, player in players.items()
            if not isinstance(player, Local | Endpoint)
        ]
        mixture = _mixture(Measures.read(measured[-1][3])) if measured else {}
        missing = sorted(set(mixture) - set(offers))
        if missing:
            notes.append(
                f"the mixture is not served: {', '.join(missing)} is not kept, or no language model"
            )
            mixture = {}
        newest = {PlayerId.parse(name).name: name for name in offers}
        return cls(offers, newest, mixture, extensions or {}, tuple(notes))

    @classmethod
    def of_player(
        cls, name: str, player: ModelPlayer, extensions: Mapping[str, Extension] | None = None
    ) -> Self:
        """One model alone."""
        offers = {name: OfferedModel(player, player.start)}
        return cls(offers, extensions=extensions or {})

    @property
    def names(self) -> list[str]:
        """All names, without those that have a suffix."""
        aliases = [name for name in self.aliases if name not in self.offers]
        return [*self.offers, *aliases, *self._mixture_names()]

    @property
    def default(self) -> str:
        """The newest model."""
        return list(self.offers)[-1]

    def warm(self) -> None:
        """Open the newest model, so that faults show before the first request. Raises UserError."""
        self._engine(self.default)

    async def find(
        self, model: str, seed: int, wishes: Mapping[str, Wish] | None = None
    ) -> ServedModel:
        """The model for this seed and these wishes. Raises Problem (404), Refused."""
        name, colon, suffix = self._split_name(model)
        if colon and not self.extensions:
            raise self.unknown(model)
        name, engine = await self._open_engine(name, seed, model)
        return ServedModel(
            f"{name}{colon}{suffix}",
            self._extend(engine, suffix, wishes or {}),
            _defaults(self.offers[name].player),
        )

    async def find_text(self, model: str, seed: int) -> ServedModel:
        """The model that goes on with a text, without extensions. Raises Problem (404)."""
        name, engine = await self._open_engine(model, seed, model)
        return ServedModel(name, engine, _defaults(self.offers[name].player))

    async def _open_engine(self, name: str, seed: int, model: str) -> tuple[str, Engine]:
        """The name of a model and its engine, which is opened at its first use."""
        if name in self._mixture_names():
            name = self._draw(seed)
        name = name if name in self.offers else self.aliases.get(name, name)
        if name not in self.offers:
            raise self.unknown(model)
        engine = self._open.get(name)
        if engine is None:
            async with self._lock:
                engine = await asyncio.to_thread(self._engine, name)
        return name, engine

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

    def _mixture_names(self) -> list[str]:
        taken = {*self.offers, *self.aliases}
        return [MIXTURE] if self.mixture and MIXTURE not in taken else []

    def _split_name(self, model: str) -> tuple[str, str, str]:
        """(name, colon, suffix) of a model's name; a known name that has a colon is a name."""
        if model in self.names:
            return model, "", ""
        return model.rpartition(":") if ":" in model else (model, "", "")

    def _draw(self, seed: int) -> str:
        names, sums = list(self.mixture), list(accumulate(self.mixture.values()))
        number = seeds.generator(seed, MIXTURE).random()
        return names[min(bisect_right(sums, number * sums[-1]), len(names) - 1)]

    def _engine(self, name: str) -> Engine:
        if name not in self._open:
            offer = self.offers[name]
            if isinstance(offer.player, Local):
                from equipoise.serve.local_engine import LocalEngine

                self._open[name] = LocalEngine(offer.player, offer.weights, self._resources)
            else:
                from equipoise.serve.upstream import UpstreamEngine

                self._open[name] = UpstreamEngine(offer.player)
        return self._open[name]

    def _extend(self, engine: Engine, suffix: str, wishes: Mapping[str, Wish]) -> Engine:
        for name, wish in wishes.items():
            if wish.value is not None and name not in self.extensions:
                raise Refused(
                    f"'{name}' is not supported by this server", "unsupported_value", name
                )
        for name, extension in self.extensions.items():
            wish = wishes.get(name, Wish())
            if suffix:
                engine, suffix = _by_suffix(engine, extension, name, wish, suffix), ""
            else:
                engine = extension.wrap(engine, wish.value, report=wish.report)
        return engine


def _by_suffix(engine: Engine, extension: Extension, name: str, wish: Wish, suffix: str) -> Engine:
    """The engine behind an extension that the model's name wishes. Raises Problem (404)."""
    if wish.value is not None:
        verb = extension_offers()[name].wish
        raise Refused(
            f"{verb} by the model's name or by the field '{name}', not by both", param=name
        )
    try:
        return extension.wrap(engine, suffix, report=wish.report)
    except Refused as error:
        raise Problem(404, str(error), "model_not_found", "model") from error


def _offers(population: Population, players: Mapping[str, Player]) -> dict[str, OfferedModel]:
    offers: dict[str, OfferedModel] = {}
    for name, player in players.items():
        if isinstance(player, Local | Endpoint):
            for generation in population.kept(name):
                identity = PlayerId(name, generation)
                weights = population.weights(identity)
                offers[str(identity)] = OfferedModel(player, weights)
    return offers


def _mixture(measures: Measures) -> dict[str, float]:
    return {
        str(PlayerId.parse(name)): weight for name, weight in measures.mixture.items() if weight > 0
    }


def _defaults(player: ModelPlayer) -> EngineRequest:
    """The sampling of a player where the client does not say: as in its run."""
    return EngineRequest(
        (),
        temperature=1.0 if player.temperature is None else player.temperature,
        top_p=1.0 if player.top_p is None else player.top_p,
        max_tokens=player.max_new_tokens,
        **{name: getattr(player, name) for name in LOCAL_ONLY if isinstance(player, Local)},
    )
