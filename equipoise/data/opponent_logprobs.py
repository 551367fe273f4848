"""Answer log-probabilities of reference and opponents, computed once for each (player, text)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from equipoise.errors import ConfigError
from equipoise.players.base import Actor, Scorer
from equipoise.types import Message, Pair, PlayerId, Turns, record_id

# Answers scored and recorded together; a resumed run repeats whole chunks only, so that its batches
# are the same.
CHUNK = 512

# a chat, its answer, and whether that was cut
AnsweredChat = tuple[tuple[Message, ...], str | Turns, bool]


class LogprobStore(Protocol):
    """A store of log-probabilities (nats) and token counts, by player, encoding and text key."""

    def logprobs(
        self, player: PlayerId, encoding: str, texts: Sequence[str]
    ) -> dict[str, tuple[float, int]]:
        """Text key -> (log-probability, tokens), of those that are kept."""
        ...

    def add_logprobs(
        self,
        player: PlayerId,
        encoding: str,
        texts: Sequence[str],
        values: Sequence[tuple[float, int]],
    ) -> None:
        """Keep (log-probability, tokens) of each text key."""
        ...


def text_key(chat: Sequence[Message], answer: str | Turns, cut: bool = False) -> str:
    """The identity of an answer in its chat; one that was cut is another."""
    parts = chat_parts(chat)
    if isinstance(answer, str):
        parts.append(answer)
    else:
        parts += ["turns", *chat_parts(answer.messages), *map(str, answer.context)]
    return record_id(*parts, *(("cut",) if cut else ()))


def chat_parts(chat: Sequence[Message]) -> list[str]:
    """All texts that make a chat, for its identity."""
    parts = []
    for message in chat:
        parts += [message.role, message.content]
        if message.further:
            parts.append(message.further)
    return parts


def opponent_logprobs(
    store: LogprobStore,
    actor: Callable[[PlayerId], Actor],
    learner: PlayerId,
    opponents: Sequence[PlayerId],
    pairs: Sequence[Pair],
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[np.ndarray, np.ndarray]:
    """(chosen_KB, rejected_KB): each opponent's sum of token log-probabilities, in nats, of the
    answers.

    `actor(player)` opens a player; `advance(n)` is called after every n answers. The learner's own
    generations must read text exactly as it does; another player reads it in its own way, but
    whole. Raises ConfigError when a generation reads it differently or an opponent has no
    log-probabilities, DataError when an answer does not fit into one's context.
    """
    chosen = [text_key(p.messages, p.chosen, p.chosen_cut) for p in pairs]
    rejected = [text_key(p.messages, p.rejected, p.rejected_cut) for p in pairs]
    answers: dict[str, AnsweredChat] = {}
    for pair, chosen_key, rejected_key in zip(pairs, chosen, rejected, strict=True):
        if pair.has("chosen"):
            answers[chosen_key] = (pair.messages, pair.chosen, pair.chosen_cut)
        if pair.has("rejected"):
            answers[rejected_key] = (pair.messages, pair.rejected, pair.rejected_cut)
    chosen_KB, rejected_KB = np.zeros((2, len(opponents), len(pairs)))
    for k, opponent in enumerate(opponents):
        scorer, whole = _scorer(actor, opponent, learner)
        totals = _totals(store, scorer, opponent, answers, whole, advance)
        # 0 for an answer that is not there
        chosen_KB[k] = [totals.get(key, 0.0) for key in chosen]
        rejected_KB[k] = [totals.get(key, 0.0) for key in rejected]
    return chosen_KB, rejected_KB


def _scorer(
    actor: Callable[[PlayerId], Actor], opponent: PlayerId, learner: PlayerId
) -> tuple[Scorer, bool]:
    """(the opponent, True if answers must fit it whole, since it reads text in its own way)."""
    scorer = _open(actor, opponent)
    alike = scorer.encoding == _open(actor, learner).encoding
    if not alike and opponent.name == learner.name:
        raise ConfigError(
            f"players.{opponent.name}: {opponent} reads text differently from the "
            f"learner {learner} (tokenizer, chat template or max_length), so their "
            "log-probabilities cannot be compared"
        )
    return scorer, not alike


def _open(actor: Callable[[PlayerId], Actor], player: PlayerId) -> Scorer:
    scorer = actor(player)
    if not isinstance(scorer, Scorer):
        raise ConfigError(
            f"players.{player.name}: has no log-probabilities, which the loss needs of opponents"
        )
    return scorer


def _totals(
    store: LogprobStore,
    scorer: Scorer,
    player: PlayerId,
    answers: Mapping[str, AnsweredChat],
    whole: bool,
    advance: Callable[[int], None],
) -> dict[str, float]:
    """Text key -> the sum of the answer's token log-probabilities, in nats."""

    def score(keys: Sequence[str]) -> Sequence[tuple[float, int]]:
        chats, texts, cut = zip(*(answers[key] for key in keys), strict=True)
        passed = {"cut": cut} if any(cut) else {}
        return scorer.logprobs(chats, texts, whole=whole, **passed)

    known = stored_logprobs(store, player, scorer.encoding, list(answers), score, advance)
    return {key: total for key, (total, _) in known.items()}


def stored_logprobs(
    store: LogprobStore,
    player: PlayerId,
    encoding: str,
    keys: Sequence[str],
    score: Callable[[Sequence[str]], Sequence[tuple[float, int]]],
    advance: Callable[[int], None],
) -> dict[str, tuple[float, int]]:
    """Text key -> (log-probability in nats, tokens), of each of `keys`.

    What the store has not is scored and kept, `CHUNK` texts at a time; `advance(n)` is called after
    every n texts.
    """
    known = store.logprobs(player, encoding, keys)
    advance(len(known))
    missing = [key for key in keys if key not in known]
    for start in range(0, len(missing), CHUNK):
        chunk = missing[start : start + CHUNK]
        values = score(chunk)
        store.add_logprobs(player, encoding, chunk, values)
        known.update(zip(chunk, values, strict=True))
        advance(len(chunk))
    return known
