"""Which models a server has, by name, and who answers for each: players of a run, a
mixture of them, a model alone.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from equipoise import seeds
from equipoise.component import nearest
from equipoise.errors import RunError
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.players.population import Population
from equipoise.run.directory import Run
from equipoise.serve.engine import Engine, EngineRequest, Refused
from equipoise.serve.protocol import Problem
from equipoise.types import PlayerId

MIXTURE = "mixture"
ModelPlayer: TypeAlias = "Local | Endpoint"
Steer: TypeAlias = "Callable[[Engine, Any, bool], Engine]"  # the wish, None where there is none; whether to report


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that a server has: its player, and where its weights lie (None: the
    player's own).
    """

    player: ModelPlayer
    weights: Path | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Who answers: the engine, its own name, and the settings for what a client leaves
    open.
    """

    name: str
    engine: Engine
    given: EngineRequest


@dataclass
class Catalogue:
    """Models by name. `aliases` are further names; `mixture` weighs models that the
    name `mixture` draws from.

    `steer` puts an engine in front of another, as a name's suffix
    (`policy@3:subscription`) or the request's field `steering` says, or as it thinks
    right; None: this server does not steer. `notes` say what is not served, and why.
    """

    offers: Mapping[str, OfferedModel]
    aliases: Mapping[str, str] = field(default_factory=dict)
    mixture: Mapping[str, float] = field(default_factory=dict)
    steer: Steer | None = None
    notes: tuple[str, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self._shelf, self._open, self._lock = (
            Resources(),
            dict[str, Engine](),
            asyncio.Lock(),
        )

    @classmethod
    def of_run(
        cls,
        folder: Path,
        change: Callable[[Player], Player] = lambda player: player,
        steer: Steer | None = None,
    ) -> Catalogue:
        """Every kept generation of a run's players that answer by a model, and the
        run's last equilibrium of them.

        `change` gives a player other settings. Raises RunError where there is none.
        """
        with Run.read(folder) as run:
            players = {
                name: change(player) for name, player in run.config.players.items()
            }
            population = Population(players, run.folder / "players")
            offers, notes = dict[str, OfferedModel](), list[str]()
            for name, player in players.items():
                if not isinstance(player, Local | Endpoint):
                    notes.append(
                        f"{name} is not served: its kind is {player.kind}, which is no language model"
                    )
                    continue
                ids = [
                    PlayerId(name, generation) for generation in _kept(population, name)
                ]
                offers |= {
                    str(one): OfferedModel(player, population.weights(one))
                    for one in ids
                }
            measured = [
                facts
                for _, _, stage, facts, _ in run.ledger.stages()
                if stage == "measure"
            ]
        if not offers:
            raise RunError(
                f"{folder}: no player of this run is a language model; there is nothing to serve"
            )
        weights = (measured[-1].get("mixture") if measured else None) or {}
        weights = {
            str(PlayerId.parse(name)): weight
            for name, weight in weights.items()
            if weight > 0
        }
        missing = sorted(set(weights) - set(offers))
        if missing:
            notes.append(
                f"the mixture is not served: {', '.join(missing)} is not kept, or no language model"
            )
            weights = {}
        newest = {PlayerId.parse(name).name: name for name in offers}
        return cls(offers, newest, weights, steer, tuple(notes))

    @classmethod
    def of_player(
        cls, name: str, player: ModelPlayer, steer: Steer | None = None
    ) -> Catalogue:
        """One model alone."""
        return cls({name: OfferedModel(player, player.start)}, steer=steer)

    @property
    def names(self) -> list[str]:
        """All names, without those of steered models."""
        return [
            *self.offers,
            *(name for name in self.aliases if name not in self.offers),
            *self._mixed(),
        ]

    @property
    def default(self) -> str:
        """The newest model."""
        return list(self.offers)[-1]

    def warm(self) -> None:
        """Open the last model, so that what is wrong with it is found before anybody
        asks. Raises UserError.
        """
        self._engine(list(self.offers)[-1])

    async def find(
        self, model: str, seed: int, steering: Any = None, blocks: bool = False
    ) -> ServedModel:
        """Who answers a request for `model` with this seed; `blocks`: what is hidden is
        wanted too.

        Raises Problem, status 404, for an unknown name, Refused for a wish that cannot
        be.
        """
        name, colon, suffix = self._split(model)
        if name in self._mixed():
            name = self._drawn(seed)
        name = name if name in self.offers else self.aliases.get(name, name)
        if name not in self.offers or (colon and self.steer is None):
            raise self.unknown(model)
        engine = self._open.get(name)
        if engine is None:
            async with self._lock:
                engine = await asyncio.to_thread(self._engine, name)
        return ServedModel(
            f"{name}{colon}{suffix}",
            self._steered(engine, suffix, steering, blocks),
            _given(self.offers[name].player),
        )

    def unknown(self, model: str) -> Problem:
        """The answer to a request for a model that is not there."""
        hint = nearest(model[:100], self.names)
        return Problem(
            404,
            f"there is no model '{model[:100]}' here; {hint}",
            "model_not_found",
            "model",
        )

    async def close(self) -> None:
        """Close every engine."""
        for engine in self._open.values():
            await engine.close()
        self._open.clear()
        self._shelf.clear()

    def _mixed(self) -> list[str]:
        taken = {*self.offers, *self.aliases}
        return [MIXTURE] if self.mixture and MIXTURE not in taken else []

    def _split(self, model: str) -> tuple[str, str, str]:
        """(name, colon, suffix) of a model's name; a known name that has a colon is a
        name.
        """
        if model in self.names:
            return model, "", ""
        return model.rpartition(":") if ":" in model else (model, "", "")

    def _drawn(self, seed: int) -> str:
        """A model by the mixture's weights, the same for the same seed."""
        names, sums = list(self.mixture), list(accumulate(self.mixture.values()))
        number = seeds.generator(seed, MIXTURE).random()
        return names[min(bisect_right(sums, number * sums[-1]), len(names) - 1)]

    def _engine(self, name: str) -> Engine:
        if name not in self._open:
            offer = self.offers[name]
            if isinstance(offer.player, Local):
                from equipoise.serve.local_engine import LocalEngine

                self._open[name] = LocalEngine(offer.player, offer.weights, self._shelf)
            else:
                from equipoise.serve.upstream import UpstreamEngine

                self._open[name] = UpstreamEngine(offer.player)
        return self._open[name]

    def _steered(
        self, engine: Engine, suffix: str, steering: Any, blocks: bool
    ) -> Engine:
        if self.steer is None:
            if steering is not None:
                raise Refused(
                    "'steering' is not supported by this server",
                    "unsupported_value",
                    "steering",
                )
            return engine
        if suffix and steering is not None:
            raise Refused(
                "steer by the model's name or by the field 'steering', not by both",
                param="steering",
            )
        try:
            return self.steer(engine, suffix or steering, blocks)
        except Refused as error:
            if suffix:
                raise Problem(404, str(error), "model_not_found", "model") from error
            raise


def _kept(population: Population, name: str) -> list[int]:
    """The generations of a player whose weights are there, oldest first."""
    folders = (population.folder / name).glob("[0-9]*")
    return [
        0,
        *sorted(
            int(folder.name)
            for folder in folders
            if folder.name.isdigit() and int(folder.name)
        ),
    ]


def _given(player: ModelPlayer) -> EngineRequest:
    """How a player is sampled where the client does not say: as in its run."""
    temperature, top_p = (
        1.0 if value is None else value for value in (player.temperature, player.top_p)
    )
    top_k = player.top_k if isinstance(player, Local) else 0
    return EngineRequest(
        (),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        max_tokens=player.max_new_tokens,
    )
