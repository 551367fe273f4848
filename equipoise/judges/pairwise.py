"""Judges that compare two answers to one prompt, in both orders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field

from equipoise import seeds
from equipoise.judges.base import Judge, last_answers, reasons_without_answer
from equipoise.judges.question import (
    PLACEHOLDERS,
    Question,
    QuestionSettings,
    Quotes,
    Reading,
    brief_reason,
    control_tokens_of,
    read_move,
)
from equipoise.judges.quoting import transcript
from equipoise.judges.read_verdict import Unread, read_choice
from equipoise.players.base import Player
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, Message, Prompt, Turn, Vote

Flip = Literal["missing", "tie", "mean"]
PROBABILITY: Mapping[str, float] = {"A": 1.0, "B": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question: which of two answers to `messages` is better? `seed` is the question's own."""

    prompt: Prompt
    messages: tuple[Message, ...]
    first: str
    second: str
    seed: int


class Comparing(Judge):
    """Scores each seat by its mean probability of beating the other seats.

    A judge of this kind defines `compare`.

        p(a beats b) = (P(a, b) + 1 − P(b, a)) / 2
        score_a      = mean over b of p(a beats b)

    P(x, y) is the probability that x wins when it is shown first. Every two seats whose last moves
    answered the same chat are compared in both orders. Equal texts are a tie without a question.
    Where the two orders prefer different answers, `flip` decides. Where the reply in one order
    could not be read, the two seats are not compared.
    """

    compares: ClassVar[bool] = True
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)

    flip: Flip = Field(
        default="missing",
        description="when the two orders contradict each other: no comparison, a tie "
        "(½), or the mean of both",
    )

    @abstractmethod
    def compare(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question P(first beats second) in [0, 1], or None and the reason. ½ is a tie."""

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order, from one call of `compare`; `prompts` by id."""
        pairs_of_match = [_pairs(match) for match in matches]
        questions: list[Comparison] = []
        for match, pairs in zip(matches, pairs_of_match, strict=True):
            prompt = prompts[match.prompt]
            for first, second in pairs:
                if first.move.text != second.move.text:
                    questions.append(self._question(match, prompt, first, second))
                    questions.append(self._question(match, prompt, second, first))
        readings = iter(self.compare(questions) if questions else [])
        return [
            self._judgement_by_pairs(match, pairs, readings)
            for match, pairs in zip(matches, pairs_of_match, strict=True)
        ]

    def _question(self, match: Match, prompt: Prompt, first: Turn, second: Turn) -> Comparison:
        seed = seeds.child(
            self.judge_context.seed,
            "judge",
            self.name,
            match.id,
            self.name,
            first.seat,
            second.seat,
        )
        return Comparison(prompt, first.view.messages, first.move.text, second.move.text, seed)

    def _judgement_by_pairs(
        self, match: Match, pairs: Sequence[tuple[Turn, Turn]], readings: Iterator[Reading]
    ) -> Judgement:
        """The judgement on a match; `readings` gives two for each pair of different texts."""
        votes: list[Vote] = []
        wins: dict[str, list[float]] = {seat: [] for seat in match.seats}
        reasons = dict.fromkeys(reasons_without_answer(match))
        compared: set[str] = set()
        for first, second in pairs:
            compared |= {first.seat, second.seat}
            p_first: float | str = 0.5
            if first.move.text != second.move.text:
                forward, backward = next(readings), next(readings)
                p_first = combine_orders(forward, backward, self.flip)
                votes.append(forward.vote(self.name, first.seat, second.seat))
                votes.append(backward.vote(self.name, second.seat, first.seat))
            if isinstance(p_first, str):
                reasons[brief_reason(p_first)] = None
            else:
                wins[first.seat].append(p_first)
                wins[second.seat].append(1 - p_first)
        if not reasons and match.seats.keys() - compared:
            reasons["nobody else answered the same chat"] = None
        scores = {seat: {"score": sum(own) / len(own)} for seat, own in wins.items() if own}
        return self.judgement(match, scores or None, "; ".join(reasons), votes)


def combine_orders(forward: Reading, backward: Reading, flip: Flip) -> float | str:
    """P(a beats b) from both orders, or why none; forward: P(a wins), backward: P(b wins)."""
    if forward.value is None:
        return forward.reason
    if backward.value is None:
        return backward.reason
    swapped = 1 - backward.value
    contradictory = (forward.value - 0.5) * (swapped - 0.5) < 0
    if contradictory and flip == "tie":
        return 0.5
    if contradictory and flip == "missing":
        return "inconsistent: the verdict changed with the order of the answers"
    return (forward.value + swapped) / 2


def _pairs(match: Match) -> list[tuple[Turn, Turn]]:
    """The last turns of every two seats that answered the same chat."""
    return [
        (first, second)
        for first, second in combinations(last_answers(match).values(), 2)
        if first.view.messages == second.view.messages
    ]


class Pairwise(Comparing, QuestionSettings):
    """Scores each seat by `model`'s verdicts A, B or tie on every pair, in both orders."""

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "first", "second")

    kind: Literal["pairwise"] = "pairwise"
    model: Player = Field(description="the judging model, a player that no seat holds")
    text: TemplateText = Field(
        default="pairwise",
        description="the question's template: a file, or a packaged one (pairwise, or "
        "pairwise_compact for small models)",
    )

    def questions(self, seats: int, pool: int) -> int:
        return seats * (seats - 1)

    def prepare(self) -> None:
        _ = self.question

    @cached_property
    def question(self) -> Question:
        """The template of the question. Raises DataError."""
        quoted = ("first", "second")
        question = self.question_with(quoted, needed=quoted)
        schema = {"type": "string", "enum": list(PROBABILITY)}
        return replace(question, verdict="verdict", verdict_schema=schema)

    def compare(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question 1, 0 or ½, or the reason why the verdict could not be read."""
        tokens = control_tokens_of(self.judge_context.actor(self.model))
        views = [
            self.question.view(self._quotes(comparison), comparison.seed, tokens)
            for comparison in questions
        ]
        seeds = [comparison.seed for comparison in questions]
        moves = self.judge_context.ask(self.model, views, seeds)
        return [
            read_move(move, _read, self.question.code(seed))
            for move, seed in zip(moves, seeds, strict=True)
        ]

    def _quotes(self, comparison: Comparison) -> Quotes:
        return {
            "question": ("request", transcript(comparison.messages)),
            "first": ("answer A", comparison.first),
            "second": ("answer B", comparison.second),
            "reference": ("reference", self.reference(comparison.prompt)),
        }


def _read(reply: str, code: str) -> float | Unread:
    label = read_choice(reply, tuple(PROBABILITY), code, alone=not code)
    return label if isinstance(label, Unread) else PROBABILITY[label]
