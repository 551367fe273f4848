"""Greedy answers of a generation, and what they are worth beside the score of a judge.

Each answer's length in tokens, whether it was cut, the share of its 4-grams of words that it
repeats, its mean log-probability a token under the untrained start, and the cosine of question and
answer by a sentence encoder: an instruction that is followed by gibberish is no gain. `welfare` is
the product that the judge of the recipe `instructions` pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.environments.instructions.checkers import FollowsInstructions
from equipoise.judges.rules import Repetition, repetition
from equipoise.models.embedding import TextEncoder
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import Move, Prompt, View

QUALITIES = ("tokens", "cut", "repetition", "start_logprob", "relevance")
RELEVANT = 0.6  # the cosine of an answer that counts as one to its question


def greedy_answers(
    player: Local, weights: Path | None, prompts: Sequence[Prompt], tokens: int
) -> list[Move]:
    """The most likely answer to each prompt, of at most `tokens` tokens."""
    greedy = player.model_copy(update={"temperature": 0.0, "max_new_tokens": tokens})
    resources = Resources()
    actor = greedy.open(weights, resources)
    views = [View(prompt.messages) for prompt in prompts]
    moves = actor.act(views, [0] * len(views))
    actor.close()
    resources.clear()
    return moves


def judged(
    player: Local, prompts: Sequence[Prompt], moves: Sequence[Move], encoder: str
) -> list[dict[str, Any]]:
    """One row an answer: prompt, text, the judge's utilities, and `QUALITIES`.

    Utilities are absent where a checker failed; the reason stands in `unjudged`.
    """
    judge = FollowsInstructions()
    texts = [move.text for move in moves]
    start_logprob = _start_logprobs(player, prompts, texts)
    relevance = _relevance(encoder, prompts, texts)
    rows: list[dict[str, Any]] = []
    for i, (prompt, move) in enumerate(zip(prompts, moves, strict=True)):
        verdict = judge.score(prompt, move.text)
        utilities = {"unjudged": verdict} if isinstance(verdict, str) else dict(verdict)
        if not isinstance(verdict, str):
            utilities["welfare"] = verdict["score"] * answering(move.text, relevance[i])
        rows.append(
            {
                "prompt": prompt.id,
                "text": move.text,
                "instructions": len(prompt.facts["instruction_id_list"]),
                "tokens": len(move.token_ids or ()),
                "cut": float(move.finish == "length"),
                "repetition": repetition(move.text),
                "start_logprob": start_logprob[i],
                "relevance": relevance[i],
                **utilities,
            }
        )
    return rows


def answering(text: str, relevance: float) -> float:
    """Relevance × freshness, in [0, 1], as the panel's other two judges score a text."""
    near = max(0.0, relevance) / RELEVANT if text.strip() else 0.0
    fresh = (1 - repetition(text)) / (1 - Repetition().allowed)
    return min(1.0, near) * min(1.0, fresh)


def _start_logprobs(player: Local, prompts: Sequence[Prompt], texts: Sequence[str]) -> list[float]:
    """Nats a token under the untrained start, the end token included."""
    resources = Resources()
    actor = player.open(player.start, resources)
    totals = actor.logprobs([prompt.messages for prompt in prompts], texts)
    actor.close()
    resources.clear()
    return [total / count for total, count in totals]


def _relevance(encoder: str, prompts: Sequence[Prompt], texts: Sequence[str]) -> list[float]:
    """The cosine of each question and its answer, in [−1, 1]."""
    model = TextEncoder.load(encoder)
    questions = [prompt.facts.get("question") or prompt.messages[-1].content for prompt in prompts]
    question_BD = model.embed(questions)
    answer_BD = model.embed(texts)
    return np.einsum("bd,bd->b", question_BD, answer_BD).tolist()
