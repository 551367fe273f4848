"""Pairs read as plain text, the answer right behind its prompt, without a chat template.

    ids = (beginning of text) ++ prompt ++ answer ++ end of text

So MNPO's released code reads what it learns from, although it samples through the template. Its
trainer and the step that computes the opponents' log-probabilities differ from one another, which
`JoinedPairs` has as settings. Both answers of a pair are cut alike: where the longer one does not
fit behind the prompt, the prompt keeps its last `max_prompt` tokens, and if that is not enough
each answer keeps its first max_length − max_prompt. Special tokens within a text are read as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.data.opponent_logprobs import LogprobStore, stored_logprobs
from equipoise.errors import ConfigError, DataError
from equipoise.players.base import Actor, Scorer, TokenScorer
from equipoise.types import Pair, PlayerId, record_id

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.packing import PromptAnswers


class JoinedPairs(Settings):
    """The ways in which a learner of pairs and its opponents read them as plain text."""

    begins: Literal["both", "learner", "neither"] = Field(
        "learner",
        description="who reads a token for the beginning of the text before the prompt. As "
        "released: the learner alone, so that margins are not 0 where it equals its opponent",
    )
    max_length: int = Field(
        2048, ge=2, description="tokens of prompt and answer that are read, whatever a player's own"
    )
    max_prompt: int = Field(
        1800, ge=1, description="the learner's tokens of a prompt that is cut, the last ones"
    )
    opponents_max_prompt: int = Field(
        1000, ge=1, description="its opponents' tokens of a prompt that is cut, the last ones"
    )
    opponents_apart: bool = Field(
        True,
        description="opponents tokenise prompt and answer each by itself, as released; false: as "
        "one text, as the learner does",
    )

    def learners_reading(self) -> TextReading:
        """The learner's way to read a pair."""
        return TextReading(self.begins != "neither", True, self.max_length, self.max_prompt)

    def opponents_reading(self) -> TextReading:
        """The opponents' way to read a pair."""
        begins = self.begins == "both"
        as_one_text = not self.opponents_apart
        return TextReading(begins, as_one_text, self.max_length, self.opponents_max_prompt)

    @model_validator(mode="after")
    def _leaves_room(self) -> JoinedPairs:
        for name in ("max_prompt", "opponents_max_prompt"):
            if getattr(self, name) >= self.max_length:
                raise ValueError(
                    f"{name}: {getattr(self, name)} tokens leave no room for an answer within "
                    f"max_length = {self.max_length}"
                )
        return self


class TextReading(NamedTuple):
    """One way to read a prompt and an answer.

    begins: with a token for the beginning of a text. as_one_text: both are tokenised together.
    max_length, max_prompt: the most tokens of both, and of a prompt that is cut.
    """

    begins: bool
    as_one_text: bool
    max_length: int
    max_prompt: int


class JoinedPair(NamedTuple):
    """The token ids of a pair's prompt before each answer, and of both answers."""

    chosen_prompt: list[int]
    chosen: list[int]
    rejected_prompt: list[int]
    rejected: list[int]

    def as_answers(self) -> PromptAnswers:
        """Both answers behind one prompt.

        Where prompt and answer share a token, the prompts may differ by the last one, which then
        stands before its answer and is not learned.
        """
        from equipoise.models.packing import PromptAnswers

        chosen_prompt, rejected_prompt = self.chosen_prompt, self.rejected_prompt
        if chosen_prompt == rejected_prompt:
            return PromptAnswers(chosen_prompt, [self.chosen, self.rejected])
        if chosen_prompt[0] != rejected_prompt[0]:
            # Both were cut, and one begins a token later: so does the other, to share it.
            if chosen_prompt[1] == rejected_prompt[0]:
                chosen_prompt = chosen_prompt[1:]
            else:
                rejected_prompt = rejected_prompt[1:]
        shared = 0
        for first, second in zip(chosen_prompt, rejected_prompt, strict=False):
            if first != second:
                break
            shared += 1
        answers = []
        masks = []
        for prompt, ids in ((chosen_prompt, self.chosen), (rejected_prompt, self.rejected)):
            rest = prompt[shared:]
            answers.append([*rest, *ids])
            masks.append([False] * len(rest) + [True] * len(ids))
        return PromptAnswers(chosen_prompt[:shared], answers, masks)


def joined_pair(encoding: Encoding, pair: Pair, reading: TextReading) -> JoinedPair:
    """The token ids of a pair. Raises DataError for a chat that is no single prompt."""
    if len(pair.messages) != 1 or not isinstance(pair.chosen, str) or pair.only:
        beginning = pair.messages[0].content[:60] if pair.messages else ""
        raise DataError(
            "learner.pair_text: joined pairs are of two texts that answer one message, and the "
            f"prompt that begins {beginning!r} has others; leave pair_text out"
        )
    assert isinstance(pair.rejected, str)
    tokenizer, prompt = encoding.tokenizer, pair.messages[0].content
    chosen_prompt, chosen = whole_ids(tokenizer, prompt, pair.chosen, reading)
    rejected_prompt, rejected = whole_ids(tokenizer, prompt, pair.rejected, reading)
    longest = max(len(chosen), len(rejected))
    cut = []
    for prompt_ids, ids in ((chosen_prompt, chosen), (rejected_prompt, rejected)):
        if len(prompt_ids) + longest > reading.max_length:
            prompt_ids = prompt_ids[-reading.max_prompt :]
        if len(prompt_ids) + longest > reading.max_length:
            ids = ids[: reading.max_length - reading.max_prompt]
        cut += [prompt_ids, ids]
    return JoinedPair(*cut)


def whole_ids(
    tokenizer: Any, prompt: str, answer: str, reading: TextReading
) -> tuple[list[int], list[int]]:
    """(ids of the prompt, ids of the answer and its end), of any length.

    Read as one text, the prompt's last letters may share a token with the answer's first ones,
    which is then the answer's; and an end that the answer has already is not added.
    """
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
    if reading.as_one_text:
        whole = tokenizer.encode(prompt + answer, add_special_tokens=False)
        start = len(prompt_ids)
        if prompt_ids != whole[:start]:
            start -= 1
        prompt_ids, ids = whole[:start], whole[start:]
    else:
        ids = tokenizer.encode(answer, add_special_tokens=False)
    beginning, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    if reading.begins and beginning is not None and prompt_ids[:1] != [beginning]:
        prompt_ids = [beginning, *prompt_ids]
    if not (reading.as_one_text and ids[-1:] == [end]):
        ids = [*ids, end]
    return prompt_ids, ids


def joined_opponent_logprobs(
    store: LogprobStore,
    actor: Callable[[PlayerId], Actor],
    encoding: Callable[[PlayerId], Encoding],
    opponents: Sequence[PlayerId],
    pairs: Sequence[Pair],
    reading: TextReading,
    own_tokens: Sequence[Sequence[int]] | None = None,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[np.ndarray, np.ndarray]:
    """(chosen_KB, rejected_KB): each opponent's sum of token log-probabilities, in nats, of pairs
    that it reads as plain text.

    own_tokens: for a loss of means per token, the learner's count of either answer, by which it
    will divide; the sums are then the opponent's own means, times that count.

    `actor(player)` opens a player, `encoding(player)` is its tokenizer. Raises ConfigError for an
    opponent that gives no log-probabilities of token ids, DataError as `joined_pair` does.
    """
    chosen_KB, rejected_KB = np.zeros((2, len(opponents), len(pairs)))
    for k, opponent in enumerate(opponents):
        scorer = actor(opponent)
        if not isinstance(scorer, TokenScorer) or not isinstance(scorer, Scorer):
            raise ConfigError(
                f"players.{opponent.name}: has no log-probabilities of token ids, which "
                "learner.pair_text needs of opponents"
            )
        own_encoding = encoding(opponent)
        answers: dict[str, tuple[list[int], list[int]]] = {}
        keys: list[tuple[str, str]] = []
        for pair in pairs:
            read = joined_pair(own_encoding, pair, reading)
            of_pair = []
            for prompt, ids in read[:2], read[2:]:
                key = record_id("joined", *map(str, prompt), "answer", *map(str, ids))
                answers[key] = (prompt, ids)
                of_pair.append(key)
            keys.append((of_pair[0], of_pair[1]))
        score = partial(token_logprobs, scorer, answers)
        known = stored_logprobs(store, opponent, scorer.encoding, list(answers), score, advance)
        for b, (chosen, rejected) in enumerate(keys):
            for values_KB, key, side in ((chosen_KB, chosen, 0), (rejected_KB, rejected, 1)):
                total, tokens = known[key]
                if own_tokens is not None:
                    total *= own_tokens[b][side] / tokens
                values_KB[k, b] = total
    return chosen_KB, rejected_KB


def token_logprobs(
    scorer: TokenScorer, answers: Mapping[str, tuple[list[int], list[int]]], keys: Sequence[str]
) -> list[tuple[float, int]]:
    """(log-probability in nats, tokens) of the answer behind its prompt under each key."""
    prompts = [answers[key][0] for key in keys]
    texts = [answers[key][1] for key in keys]
    sums = scorer.token_sums(prompts, texts)
    return [(total, len(ids)) for total, ids in zip(sums, texts, strict=True)]
