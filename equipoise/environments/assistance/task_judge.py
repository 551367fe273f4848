"""Base of the judges of the assistant's tasks: an answer's grade, and its worth.

A grade is a number from 0 to 1, one of the few that the task knows; `score` is its worth to the
model, `user`, where a task tells the two apart, to the user. A grade that nobody gave is missing.
Source: GTAlign (arXiv 2510.08872), the table of tasks.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from equipoise.environments.assistance.game import PACKAGE
from equipoise.judges.base import Judge, reasons_without_answer
from equipoise.judges.grading import AnswerToGrade, GradeSettings, GradingByModels, answers_to_grade
from equipoise.judges.question import PLACEHOLDERS, Question, QuestionSettings, Quotes, brief_reason
from equipoise.judges.read_verdict import BOXED, SCORE_KEYS, Unread, read_score
from equipoise.players.base import Player
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Prompt, Vote

By = Literal["rule", "llm"]
Grade = float | str  # or why there is none


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """An answer with its grades, one a sample, and the votes behind them."""

    answer: AnswerToGrade
    grades: Sequence[Grade]
    votes: Sequence[Vote] = ()


class TaskJudge(GradeSettings, QuestionSettings, Judge):
    """Grades every seat's last answer by a rule, or as `grader` does.

    A task defines `grade_by_rule`, `gold` and the worth of a grade. Of several askings the worth is
    averaged. The grader's must be one of `grades` between `low` and `high`, or the answer is
    unjudged.
    """

    bounds: ClassVar = (0.0, 1.0)
    grades: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    """The grades that the task knows, between 0 and 1."""
    needs_label: ClassVar[bool] = False
    """Whether the fact must be true or false."""
    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "answer", "low", "high")

    by: By = Field(
        "rule", description="rule: by a rule; llm: by `grader`, which is asked with `text`"
    )
    grader: Player | None = Field(
        None, description="the judging model, a player that no seat holds; for by: llm"
    )
    low: float = Field(0.0, description="the worst grade that the grader may give; it counts as 0")
    high: float = Field(1.0, description="the best grade that the grader may give; it counts as 1")
    labels: tuple[Text, ...] = Field(
        (),
        description="words, besides score, rating and grade, under which a reply without a code "
        f"may have its grade: abg reads <abg>1</abg>, {BOXED} reads \\boxed{{1}}",
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needs_fact = type(self).model_fields["reference_fact"].default is not None
        if self.by == "llm" and self.grader is None:
            raise ValueError(
                "grader: by: llm needs a model to ask; name a player, or judge by: rule"
            )
        if self.unreadable != "missing":
            raise ValueError(
                "unreadable: a task's grade that cannot be read is missing; it pays nobody"
            )
        if needs_fact and not self.reference_fact:
            raise ValueError("reference_fact: names the fact that an answer is held against")
        for label in self.labels:
            if not label.isidentifier():
                raise ValueError(f"labels: {label!r} must be a word: letters, digits and _")
        return self

    @abstractmethod
    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """The grade of each gradable (prompt, answer), or the reason why it has none."""

    @abstractmethod
    def gold(self, prompt: Prompt, text: str) -> str:
        """The reference that the answer is held against, in words for the grader."""

    def utilities(self, prompt: Prompt, text: str, grade: float) -> dict[str, float]:
        """The worth of an answer with this grade: `score`, and `user` where that differs."""
        return {"score": grade}

    def quotes(self, answer: AnswerToGrade) -> Quotes:
        """The parts that the grader sees: the request itself, if apart from the chat."""
        request = str(answer.prompt.facts.get("request") or answer.chat)
        return {"question": ("request", request), "answer": ("answer", answer.text)}

    def why_ungradable(self, prompt: Prompt, text: str) -> str:
        """The reason why the answer cannot be judged; "" where the prompt has the fact."""
        return self.why_unjudgeable(prompt)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        fact = self.fact(prompt)
        if fact is None:
            return f"the prompt has no fact '{self.reference_fact}'"
        if self.needs_label and fact not in (True, False):
            return f"the fact '{self.reference_fact}' is {fact!r:.80}, not true or false"
        return ""

    def plain_grade(self, prompt: Prompt, text: str) -> float | None:
        """The grade of an answer that needs no rule and no model; None for any other."""
        return None

    def fact(self, prompt: Prompt) -> Any:
        return prompt.facts.get(str(self.reference_fact))

    def prepare(self) -> None:
        """Raise DataError for a template that cannot be used."""
        _ = self.question

    @cached_property
    def question(self) -> Question:
        """The grader's question. Raises DataError."""
        return self.question_with(
            self.placeholders, self.scale, needed=("answer",), package=PACKAGE
        )

    def questions(self, seats: int, pool: int) -> int:
        return seats * self.samples if self.by == "llm" else 0

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        answers = answers_to_grade(matches, prompts)
        graded = {
            (graded.answer.match.id, graded.answer.seat): graded
            for graded in self._grade_answers(answers)
        }
        by_match: dict[str, list[GradedAnswer]] = {match.id: [] for match in matches}
        for answer in answers:
            key = (answer.match.id, answer.seat)
            by_match[answer.match.id].append(graded[key])
        return [self._judgement(match, by_match[match.id]) for match in matches]

    def _grade_answers(self, answers: Sequence[AnswerToGrade]) -> list[GradedAnswer]:
        graded = []
        gradable = []
        for answer in answers:
            plain: Grade | None = self.why_ungradable(answer.prompt, answer.text)
            if not plain:
                plain = self.plain_grade(answer.prompt, answer.text)
            if plain is None:
                gradable.append(answer)
            else:
                graded.append(GradedAnswer(answer, [plain]))
        if not gradable:
            return graded
        by = self._model_grades if self.by == "llm" else self._rule_grades
        return graded + by(gradable)

    def _rule_grades(self, answers: Sequence[AnswerToGrade]) -> list[GradedAnswer]:
        grades = self.grade_by_rule([(answer.prompt, answer.text) for answer in answers])
        return [
            GradedAnswer(answer, [grade]) for answer, grade in zip(answers, grades, strict=True)
        ]

    def _model_grades(self, answers: Sequence[AnswerToGrade]) -> list[GradedAnswer]:
        assert self.grader is not None
        grading = GradingByModels(
            self.name, self.judge_context, self.question, self.samples, self._quotes, self._read
        )
        votes_on = grading.votes(self.grader, self.name, answers)
        return [
            GradedAnswer(answer, [self._grade(vote) for vote in votes], votes)
            for answer, votes in zip(answers, votes_on, strict=True)
        ]

    def _grade(self, vote: Vote) -> Grade:
        if vote.value is None:
            return brief_reason(vote.reason)
        return self._share(vote.value)

    def _judgement(self, match: Match, graded: Sequence[GradedAnswer]) -> Judgement:
        scores: dict[str, dict[str, float]] = {}
        reasons = reasons_without_answer(match)
        for graded_answer in graded:
            utilities = self._mean_utilities(graded_answer)
            if utilities:
                scores[graded_answer.answer.seat] = utilities
            else:
                reasons += [grade for grade in graded_answer.grades if isinstance(grade, str)]
        votes: list[Vote] = []
        for graded_answer in graded:
            votes.extend(graded_answer.votes)
        reason = "; ".join(dict.fromkeys(reasons))
        return self.judgement(match, scores or None, reason, votes)

    def _mean_utilities(self, graded: GradedAnswer) -> dict[str, float]:
        answer = graded.answer
        samples = [
            self.utilities(answer.prompt, answer.text, grade)
            for grade in graded.grades
            if not isinstance(grade, str)
        ]
        if not samples:
            return {}
        return {name: fmean(sample[name] for sample in samples) for name in samples[0]}

    def _share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def _quotes(self, answer: AnswerToGrade) -> Quotes:
        gold = self.gold(answer.prompt, answer.text)
        return {**self.quotes(answer), "reference": ("reference", gold)}

    def _read(self, reply: str, code: str) -> float | Unread:
        keys = (*SCORE_KEYS, *self.labels)
        alone = not code and not self.labels  # as released, a verdict ends a text
        verdict = read_score(reply, self.low, self.high, code, keys, alone)
        if isinstance(verdict, Unread):
            return verdict
        share = self._share(verdict)
        if any(abs(share - grade) < 1e-9 for grade in self.grades):
            return verdict
        width = self.high - self.low
        known = [f"{self.low + grade * width:g}" for grade in self.grades]
        return Unread(f"the verdict {verdict:g} is none of {', '.join(known)}")
