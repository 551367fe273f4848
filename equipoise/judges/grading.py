"""Judges that have models grade each answer alone: settings, questions, scores, and the rubric."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import ClassVar, Literal, Self

import msgspec
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.judges.base import (
    Grades,
    Judge,
    JudgeContext,
    Questions,
    comparable,
    last_answers,
    mean_grades,
    reasons_without_answer,
)
from equipoise.judges.question import (
    FAILED,
    PLACEHOLDERS,
    UNREADABLE,
    Question,
    QuestionSettings,
    Quotes,
    Reading,
    brief_reason,
    control_tokens_of,
    read_move,
)
from equipoise.judges.quoting import transcript
from equipoise.judges.read_verdict import Unread, read_score, read_score_as_released
from equipoise.players.base import Player, WordProbabilities, WordReader
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, Vote

MOST_WORDS = 20  # grades of which the next token is read
WEIGHTLESS = "none of those who voted has a weight"
INCOMPLETE = "no judge graded all the answers"
RELEASED = 5.0
"""The grade of both answers where SPARTA's released code could not read one."""


@dataclass(frozen=True, slots=True)
class AnswerToGrade:
    """One answer to be graded: a seat's last turn, and the prompt of its match."""

    match: Match
    prompt: Prompt
    turn: Turn

    @property
    def seat(self) -> str:
        return self.turn.seat

    @property
    def text(self) -> str:
        return self.turn.move.text

    @property
    def chat(self) -> str:
        """All that the seat was asked, as one text."""
        return transcript(self.turn.view.messages or self.prompt.messages)


def answers_to_grade(
    matches: Sequence[Match], prompts: Mapping[str, Prompt]
) -> list[AnswerToGrade]:
    """Every seat's last answer; `prompts` by id."""
    return [
        AnswerToGrade(match, prompts[match.prompt], turn)
        for match in matches
        for turn in last_answers(match).values()
    ]


Grader = tuple[Player | PlayerId, str, Sequence[AnswerToGrade]]
"""A judging model, the name under which it votes, and the answers that it grades."""


@dataclass(frozen=True, slots=True)
class RepliedGrade:
    """A vote with the question that it answers and the reply, "" where a token was read."""

    vote: Vote
    view: View
    reply: str


class GradeSettings(Settings):
    """Settings of judges by grades, which ask `samples` questions per answer."""

    low: float = Field(default=1.0, description="the worst grade")
    high: float = Field(default=10.0, description="the best grade")
    samples: int = Field(
        default=1,
        ge=1,
        description="times that each judge is asked about an answer; the mean counts",
    )
    unreadable: Literal["missing", "midpoint", "as_released"] = Field(
        default="missing",
        description="a reply without a readable grade is no vote (missing), counts as "
        "(low + high) / 2 (midpoint), or makes all grades that this judge gave to the "
        "match's answers in that sample 5, as SPARTA's released code has it, and a single grade "
        "that failed to come 5 alone",
    )
    grade_reading: Literal["strict", "as_released"] = Field(
        default="strict",
        description="strict: one clear grade, with its question's code; as_released: SPARTA's "
        "reading, which takes the first whole number behind `score` or before /10 wherever it "
        "stands, cuts 8.9 to 8, and needs no code, so that an answer can plant a grade",
    )

    @model_validator(mode="after")
    def _make_a_scale(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low: must be below high = {self.high:g}")
        if self.unreadable == "as_released" and not self.low <= RELEASED <= self.high:
            raise ValueError(
                f"unreadable: as_released counts as {RELEASED:g}, which lies outside "
                f"{self.low:g} to {self.high:g}; use midpoint"
            )
        return self

    @property
    def scale(self) -> dict[str, str]:
        return {"low": f"{self.low:g}", "high": f"{self.high:g}"}


@dataclass(frozen=True, slots=True)
class GradingByModels:
    """Asks models for grades, `samples` for each answer, on behalf of one judge.

    judge: the judge's name, which goes into the seeds. quotes: gives the parts of an answer that
    are shown. read: takes a reply and the code of its question, and gives the grade. next_token:
    the grades of which the next token's probabilities are read, where the grader has some; none:
    the grade stands in its reply.
    """

    judge: str
    context: JudgeContext
    question: Question
    samples: int
    quotes: Callable[[AnswerToGrade], Quotes]
    read: Callable[[str, str], float | Unread]
    next_token: Sequence[int] = ()

    def votes(
        self, grader: Player | PlayerId, by: str, answers: Sequence[AnswerToGrade]
    ) -> list[list[Vote]]:
        """A vote of `by` per sample for each answer, in order, asked for in one batch."""
        return [
            [grade.vote for grade in grades]
            for grades in self.grades_of_several([(grader, by, answers)])[0]
        ]

    def grades_of_several(self, graders: Sequence[Grader]) -> list[list[list[RepliedGrade]]]:
        """The votes with their replies; all samples of a grader on an answer share a question."""
        rows_of: list[list[tuple[AnswerToGrade, int]]] = []
        questions: list[Questions] = []
        for grader, by, answers in graders:
            rows: list[tuple[AnswerToGrade, int]] = []
            dice: list[int] = []
            for answer, sample in product(answers, range(self.samples)):
                about = (self.judge, answer.match.id, by, answer.seat)
                rows.append((answer, seeds.child(self.context.seed, "judge", *about, 0)))
                dice.append(seeds.child(self.context.seed, "judge", *about, sample))
            tokens = control_tokens_of(self.context.actor(grader)) if rows else ()
            views = [self.question.view(self.quotes(answer), seed, tokens) for answer, seed in rows]
            rows_of.append(rows)
            questions.append((grader, views, dice))
        written = [question for question in questions if self._word_reader(question) is None]
        moves = iter(self.context.ask_together(written))
        grades_of: list[list[list[RepliedGrade]]] = []
        for (_, by, _), rows, question in zip(graders, rows_of, questions, strict=True):
            reader = self._word_reader(question)
            if reader is None:
                replies = next(moves)
                readings = list(map(self._reading, rows, question[1], replies))
                texts = [move.text for move in replies]
            else:
                words = list(map(str, self.next_token))
                beginnings = self.context.read_words(reader, question[1], words)
                readings = [read_beginning(each, self.next_token) for each in beginnings]
                texts = [""] * len(rows)
            grades = [
                RepliedGrade(reading.vote(by, answer.seat), view, text)
                for (answer, _), reading, view, text in zip(
                    rows, readings, question[1], texts, strict=True
                )
            ]
            starts = range(0, len(grades), self.samples)
            grades_of.append([grades[start : start + self.samples] for start in starts])
        return grades_of

    def _word_reader(self, question: Questions) -> WordReader | None:
        """The actor whose next token is read; None: its reply is."""
        grader, views, _ = question
        if not views or not self.next_token:
            return None
        actor = self.context.actor(grader)
        return actor if isinstance(actor, WordReader) else None

    def _reading(self, row: tuple[AnswerToGrade, int], view: View, move: Move) -> Reading:
        answer, _ = row
        code = self.question.code(view)
        reply = answer_of(move).text
        if code or reply.strip() != self.question.quoted_text(answer.text, view).strip():
            return read_move(move, self.read, code)
        # A number that is the answer's, or the judge's: nobody can tell.
        repeated = Unread("the reply repeats the answer")
        return read_move(move, lambda reply, code: repeated, code)


class GradingJudge(GradeSettings, QuestionSettings, Judge):
    """The base of judges whose scores are the grades that models give."""

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "answer", "low", "high")
    known_utilities: ClassVar = ("score",)

    text: TemplateText = Field(
        default="rubric",
        description="the question's template: a file, or a packaged one (rubric, or "
        "rubric_compact for small models)",
    )

    verdict: Literal["auto", "reply", "next_token"] = Field(
        default="auto",
        description="where the grade is read: in the reply, or in the probabilities of "
        "the judge's next token, which nothing that it quotes can forge (the grade is "
        "then their mean); auto: next_token where the template asks for no code and the "
        "judge is a local model, else reply",
    )

    def prepare(self) -> None:
        _ = self.question
        if self.verdict == "next_token" and not whole_grades(self.low, self.high):
            raise ConfigError(
                f"judge.verdict: next_token needs whole grades, {MOST_WORDS} at most, "
                f"between low = {self.low:g} and high = {self.high:g}"
            )

    @property
    def read_by_next_token(self) -> tuple[int, ...]:
        """The grades of which the next token is read, where the judge has one to read."""
        wanted = self.verdict == "next_token"
        if self.verdict == "auto":
            wanted = not self.question.asks_for_code
        return whole_grades(self.low, self.high) if wanted else ()

    @cached_property
    def question(self) -> Question:
        """The template of the question. Raises DataError."""
        return self.question_with(("answer",), self.scale, needed=("answer",))

    @property
    def grading(self) -> GradingByModels:
        """The questions about answers, asked in this judge's context."""
        return GradingByModels(
            self.name,
            self.judge_context,
            self.question,
            self.samples,
            self._quotes,
            self._read,
            self.read_by_next_token,
        )

    @property
    def score_range(self) -> tuple[float, float]:
        return self.low, self.high

    def grades_by_votes(self, votes: Sequence[Vote]) -> Grades:
        """Mean grades of each answer by judge; unreadable votes as set, failed ones never."""
        if self.unreadable == "missing":
            return mean_grades(votes)
        spoiled = {
            (vote.by, sample) for vote, sample in _with_samples(votes) if _is_unreadable(vote)
        }
        counted: list[Vote] = []
        for vote, sample in _with_samples(votes):
            value = vote.value
            if self.unreadable == "midpoint" and _is_unreadable(vote):
                value = (self.low + self.high) / 2
            failed = vote.value is None and vote.reason.startswith(FAILED)
            if self.unreadable == "as_released" and (failed or (vote.by, sample) in spoiled):
                value = RELEASED
            counted.append(msgspec.structs.replace(vote, value=value))
        return mean_grades(counted)

    def judgement_by_votes(
        self, match: Match, votes: Sequence[Vote], weight: Callable[[str], float] = lambda by: 1.0
    ) -> Judgement:
        """The judgement on `match` that its votes give."""
        scores = self.scores(votes, weight)
        reasons = reasons_without_answer(match)
        voted_on = {vote.seat for vote in votes}
        if any(seat not in voted_on for seat in last_answers(match)):
            reasons.append("nobody was there to judge")
        for seat in match.seats:
            if seat in voted_on and seat not in scores:
                on_seat = [vote for vote in votes if vote.seat == seat]
                reasons += self._why_unscored(on_seat, votes)
        reason = "; ".join(dict.fromkeys(reasons))
        return self.judgement(match, scores or None, reason, votes)

    def scores(
        self, votes: Sequence[Vote], weight: Callable[[str], float]
    ) -> dict[str, dict[str, float]]:
        """Seat -> {"score": Σ_k w_k s_k / Σ_k w_k}, over judges k of weight w_k > 0.

        s_k is the mean of k's grades; only those count who graded all the answers.
        """
        grades = comparable(self.grades_by_votes(votes))
        weights = {by: weight(by) for by in grades if weight(by) > 0}
        total = sum(weights.values())
        if total <= 0:
            return {}
        seats = dict.fromkeys(chain.from_iterable(grades.values()))
        scores: dict[str, dict[str, float]] = {}
        for seat in seats:
            weighted = sum(weights[by] * grades[by][seat] for by in weights)
            scores[seat] = {"score": weighted / total}
        return scores

    def _why_unscored(self, votes: Sequence[Vote], of_match: Sequence[Vote]) -> list[str]:
        """Reasons why votes on one answer make no score; `of_match`: on all its answers."""
        grades = self.grades_by_votes(of_match)
        if any(votes[0].seat in by_seat for by_seat in grades.values()):
            return [WEIGHTLESS if comparable(grades) else INCOMPLETE]
        return [brief_reason(vote.reason) for vote in votes]

    def _quotes(self, answer: AnswerToGrade) -> Quotes:
        return {
            "question": ("request", answer.chat),
            "answer": ("answer", answer.text),
            "reference": ("reference", self.reference(answer.prompt)),
        }

    def _read(self, reply: str, code: str) -> float | Unread:
        if self.grade_reading == "as_released":
            return read_score_as_released(reply)
        return read_score(reply, self.low, self.high, code, alone=not code)


def _with_samples(votes: Sequence[Vote]) -> Iterator[tuple[Vote, int]]:
    """Each vote with its place among its judge's votes on that answer."""
    places: Counter[tuple[str, str]] = Counter()
    for vote in votes:
        yield vote, places[vote.by, vote.seat]
        places[vote.by, vote.seat] += 1


def _is_unreadable(vote: Vote) -> bool:
    return vote.value is None and not vote.reason.startswith(FAILED)


def whole_grades(low: float, high: float) -> tuple[int, ...]:
    """The grades whose probabilities can be read; none where they are too many."""
    first, last = math.ceil(low), math.floor(high)
    return tuple(range(first, last + 1)) if last - first < MOST_WORDS else ()


def read_beginning(beginning: WordProbabilities | str, grades: Sequence[int]) -> Reading:
    """The mean grade Σ_g g·p(g) / Σ_g p(g) by the next token; None where it is no grade.

    The judge writes nothing, so nothing that it might quote can be taken for its verdict.
    """
    if isinstance(beginning, str):
        return Reading(None, f"{FAILED}: {beginning}")
    tokens = beginning.prompt_tokens
    total = sum(beginning.probabilities)
    if not beginning.known or not total > 0:
        reason = f"{UNREADABLE}: the reply would begin with {beginning.likeliest!r}"
        return Reading(None, reason, tokens)
    pairs = zip(grades, beginning.probabilities, strict=True)
    return Reading(sum(grade * p for grade, p in pairs) / total, "", tokens)


class Rubric(GradingJudge):
    """Scores every seat's last answer as `model` grades it, from `low` to `high`.

    An unreadable reply is a vote without a value; without readable votes there is no score.
    """

    kind: Literal["rubric"] = "rubric"
    model: Player = Field(description="the judging model, a player that no seat holds")

    def questions(self, seats: int, pool: int) -> int:
        return seats * self.samples

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        answers = answers_to_grade(matches, prompts)
        votes_on = self.grading.votes(self.model, self.name, answers)
        by_match: dict[str, list[Vote]] = defaultdict(list)
        for answer, votes in zip(answers, votes_on, strict=True):
            by_match[answer.match.id] += votes
        return [self.judgement_by_votes(match, by_match[match.id]) for match in matches]
