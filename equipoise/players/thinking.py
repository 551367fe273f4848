"""A limit on thoughts beside the answer's: what is longer is closed, and the answer follows.

A move is sampled up to the limit of its thoughts. One that still thinks then is closed by the mark
of the model's template; the answer of each that is not over is sampled after that, up to a limit of
its own. The mark is not sampled, and not learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise import seeds
from equipoise.answer import parse_answer
from equipoise.sampling.engines.base import SampledAnswer

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """A move that is not over: its prompt, its tokens so far, of which the last `closing` are the
    end that its thoughts were given, the seed of its further tokens, and how many may follow.
    """

    row: int
    prompt: list[int]
    answer: SampledAnswer
    closing: list[int]
    seed: int
    limit: int

    @property
    def ids(self) -> list[int]:
        """The tokens after which it goes on."""
        return [*self.prompt, *self.answer.token_ids, *self.closing]

    def joined(self, rest: SampledAnswer, closing: Sequence[float]) -> SampledAnswer:
        """The whole move; `closing`: the log-probabilities of its closing tokens."""
        begun = self.answer
        start = len(begun.token_ids)
        return SampledAnswer(
            [*begun.token_ids, *self.closing, *rest.token_ids],
            [*begun.logprobs, *closing, *rest.logprobs],
            [*begun.uncut, *closing, *rest.uncut],
            rest.ended,
            (start, start + len(self.closing)) if self.closing else None,
        )


def begun_answers(
    encoding: Encoding,
    prompts: Sequence[list[int]],
    answers: Sequence[SampledAnswer],
    dice: Sequence[int],
    most: int,
) -> list[BegunAnswer]:
    """The moves that reached the limit of their thoughts and have room for `most` tokens of an
    answer, less those that it has already.
    """
    assert encoding.marks is not None, "thoughts that can be closed have marks"
    mark = encoding.marks.closing
    begun = []
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if answer.ended:
            continue
        parsed = parse_answer(encoding.decode(answer.token_ids), encoding.marks)
        closing = encoding.mark_ids(mark) if parsed.unfinished else []
        answered = len(answer.token_ids) - encoding.thought_tokens(answer.token_ids)
        room = encoding.max_length - len(prompt) - len(answer.token_ids) - len(closing)
        limit = min(most - answered, room)
        if limit > 0:
            seed = seeds.child(dice[row], "answer")
            begun.append(BegunAnswer(row, prompt, answer, closing, seed, limit))
    return begun
