"""A proposer writes questions for others to answer, and is paid where they are neither too easy nor
too hard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, Literal, Self

from msgspec import structs
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.environments.verdicts.prover_verifier import GradedSettings, check_shares
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.games.base import Ask, Game, Referee
from equipoise.judges.base import Judge, JudgeContext, last_answers
from equipoise.judges.question import Reading
from equipoise.judges.rules import plain_text
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Move, Prompt, Turn, View, record_id, user

PROPOSER, GUIDE, ANSWER = "proposer", "guide", "answer"


class Challenge(GradedSettings, Game):
    """The proposer writes a question from a blank prompt, and `answers` seats answer it.

    A prompt with a text is a question already. A blank question is answered by nobody, nor is one
    that the guide vetoes, by a grade below `least`, but for the share `leak` of these. The
    schedule's `replay` asks questions of earlier generations again that were worth something: the
    pool of questions, which grows. Sources: arXiv 2508.05004 (R-Zero); of the gate, arXiv
    2605.22217.
    """

    kind: Literal["challenge"] = "challenge"
    answers: int = Field(4, ge=2, description="answers to each question")
    opening: Text = Field(
        "Write question {number} of a series in which no two are alike. A good student should get "
        "it right about every other time. It must have one right answer that follows from the "
        "question alone. Write the question and nothing else.",
        description="what the proposer is told; {number} is the blank's",
    )
    guide: bool = Field(
        False, description="a seat of the role `guide` grades each question and may veto it"
    )
    least: float = Field(5.0, description="the guide's least grade for a question that is asked")
    leak: float = Field(
        0.0,
        ge=0,
        le=1,
        description="the share of vetoed questions that are asked all the same: 0 is a strict "
        "gate, 1 none",
    )
    criteria: Text = Field(
        "Is the answer, which is a question for students, clear, with one right answer that "
        "follows from it alone?",
        description="what counts for the guide, in words",
    )

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.guide and not self.low < self.least <= self.high:
            raise ValueError(
                f"least: {self.least:g} vetoes every question or none, since the guide grades from "
                f"low = {self.low:g} to high = {self.high:g}"
            )
        if self.leak and not self.guide:
            raise ValueError("leak: is read with a guide alone, who vetoes; set guide: true")
        return self

    @property
    def answer_seats(self) -> tuple[str, ...]:
        """`answer 1`, `answer 2`, …"""
        return tuple(f"{ANSWER} {n}" for n in range(1, self.answers + 1))

    @property
    def seats(self) -> tuple[str, ...]:
        return (PROPOSER, *([GUIDE] if self.guide else []), *self.answer_seats)

    def role(self, seat: str) -> str:
        return seat.split()[0]

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        return self.seats if self.rewritable(prompt) else self.answer_seats

    @property
    def rewriter(self) -> str:
        return PROPOSER

    def rewritable(self, prompt: Prompt) -> bool:
        return not prompt.messages

    def check_raw(self) -> None:
        """Raises ConfigError: a blank asks nothing."""
        raise ConfigError("schedule.raw: a blank cannot be asked as it is; set raw: 0")

    def successful_texts(self, match: Match, judgements: Sequence[Judgement]) -> list[str]:
        paid = any((judgement.score(PROPOSER, "score") or 0) > 0 for judgement in judgements)
        proposed = [turn for turn in match.turns if turn.seat == PROPOSER]
        return [turn.move.text.strip() for turn in proposed if paid]

    def referee(self, prompt: Prompt) -> Referee:
        messages = prompt.messages
        if not messages:
            number = str(prompt.facts.get("number", ""))
            request = user(self.opening.replace("{number}", number))
            proposed = yield Ask(PROPOSER, View((request,)))
            assert isinstance(proposed, Move)
            text = proposed.text.strip()
            if proposed.finish == "error" or not text:
                return
            messages = (user(text),)
            if self.guide:
                view = self.grading_view((request,), text)
                reply = yield Ask(GUIDE, view)
                assert isinstance(reply, Move)
                vetoed = self.vetoes(self.grade(Turn(GUIDE, view, reply)))
                if vetoed and not self.leaks(prompt, text):
                    return
        yield [Ask(seat, View(messages)) for seat in self.answer_seats]

    def vetoes(self, grade: Reading) -> bool:
        """True for a readable grade below `least`."""
        return grade.value is not None and grade.value < self.share_of(self.least)

    def leaks(self, prompt: Prompt, text: str) -> bool:
        """True for a vetoed question that is asked all the same, by a die of its blank and text."""
        if not self.leak:
            return False
        return bool(seeds.generator(0, "leak", prompt.id, text).random() < self.leak)


class ChallengeJudge(Judge):
    """Pays answers for being right, and the proposer for a question that is worth learning from.

        an answer:     what `answers` gives it, in [0, 1]; without `answers`, 1 where it is the most
                       common one (of several the first), as plain text, else 0;
                       a blank one is 0
        the proposer:  1 − 2|p − ½|, p the mean of the answers; 0 for a blank question, and for a
                       vetoed one that nobody was asked

    The proposer's utilities are `score`, `right` (p), `vetoed` and, of a game that leaks, `leaked`.
    The guide is not paid.
    """

    kind: Literal["challenge"] = "challenge"
    whole_matches: ClassVar[bool] = True
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score", "right", "vetoed", "leaked")
    answers: Judge | None = Field(
        None, description="who says which answers are right: a rule, a model; null: the majority"
    )

    def at(self, judge_context: JudgeContext) -> Self:
        game = judge_context.game
        if not isinstance(game, Challenge):
            raise ConfigError(f"judge: 'challenge' judges the game challenge; this is {game.kind}")
        inner = replace(judge_context, game=Answers(samples=game.answers))
        answers = self.answers and self.answers.at(inner)
        check_shares("answers", answers)
        return super().at(judge_context).model_copy(update={"answers": answers})

    def inner_judges(self) -> Sequence[Judge]:
        return [self.answers] if self.answers else []

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """Of those with a text: what a blank will ask nobody knows yet."""
        return super().faults_of_prompts([prompt for prompt in prompts if prompt.messages])

    def questions(self, seats: int, pool: int) -> int:
        return self.answers.questions(seats - 1, pool) if self.answers else 0

    def judged_seats(self, match: Match) -> Collection[str]:
        moved = {turn.seat for turn in match.turns}
        return [seat for seat in match.seats if seat != GUIDE and seat in {PROPOSER, *moved}]

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        parts = [answers_of(match, prompts[match.prompt]) for match in matches]
        if self.answers is None:
            golds = [self.judgement(part, by_majority(part)) for part, _ in parts]
        else:
            by_id = {prompt.id: prompt for _, prompt in parts}
            golds = self.answers.checked_judgements([part for part, _ in parts], by_id)
        return list(map(self._judge, matches, golds))

    def _judge(self, match: Match, gold: Judgement) -> Judgement:
        game = self.judge_context.game
        assert isinstance(game, Challenge)
        turns = match.last_turns()
        right = gold.by_seat("score")
        if any(not 0 <= value <= 1 for value in right.values()):
            raise ConfigError("judge.answers: its scores must lie between 0 and 1, as shares do")
        scores = {seat: {"score": value} for seat, value in right.items()}
        reasons = [gold.reason] if gold.reason and len(match.turns) > 1 else []
        votes = list(gold.votes)
        vetoed = False
        leaked = False
        if GUIDE in turns:
            grade = game.grade(turns[GUIDE])
            votes.append(grade.vote(str(match.seats[GUIDE]), PROPOSER))
            below = game.vetoes(grade)
            leaked = below and any(turn.seat.startswith(ANSWER) for turn in match.turns)
            vetoed = below and not leaked
        if PROPOSER in turns:
            proposed = turns[PROPOSER].move
            if proposed.finish == "error":
                reasons.append(f"the move failed: {proposed.error}")
            elif vetoed or not proposed.text.strip():
                scores[PROPOSER] = {"score": 0.0, "vetoed": float(vetoed)}
            elif right:
                p = fmean(right.values())
                paid = {"score": 1 - 2 * abs(p - 0.5), "right": p, "vetoed": 0.0}
                if game.leak:
                    paid["leaked"] = float(leaked)
                scores[PROPOSER] = paid
        return self.judgement(match, scores or None, "; ".join(reasons), votes)


def answers_of(match: Match, prompt: Prompt) -> tuple[Match, Prompt]:
    """The answers as a match of their own, and the question that they were given."""
    turns = tuple(turn for turn in match.turns if turn.seat.startswith(ANSWER))
    messages = turns[0].view.messages if turns else ()
    identity = record_id("question", match.id)
    seats = {turn.seat: match.seats[turn.seat] for turn in turns}
    part = structs.replace(match, game="answers", prompt=identity, seats=seats, turns=turns)
    return part, Prompt(identity, messages, prompt.facts, prompt.source)


def by_majority(part: Match) -> dict[str, dict[str, float]]:
    texts = {seat: plain_text(turn.move.text) for seat, turn in last_answers(part).items()}
    common = Counter(filter(None, texts.values())).most_common(1)
    most = common[0][0] if common else None
    return {seat: {"score": float(text == most)} for seat, text in texts.items()}
