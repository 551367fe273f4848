"""What judges share that have models grade each answer alone: the questions, the
readings, and the score of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.judges.answered import last_answers, why_unanswered
from equipoise.judges.asking import FAILED, Asking, reading
from equipoise.judges.quoting import transcript
from equipoise.judges.seated import fault
from equipoise.judges.verdicts import Unread, score
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, PlayerId, Prompt, Turn, View, Vote

WEIGHTLESS = "none of those who voted has a weight"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to be graded: a seat's last turn."""

    match: Match
    prompt: Prompt
    turn: Turn


def answers(matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Answer]:
    """Every seat's last answer; `prompts` by id."""
    return [
        Answer(match, prompts[match.prompt], turn)
        for match in matches
        for turn in last_answers(match).values()
    ]


class Grading(Asking):
    """Settings of judges by grades, one question an answer and sample."""

    needed: ClassVar[tuple[str, ...]] = ("answer",)
    placeholders: ClassVar[tuple[str, ...]] = (*Asking.placeholders, "answer")

    text: str = Field(
        default="rubric",
        description="the question's template: a file, or a packaged one (rubric, or rubric_compact for small models)",
    )
    low: float = Field(default=1.0, description="the worst grade")
    high: float = Field(default=10.0, description="the best grade")
    samples: int = Field(
        default=1,
        ge=1,
        description="times that each judge is asked about an answer; the mean counts",
    )
    unreadable: Literal["missing", "midpoint"] = Field(
        default="missing",
        description="a reply without a readable grade is no vote, or counts as (low + high) / 2, as SPARTA's released "
        "code has it",
    )

    @model_validator(mode="after")
    def _low_below_high(self) -> Grading:
        if self.low >= self.high:
            raise ValueError(f"low: must be below high = {self.high:g}")
        return self

    def votes(
        self, who: Player | PlayerId, by: str, asked: Sequence[Answer]
    ) -> list[Vote]:
        """The votes of `who`, recorded as `by`: for each answer, in order, one a
        sample. All are asked in one batch.
        """
        rows = [
            (answer, self._seed(answer, by, sample))
            for answer in asked
            for sample in range(self.samples)
        ]
        if not rows:
            return []
        moves = self.judge_context.ask(
            who, [self._question(*row) for row in rows], [seed for _, seed in rows]
        )
        found = []
        for (answer, seed), move in zip(rows, moves, strict=True):
            said = reading(move, self._parser(seed))
            found.append(
                Vote(
                    by,
                    answer.turn.seat,
                    said.value,
                    "",
                    said.reason,
                    said.tokens,
                    said.cost,
                )
            )
        return found

    def word(
        self,
        match: Match,
        votes: Sequence[Vote],
        weight: Callable[[str], float] = lambda by: 1.0,
    ) -> Judgement:
        """The judgement on `match` that its votes give."""
        scores = self.scores(votes, weight)
        reasons = why_unanswered(match)
        asked = {vote.seat for vote in votes}
        if any(seat not in asked for seat in last_answers(match)):
            reasons.append("nobody was there to judge")
        for seat in [
            seat for seat in match.seats if seat in asked and seat not in scores
        ]:
            mine = [vote for vote in votes if vote.seat == seat]
            weightless = any(self.value(vote) is not None for vote in mine)
            reasons += (
                [WEIGHTLESS] if weightless else [fault(vote.reason) for vote in mine]
            )
        return self.judgement(
            match, scores or None, "; ".join(dict.fromkeys(reasons)), votes
        )

    def scores(
        self, votes: Sequence[Vote], weight: Callable[[str], float]
    ) -> dict[str, dict[str, float]]:
        """Seat -> {"score": Σ_k w_k s_k / Σ_k w_k} over judges k of weight w_k > 0, s_k
        the mean of k's grades.
        """
        grades: dict[str, dict[str, list[float]]] = {}
        for vote in votes:
            value = self.value(vote)
            if value is not None:
                grades.setdefault(vote.seat, {}).setdefault(vote.by, []).append(value)
        scores: dict[str, dict[str, float]] = {}
        for seat, by_judge in grades.items():
            weights = {by: weight(by) for by in by_judge if weight(by) > 0}
            total = sum(weights.values())
            if total > 0:
                means = {by: sum(by_judge[by]) / len(by_judge[by]) for by in weights}
                scores[seat] = {
                    "score": sum(weights[by] * means[by] for by in weights) / total
                }
        return scores

    def value(self, vote: Vote) -> float | None:
        """What a vote counts as, or None: a readable grade, or the midpoint for an
        unreadable one if that is set.
        """
        if (
            vote.value is None
            and self.unreadable == "midpoint"
            and not vote.reason.startswith(FAILED)
        ):
            return (self.low + self.high) / 2
        return vote.value

    def _seed(self, answer: Answer, by: str, sample: int) -> int:
        return seeds.child(
            self.judge_context.seed,
            "judge",
            self.name,
            answer.match.id,
            by,
            answer.turn.seat,
            sample,
        )

    def _question(self, answer: Answer, seed: int) -> View:
        messages = answer.turn.view.messages or answer.prompt.messages
        quoted = {
            "question": ("request", transcript(messages)),
            "answer": ("answer", answer.turn.move.text),
        }
        return self.view(answer.prompt, quoted, seed)

    def _parser(self, seed: int) -> Callable[[str], float | Unread]:
        return lambda reply: score(reply, self.low, self.high, self.code(seed))

    def _numbers(self) -> dict[str, float | str]:
        return {"low": f"{self.low:g}", "high": f"{self.high:g}"}
