"""The base of judges that look at two answers to one prompt at a time, in both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field

from equipoise import seeds
from equipoise.judges.answered import last_answers, why_unanswered
from equipoise.judges.seated import Reading, Seated, fault
from equipoise.types import Judgement, Match, Message, Prompt, Turn, Vote


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question: which of two answers to `messages` is better? `seed` is the
    question's own.
    """

    prompt: Prompt
    messages: tuple[Message, ...]
    first: str
    second: str
    seed: int


@dataclass(frozen=True, slots=True)
class Duel:
    """Two seats of a match that answered the same chat."""

    seat: str
    other: str


class Comparing(Seated):
    """Scores each seat its mean probability of beating the other seats; a part of it
    defines `compare`.

        p(a beats b) = (P(a, b) + 1 − P(b, a)) / 2,      score_a = mean over b of p(a beats b)

    with P(x, y) the probability that x wins when it is shown first. Every two seats
    whose last moves answered the same chat are compared in both orders; equal texts are
    a tie, and nobody is asked. Where one order prefers one answer and the other order
    the other, `flip` decides. Where an order could not be read, the two seats are not
    compared.
    """

    compares: ClassVar[bool] = True

    flip: Literal["missing", "tie", "mean"] = Field(
        default="missing",
        description="when the two orders contradict each other: no comparison, a tie (½), or the mean of both",
    )

    def compare(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question P(first beats second) in [0, 1] (½: a tie), or None and the
        reason why not.
        """
        raise TypeError(f"{type(self).__name__} must define compare()")

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id. All questions are asked
        in one `compare`.
        """
        turns = [last_answers(match) for match in matches]
        duels = [_duels(by_seat) for by_seat in turns]
        questions = [
            self._question(
                match, prompts[match.prompt], by_seat[first], by_seat[second]
            )
            for match, by_seat, found in zip(matches, turns, duels, strict=True)
            for duel in found
            if by_seat[duel.seat].move.text != by_seat[duel.other].move.text
            for first, second in ((duel.seat, duel.other), (duel.other, duel.seat))
        ]
        readings = iter(self.compare(questions) if questions else [])
        judgements = []
        for match, by_seat, found in zip(matches, turns, duels, strict=True):
            both: dict[Duel, tuple[Reading, Reading] | None] = {}
            for duel in found:
                equal = by_seat[duel.seat].move.text == by_seat[duel.other].move.text
                both[duel] = None if equal else (next(readings), next(readings))
            judgements.append(self._word(match, both))
        return judgements

    def _question(
        self, match: Match, prompt: Prompt, first: Turn, second: Turn
    ) -> Comparison:
        seed = seeds.child(
            self.judge_context.seed,
            "judge",
            self.name,
            match.id,
            self.name,
            first.seat,
            second.seat,
        )
        return Comparison(
            prompt, first.view.messages, first.move.text, second.move.text, seed
        )

    def _word(
        self, match: Match, both: Mapping[Duel, tuple[Reading, Reading] | None]
    ) -> Judgement:
        votes: list[Vote] = []
        wins: dict[str, list[float]] = {seat: [] for seat in match.seats}
        reasons = dict.fromkeys(why_unanswered(match))
        for duel, readings in both.items():
            if readings is None:
                found: float | str = 0.5
            else:
                found = combined(*readings, self.flip)
                votes += [
                    self._vote(duel.seat, duel.other, readings[0]),
                    self._vote(duel.other, duel.seat, readings[1]),
                ]
            if isinstance(found, str):
                reasons[fault(found)] = None
            else:
                wins[duel.seat].append(found)
                wins[duel.other].append(1 - found)
        alone = match.seats.keys() - {
            seat for duel in both for seat in (duel.seat, duel.other)
        }
        if alone and not reasons:
            reasons["nobody else answered the same chat"] = None
        scores = {
            seat: {"score": sum(won) / len(won)} for seat, won in wins.items() if won
        }
        return self.judgement(match, scores or None, "; ".join(reasons), votes)

    def _vote(self, seat: str, other: str, reading: Reading) -> Vote:
        return Vote(
            self.name,
            seat,
            reading.value,
            other,
            reading.reason,
            reading.tokens,
            reading.cost,
        )


def combined(
    forward: Reading, backward: Reading, flip: Literal["missing", "tie", "mean"]
) -> float | str:
    """P(a beats b) of (a shown first: P(a wins)) and (b shown first: P(b wins)), or the
    reason why there is none.
    """
    if forward.value is None or backward.value is None:
        return (forward if forward.value is None else backward).reason
    swapped = 1 - backward.value
    if (forward.value - 0.5) * (swapped - 0.5) < 0 and flip != "mean":
        return (
            0.5
            if flip == "tie"
            else "inconsistent: the verdict changed with the order of the answers"
        )
    return (forward.value + swapped) / 2


def _duels(turns: Mapping[str, Turn]) -> list[Duel]:
    return [
        Duel(a, b)
        for a, b in combinations(turns, 2)
        if turns[a].view.messages == turns[b].view.messages
    ]
