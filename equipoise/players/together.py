"""Moves of several players at once: those with adapters on one base answer in one batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from equipoise.models.shared_base import AdaptedModel
from equipoise.players.base import Actor, Beginning
from equipoise.players.local_actor import LocalActor
from equipoise.types import Move, View


@dataclass(frozen=True)
class Request:
    """What one actor is to answer, each view with its own seed."""

    actor: Actor
    views: Sequence[View]
    seeds: Sequence[int]


class _Member(NamedTuple):
    """A local actor, its model in memory, and what it is to answer."""

    actor: LocalActor
    model: AdaptedModel
    request: Request


def act_together(requests: Sequence[Request]) -> list[list[Move]]:
    """The moves of each request, in order.

    Those whose answers come from elsewhere are sent first, and waited for last. A row's tokens come
    from its own prompt, adapter and seed; who else is in the batch changes its log-probabilities by
    no more than rounding.
    """
    moves: list[list[Move]] = [[] for _ in requests]
    under_way = [
        (n, request.actor.begin(request.views, request.seeds))
        for n, request in enumerate(requests)
        if isinstance(request.actor, Beginning)
    ]
    for group in _groups(requests):
        own = [requests[n] for n in group]
        for n, of_request in zip(group, _answered(own), strict=True):
            moves[n] = of_request
    for n, wait in under_way:
        moves[n] = wait()
    return moves


def _groups(requests: Sequence[Request]) -> list[list[int]]:
    """The places of the requests that are answered here, those together that can grow in one
    batch.
    """
    groups: dict[Hashable, list[int]] = {}
    for n, request in enumerate(requests):
        if not isinstance(request.actor, Beginning):
            groups.setdefault(company(request.actor) or n, []).append(n)
    return list(groups.values())


def company(actor: Actor) -> Hashable:
    """Equal for actors here whose answers can grow in one batch; None for one whose answers come
    from elsewhere, or from no model.
    """
    if isinstance(actor, Beginning) or not isinstance(actor, LocalActor):
        return None
    if not isinstance(actor.adapted, AdaptedModel):
        return None
    return id(actor.adapted.base), actor.batching


def _answered(requests: Sequence[Request]) -> list[list[Move]]:
    """The moves of a group, in one batch where their model and adapters allow it."""
    members: list[_Member] = []
    for request in requests:
        actor = request.actor
        if isinstance(actor, LocalActor) and isinstance(actor.adapted, AdaptedModel):
            members.append(_Member(actor, actor.adapted, request))
    if len(members) > 1:
        first, base = members[0].actor, members[0].model.base
        names = [member.model.adapter for member in members]
        with first.in_memory(), first.products(base.model):
            if len(set(names)) == 1 or base.mixes(names):
                return _sampled(members)
    return [request.actor.act(request.views, request.seeds) for request in requests]


def _sampled(members: Sequence[_Member]) -> list[list[Move]]:
    """The moves of local actors on one base, all in one batch."""
    from equipoise.models.sampling_batch import RowAdapters

    names = list(dict.fromkeys(member.model.adapter for member in members))
    moves: list[dict[int, Move]] = []
    places: list[tuple[int, int]] = []
    of_row: list[int] = []
    rows: list[list[int]] = []
    seeds: list[int] = []
    limits: list[int] = []
    for n, (actor, model, request) in enumerate(members):
        prompts, errors = actor.read(request.views)
        moves.append(errors)
        places += [(n, row) for row in prompts]
        of_row += [names.index(model.adapter)] * len(prompts)
        rows += prompts.values()
        seeds += [request.seeds[row] for row in prompts]
        limits += actor.limits([*prompts.values()])
    if rows:
        first = members[0]
        base = first.model.base
        if len(names) == 1:
            with base.lend(names[0]) as model:
                sampled = first.actor.sampled(model, rows, seeds, limits)
        else:
            with base.lend_mixed(names) as lent:
                own = RowAdapters(lent.adapters, of_row)
                sampled = first.actor.sampled(lent.model, rows, seeds, limits, own)
        for (n, row), move in zip(places, sampled, strict=True):
            moves[n][row] = move
    return [[own[row] for row in range(len(own))] for own in moves]
