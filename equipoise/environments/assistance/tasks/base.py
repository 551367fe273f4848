"""What the judges of the assistant's tasks share: an answer's grade, by a rule or by a
model, and what it is worth.

A grade is a number from 0 to 1, one of the few that the task knows; `score` is what the
grade is worth to the model, `user`, where a task tells the two apart, what it is worth
to the user. A grade that nobody gave is missing. Source: GTAlign (arXiv 2510.08872),
the table of tasks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from equipoise.judges.answered import last_answers, why_unanswered
from equipoise.judges.grading import Answer, Grading, answers
from equipoise.judges.quoting import transcript
from equipoise.judges.seated import fault
from equipoise.judges.verdicts import BOXED, SCORE_KEYS, Unread, score
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Prompt, View, Vote

By = Literal["rule", "llm"]
Grade = float | str  # or why there is none


class Task(Grading):
    """Grades every seat's last answer by a rule, or as `grader` does; a task defines
    `rule`, `gold` and what is paid.

    Where the grader is asked several times, what its grades are worth is averaged. Its
    grade must be one of `grades` between `low` and `high`: anything else could not be
    read, and an answer without a readable grade is unjudged.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 1.0)
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
        asked = answers(matches, prompts)
        lacking = [
            self.lacking(answer.prompt, answer.turn.move.text) for answer in asked
        ]
        gradable = [
            answer for answer, lack in zip(asked, lacking, strict=True) if not lack
        ]
        graded = iter(
            self._asked(gradable) if self.by == "llm" else self._ruled(gradable)
        )
        found: dict[str, dict[str, tuple[list[Grade], list[Vote]]]] = {
            match.id: {} for match in matches
        }
        for answer, lack in zip(asked, lacking, strict=True):
            found[answer.match.id][answer.turn.seat] = (
                ([lack], []) if lack else next(graded)
            )
        return [
            self._said(match, prompts[match.prompt], found[match.id])
            for match in matches
        ]

    def _ruled(
        self, asked: Sequence[Answer]
    ) -> Iterable[tuple[list[Grade], list[Vote]]]:
        grades = (
            self.rule([(answer.prompt, answer.turn.move.text) for answer in asked])
            if asked
            else []
        )
        return [([grade], []) for grade in grades]

    def _asked(
        self, asked: Sequence[Answer]
    ) -> Iterable[tuple[list[Grade], list[Vote]]]:
        assert self.grader is not None
        votes = iter(self.votes(self.grader, self.name, asked))
        for _ in asked:
            mine = [next(votes) for _ in range(self.samples)]
            yield (
                [
                    fault(vote.reason)
                    if vote.value is None
                    else self._share(vote.value)
                    for vote in mine
                ],
                mine,
            )

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

    def _question(self, answer: Answer, seed: int) -> View:
        prompt, text = answer.prompt, answer.turn.move.text
        chat = transcript(answer.turn.view.messages or prompt.messages)
        quoted = {
            **self.shown(prompt, text, chat),
            "reference": ("reference", self.gold(prompt, text)),
        }
        return self.view(prompt, quoted, seed)

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

    def _parser(self, seed: int) -> Callable[[str], float | Unread]:
        keys = (*SCORE_KEYS, *self.labels)

        def parse(reply: str) -> float | Unread:
            said = score(reply, self.low, self.high, self.code(seed), keys)
            if isinstance(said, Unread) or any(
                abs(self._share(said) - grade) < 1e-9 for grade in self.grades
            ):
                return said
            known = ", ".join(
                f"{self.low + grade * (self.high - self.low):g}"
                for grade in self.grades
            )
            return Unread(f"the verdict {said:g} is none of {known}")

        return parse


class Labelled(Task):
    """A task whose fact is a label, true or false."""

    def lacking(self, prompt: Prompt, text: str) -> str:
        """Why the answer cannot be judged; "" where the fact is there, and true or
        false.
        """
        value = self.fact(prompt)
        wrong = f"the fact '{self.reference_fact}' is {value!r:.80}, not true or false"
        return super().lacking(prompt, text) or (
            "" if value in (True, False) else wrong
        )
