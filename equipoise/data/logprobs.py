"""Answer log-probabilities of the reference and of every opponent: once per (player,
text), then from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from equipoise.errors import ConfigError
from equipoise.players.base import Actor, Scorer
from equipoise.run.ledger import Ledger
from equipoise.types import Message, Pair, PlayerId, record_id

CHUNK = 512  # answers scored and recorded together; a resumed run repeats whole chunks only, so batches are the same


def text_key(chat: Sequence[Message], answer: str) -> str:
    """The identity of an answer in its chat."""
    return record_id(
        *(part for message in chat for part in (message.role, message.content)), answer
    )


def opponent_logprobs(
    ledger: Ledger,
    actor: Callable[[PlayerId], Actor],
    learner: PlayerId,
    opponents: Sequence[PlayerId],
    pairs: Sequence[Pair],
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[np.ndarray, np.ndarray]:
    """(chosen_KB, rejected_KB): each opponent's sum of token log-probabilities, in
    nats, of both answers of each pair.

    `actor(player)` opens a player. The learner's own generations must read text exactly
    as it does (tokenizer, template, truncation); another player reads it in its own
    way, but whole. Raises ConfigError when a generation reads it differently or an
    opponent cannot tell log-probabilities at all, DataError when an answer does not fit
    one.
    """
    answers = {
        text_key(p.messages, a): (p.messages, a)
        for p in pairs
        for a in (p.chosen, p.rejected)
    }
    chosen_KB, rejected_KB = np.zeros((2, len(opponents), len(pairs)))
    for k, opponent in enumerate(opponents):
        known = _score(ledger, actor, learner, opponent, answers, advance)
        chosen_KB[k] = [known[text_key(p.messages, p.chosen)] for p in pairs]
        rejected_KB[k] = [known[text_key(p.messages, p.rejected)] for p in pairs]
    return chosen_KB, rejected_KB


def _score(
    ledger: Ledger,
    actor: Callable[[PlayerId], Actor],
    learner: PlayerId,
    opponent: PlayerId,
    answers: dict[str, tuple[tuple[Message, ...], str]],
    advance: Callable[[int], None],
) -> dict[str, float]:
    scorer = _scorer(actor, opponent)
    alike = scorer.encoding == _scorer(actor, learner).encoding
    if not alike and opponent.name == learner.name:
        raise ConfigError(
            f"players.{opponent.name}: {opponent} reads text differently from the learner {learner} (tokenizer, chat "
            "template or max_length); their log-probabilities cannot be compared"
        )
    known = ledger.logprobs(opponent, scorer.encoding, list(answers))
    advance(len(known))
    missing = [key for key in answers if key not in known]
    for start in range(0, len(missing), CHUNK):
        part = missing[start : start + CHUNK]
        chats, texts = zip(*(answers[key] for key in part), strict=True)
        values = scorer.logprobs(chats, texts, whole=not alike)
        ledger.add_logprobs(opponent, scorer.encoding, part, values)
        known.update(zip(part, values, strict=True))
        advance(len(part))
    return {key: total for key, (total, _) in known.items()}


def _scorer(actor: Callable[[PlayerId], Actor], player: PlayerId) -> Scorer:
    scorer = actor(player)
    if not isinstance(scorer, Scorer):
        raise ConfigError(
            f"players.{player.name}: cannot tell log-probabilities, which the loss needs of opponents"
        )
    return scorer
