"""Moves of several players at once: those with adapters on one base answer in one batch."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from equipoise.models.shared_base import AdaptedModel
from equipoise.players.base import Actor, AsyncActor
from equipoise.players.local_actor import LocalActor
from equipoise.types import Move, View


@dataclass(frozen=True)
class MoveRequest:
    """The views that one actor is to answer, each with its own seed."""

    actor: Actor
    views: Sequence[View]
    seeds: Sequence[int]


def act_together(requests: Sequence[MoveRequest]) -> list[list[Move]]:
    """The moves of each request, in order; other processes are asked first, awaited last."""
    moves: list[list[Move]] = [[] for _ in requests]
    pending = []
    groups: dict[Hashable, list[int]] = {}
    for n, request in enumerate(requests):
        if isinstance(request.actor, AsyncActor):
            pending.append((n, request.actor.submit(request.views, request.seeds)))
        else:
            groups.setdefault(batch_key(request.actor) or n, []).append(n)
    for group in groups.values():
        in_one_batch = sample_in_one_batch([requests[n] for n in group])
        for place, n in enumerate(group):
            if in_one_batch is None:
                moves[n] = requests[n].actor.act(requests[n].views, requests[n].seeds)
            else:
                moves[n] = in_one_batch[place]
    for n, wait in pending:
        moves[n] = wait()
    return moves


def batch_key(actor: Actor) -> Hashable:
    """Equal for actors here whose answers can grow in one batch; None for all others."""
    if isinstance(actor, AsyncActor) or not isinstance(actor, LocalActor):
        return None
    if not isinstance(actor.adapted, AdaptedModel):
        return None
    if actor.player.thinking_tokens is not None:  # its answers grow in two steps
        return None
    return id(actor.adapted.base), actor.batch_key


def sample_in_one_batch(requests: Sequence[MoveRequest]) -> list[list[Move]] | None:
    """The moves of actors with one batch key; None for one actor, or where adapters cannot mix."""
    if len(requests) == 1:
        return None
    from equipoise.sampling.sampling import sample
    from equipoise.sampling.sampling_batch import RowAdapters

    actors = []
    models = []
    for request in requests:
        assert isinstance(request.actor, LocalActor), "a batch key is a local actor's"
        assert isinstance(request.actor.adapted, AdaptedModel), "a batch key is of a model here"
        actors.append(request.actor)
        models.append(request.actor.adapted)
    first = actors[0]
    base = models[0].base
    names = list(dict.fromkeys(model.adapter for model in models))
    with first.memory_errors(), first.autocast(base.model):
        if len(names) > 1 and not base.mixes(names):
            return None
        moves: list[dict[int, Move]] = []
        places: list[tuple[int, int]] = []
        own_adapter: list[int] = []
        rows: list[list[int]] = []
        seeds: list[int] = []
        limits: list[int] = []
        for n, (actor, model, request) in enumerate(zip(actors, models, requests, strict=True)):
            prompts, errors = actor.read(request.views)
            moves.append(errors)
            places += [(n, row) for row in prompts]
            own_adapter += [names.index(model.adapter)] * len(prompts)
            rows += prompts.values()
            seeds += [request.seeds[row] for row in prompts]
            limits += actor.limits([*prompts.values()])
        if not rows:
            answers = []
        elif len(names) == 1:
            with base.lend(names[0]) as model:
                answers = sample(model, rows, seeds, limits, **first.sampling)
        else:
            with base.lend_mixed(names) as (model, mixed):
                adapters = RowAdapters(mixed, own_adapter)
                answers = sample(model, rows, seeds, limits, **first.sampling, adapters=adapters)
    for (n, row), prompt, answer in zip(places, rows, answers, strict=True):
        moves[n][row] = first.move(prompt, answer)
    return [[own[row] for row in range(len(own))] for own in moves]
