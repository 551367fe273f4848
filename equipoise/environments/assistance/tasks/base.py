"""What the judges of the assistant's tasks share: an answer's grade, by a rule or by a
model, and what it is worth.

A grade is a number from 0 to 1, one of the few that the task knows; `score` is what the
grade is worth to the model, `user`, where a task tells the two apart, what it is worth
to the user. A grade that nobody gave is missing. Source: GTAlign (arXiv 2510.08872),
the table of tasks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from equipoise.judges.base import Judge
from equipoise.judges.grading import (
    AnswerToGrade,
    GradeSettings,
    GradingByModels,
    answers_to_grade,
)
from equipoise.judges.last_answers import last_answers, why_unanswered
from equipoise.judges.question import (
    PLACEHOLDERS,
    Question,
    QuestionSettings,
    Quotes,
    brief_reason,
)
from equipoise.judges.read_verdict import BOXED, SCORE_KEYS, Unread, read_score
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Prompt, Vote

By = Literal["rule", "llm"]
Grade = float | str  # or why there is none


class Task(GradeSettings, QuestionSettings, Judge):
    """Grades every seat's last answer by a rule, or as `grader` does; a task defines
    `rule`, `gold` and what is paid.

    Where the grader is asked several times, what its grades are worth is averaged. Its
    grade must be one of `grades` between `low` and `high`: anything else could not be
    read, and an answer without a readable grade is unjudged.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "answer", "low", "high")

    by: By = Field(
        "rule",
        description="rule: by a rule; llm: by `grader`, which is asked with `text`",
    )
    grader: Player | None = Field(
        None, description="the judging model, a player that no seat holds; for by: llm"
    )
    low: float = Field(
        0.0, description="the worst grade that the grader may give; it counts as 0"
    )
    high: float = Field(
        1.0, description="the best grade that the grader may give; it counts as 1"
    )
    labels: tuple[str, ...] = Field(
        (),
        description="words, besides score, rating and grade, under which a reply without a code may have its grade: "
        f"abg reads <abg>1</abg>, {BOXED} reads \\boxed{{1}}",
    )

    @model_validator(mode="after")
    def _can_be_asked(self) -> Task:
        if self.by == "llm" and self.grader is None:
            raise ValueError(
                "grader: by: llm needs a model to ask; name a player, or judge by: rule"
            )
        if self.unreadable != "missing":
            raise ValueError(
                "unreadable: a task's grade that cannot be read is missing; it pays nobody"
            )
        if (
            not self.reference_fact
            and type(self).model_fields["reference_fact"].default
        ):
            raise ValueError(
                "reference_fact: names the fact that an answer is held against"
            )
        if faulty := [label for label in self.labels if not label.isidentifier()]:
            raise ValueError(f"labels: {faulty[0]!r} is no word")
        return self

    def prepare(self) -> None:
        """Raises DataError for a template that cannot be used."""
        _ = self.question

    @cached_property
    def question(self) -> Question:
        """What the grader is asked. Raises DataError."""
        return self.question_with(
            self.placeholders,
            self.scale,
            needed=("answer",),
            package="equipoise.environments.assistance",
        )

    @abstractmethod
    def rule(self, asked: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """The grade of each (prompt, answer) by the rule, or why it has none; `lacking`
        says nothing of them.
        """

    @abstractmethod
    def gold(self, prompt: Prompt, text: str) -> str:
        """What the answer is held against, in words for the grader."""

    def lacking(self, prompt: Prompt, text: str) -> str:
        """Why the answer cannot be judged, whoever judges; "" where it can: the prompt
        has the fact.
        """
        return (
            ""
            if self.fact(prompt) is not None
            else f"the prompt has no fact '{self.reference_fact}'"
        )

    def fact(self, prompt: Prompt) -> Any:
        """What the prompt says under `reference_fact`, None where it says nothing."""
        return prompt.facts.get(str(self.reference_fact))

    def paid(self, prompt: Prompt, text: str, grade: float) -> dict[str, float]:
        """The utilities of an answer with this grade: `score`, and `user` where it is
        another.
        """
        return {"score": grade}

    def questions(self, seats: int, pool: int) -> int:
        """One a seat and sample, none by the rule."""
        return seats * self.samples if self.by == "llm" else 0

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        answers = answers_to_grade(matches, prompts)
        lacking = [self.lacking(answer.prompt, answer.text) for answer in answers]
        gradable = [
            answer for answer, lack in zip(answers, lacking, strict=True) if not lack
        ]
        by = self._grades_by_model if self.by == "llm" else self._grades_by_rule
        graded = iter(by(gradable))
        by_match: dict[str, dict[str, tuple[list[Grade], list[Vote]]]] = {
            match.id: {} for match in matches
        }
        for answer, lack in zip(answers, lacking, strict=True):
            by_match[answer.match.id][answer.seat] = (
                ([lack], []) if lack else next(graded)
            )
        return [
            self._said(match, prompts[match.prompt], by_match[match.id])
            for match in matches
        ]

    def _grades_by_rule(
        self, answers: Sequence[AnswerToGrade]
    ) -> Iterator[tuple[list[Grade], list[Vote]]]:
        """For each answer its grade, and no vote."""
        if answers:
            for grade in self.rule(
                [(answer.prompt, answer.text) for answer in answers]
            ):
                yield [grade], []

    def _grades_by_model(
        self, answers: Sequence[AnswerToGrade]
    ) -> Iterator[tuple[list[Grade], list[Vote]]]:
        """For each answer the grades of its samples, and the votes behind them."""
        assert self.grader is not None
        grading = GradingByModels(
            self.name,
            self.judge_context,
            self.question,
            self.samples,
            self._quotes,
            self._read,
        )
        for votes in grading.votes(self.grader, self.name, answers):
            grades: list[Grade] = []
            for vote in votes:
                if vote.value is None:
                    grades.append(brief_reason(vote.reason))
                else:
                    grades.append(self._share(vote.value))
            yield grades, votes

    def _said(
        self,
        match: Match,
        prompt: Prompt,
        found: Mapping[str, tuple[Sequence[Grade], Sequence[Vote]]],
    ) -> Judgement:
        """The judgement on `match`: seat -> (its grades, the votes behind them)."""
        scores: dict[str, dict[str, float]] = {}
        reasons = why_unanswered(match)
        texts = {seat: turn.move.text for seat, turn in last_answers(match).items()}
        for seat, (grades, _) in found.items():
            worth = [
                self.paid(prompt, texts[seat], grade)
                for grade in grades
                if not isinstance(grade, str)
            ]
            if worth:
                scores[seat] = {
                    name: fmean(one[name] for one in worth) for name in worth[0]
                }
            else:
                reasons += [grade for grade in grades if isinstance(grade, str)]
        votes = [vote for _, mine in found.values() for vote in mine]
        return self.judgement(
            match, scores or None, "; ".join(dict.fromkeys(reasons)), votes
        )

    def _share(self, said: float) -> float:
        return (said - self.low) / (self.high - self.low)

    def _quotes(self, answer: AnswerToGrade) -> Quotes:
        prompt, text = answer.prompt, answer.text
        return {
            **self.shown(prompt, text, answer.chat),
            "reference": ("reference", self.gold(prompt, text)),
        }

    def shown(self, prompt: Prompt, text: str, chat: str) -> dict[str, tuple[str, str]]:
        """Placeholder -> (label, what the grader sees): the request itself, where the
        data set knows it apart.

        `chat` is all that the seat was asked, which may stand among the instructions of
        a game.
        """
        return {
            "question": ("request", str(prompt.facts.get("request") or chat)),
            "answer": ("answer", text),
        }

    def _read(self, reply: str, code: str) -> float | Unread:
        keys = (*SCORE_KEYS, *self.labels)
        verdict = read_score(reply, self.low, self.high, code, keys)
        if isinstance(verdict, Unread):
            return verdict
        share = self._share(verdict)
        if any(abs(share - grade) < 1e-9 for grade in self.grades):
            return verdict
        known = ", ".join(
            f"{self.low + grade * (self.high - self.low):g}" for grade in self.grades
        )
        return Unread(f"the verdict {verdict:g} is none of {known}")


def why_no_label(task: Task, prompt: Prompt) -> str:
    """Why the fact that `task` needs is not true or false; "" where it is."""
    value = task.fact(prompt)
    if value is None:
        return f"the prompt has no fact '{task.reference_fact}'"
    if value in (True, False):
        return ""
    return f"the fact '{task.reference_fact}' is {value!r:.80}, not true or false"
