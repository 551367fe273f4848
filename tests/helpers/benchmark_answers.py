"""Answers to the items of a benchmark, without a player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from equipoise.evaluation.sets.base import Benchmark, asked_prompt
from equipoise.ledger.item_scores import Answer, Item, ItemScores, Judged, JudgeQuestion, Likelihood
from equipoise.types import Message, Move, View, user

B = TypeVar("B", bound=Benchmark)


def made(kind: type[B], **settings: Any) -> B:
    """The benchmark with these settings."""
    return kind.model_validate(settings)


def answer(item: Item, *texts: str, sample: int = 0) -> Answer:
    """One text a turn, with the chats that they answer."""
    messages = asked_prompt(item).messages
    views, moves = [], []
    for turn, text in enumerate(texts):
        if turn:
            messages = (*messages, user(item.turns[turn - 1]))
        views.append(View(messages))
        moves.append(Move(text))
        messages = (*messages, Message("assistant", text))
    return Answer(item=item.id, sample=sample, moves=tuple(moves), views=tuple(views))


def failed(item: Item) -> Answer:
    """An answer that could not be had."""
    return Answer(item=item.id, moves=(Move("", "error", error="no connection"),))


def likely(item: Item, *logprobs: float) -> Answer:
    """Likelihoods of the choices."""
    pairs = [Likelihood(value, 1) for value in logprobs]
    return Answer(item=item.id, likelihoods=tuple(pairs))


def scored(
    benchmark: Benchmark,
    items: Sequence[Item],
    answers: Sequence[Answer],
    judged: Sequence[Judged] = (),
) -> list[ItemScores]:
    """The scores of one answer to each item."""
    by_item: Mapping[str, list[Answer]] = {each.item: [each] for each in answers}
    return benchmark.score(items, by_item, judged)


def judged(questions: Sequence[JudgeQuestion], values: Sequence[float | None]) -> list[Judged]:
    """The judge's scores of the questions; None: it said nothing."""
    return [
        Judged(question, None if value is None else {"score": value}, "mute")
        for question, value in zip(questions, values, strict=True)
    ]
