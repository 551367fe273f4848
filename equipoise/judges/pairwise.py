"""Judges that compare answers to one prompt, or whole matches' seats, two at a time."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, JudgeContext, last_answers, reasons_without_answer
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
from equipoise.judges.read_verdict import Abstained, Unread, read_choice
from equipoise.players.base import Player
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, Message, Prompt, Vote

Flip = Literal["missing", "tie", "mean"]
ROUNDS = 3  # of compare: swiss, where none are set
PROBABILITY: Mapping[str, float] = {"A": 1.0, "B": 0.0, "tie": 0.5}
ABSTAINS = "unclear"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question: which of two answers to `messages` is better? `seed` is the question's own.

    `match` and `seats` say where the two were given, where the judge asks about a recorded match.
    """

    prompt: Prompt
    messages: tuple[Message, ...]
    first: str
    second: str
    seed: int
    match: Match | None = None
    seats: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Contest:
    """The comparisons of a group's seats so far, by (seat shown first, seat shown second).

    `order` is random; `alike` are pairs of seats whose answers are the same.
    """

    match: Match
    order: Sequence[str]
    alike: Collection[frozenset[str]]
    readings: dict[tuple[str, str], Reading] = field(default_factory=dict)

    def results(self, flip: Flip) -> dict[tuple[str, str], float | str]:
        """Each two seats that met: P(the first beats the second), or why it is not known."""
        results: dict[tuple[str, str], float | str] = {}
        for (first, second), reading in self.readings.items():
            backward = self.readings.get((second, first))
            if (second, first) in results:
                continue
            if frozenset((first, second)) in self.alike:
                results[first, second] = 0.5
            elif backward is not None:
                results[first, second] = combine_orders(reading, backward, flip)
            else:
                value = reading.value
                results[first, second] = reading.reason if value is None else value
        return results

    def standing(self, flip: Flip) -> list[str]:
        """The seats, best first: by the sum of P − ½; what is not known counts nothing."""
        points = dict.fromkeys(self.order, 0.0)
        for (first, second), p in self.results(flip).items():
            if not isinstance(p, str):
                points[first] += p - 0.5
                points[second] -= p - 0.5
        return sorted(self.order, key=lambda seat: -points[seat])


def circle(seats: Sequence[str]) -> list[tuple[str, str]]:
    """Each seat and the next, the last and the first: each is shown first once, second once.

    >>> circle("abc")
    [('a', 'b'), ('b', 'c'), ('c', 'a')]
    """
    return list(zip(seats, [*seats[1:], *seats[:1]], strict=True)) if len(seats) > 1 else []


def swiss_pairs(standing: Sequence[str], met: Collection[frozenset[str]]) -> list[tuple[str, str]]:
    """A round of pairs of like standing, best first, that have not met.

    Of an odd number, the lowest of those that met the most sits out.

    >>> swiss_pairs("abcd", {frozenset("ab")})
    [('a', 'c'), ('b', 'd')]
    """
    free = list(standing)
    if len(free) % 2:
        meetings = {seat: sum(seat in pair for pair in met) for seat in free}
        free.remove(max(reversed(free), key=lambda seat: meetings[seat]))
    pairs = []
    while free:
        first = free.pop(0)
        second = next((seat for seat in free if frozenset((first, seat)) not in met), None)
        if second is not None:
            free.remove(second)
            pairs.append((first, second))
    return pairs


class Comparing(Judge):
    """Scores each seat by its mean probability of beating the seats that it was compared with.

    A judge of this kind defines `answer`.

        p(a beats b) = (P(a, b) + 1 − P(b, a)) / 2
        score_a      = mean over b of p(a beats b)

    P(x, y) is the probability that x wins when it is shown first. Seats whose last moves answered
    the same chat make a group. Equal texts are a tie without a question. Where the two orders
    prefer different answers, `flip` decides. Where the reply in one order could not be read, the
    two seats are not compared.

    Of a group of n, `compare: all` takes n(n − 1) questions. `circular` takes n: each seat and the
    next of a random ring, in that order alone, so that a preference for the first place adds as
    much to each score as it takes. `swiss` takes n a round, seats of like standing in both orders.
    """

    compares: ClassVar[bool] = True
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)

    flip: Flip = Field(
        default="missing",
        description="when the two orders contradict each other: no comparison, a tie "
        "(½), or the mean of both",
    )
    compare: Literal["all", "circular", "swiss"] = Field(
        default="all",
        description="which answers of a group meet: every two, in both orders; each and the next "
        "of a random ring, in one order; or those of like standing, in both orders",
    )
    rounds: int = Field(default=ROUNDS, ge=1, description="rounds of compare: swiss")

    @model_validator(mode="after")
    def _rounds_are_played(self) -> Self:
        if self.rounds != ROUNDS and self.compare != "swiss":
            raise ValueError(f"rounds: compare: {self.compare} has none; set compare: swiss")
        return self

    def at(self, judge_context: JudgeContext) -> Self:
        game = judge_context.game
        if self.compares and not game.asks_alike:
            raise ConfigError(
                f"judge: '{self.kind}' compares answers to one chat, and no two seats of game "
                f"'{game.kind}' are asked alike; set judge.kind: transcript"
            )
        return super().at(judge_context)

    def quoted_answers(self, seats: int) -> int:
        return 2

    def comparisons(self, seats: int) -> int:
        """The most questions about a group of so many seats."""
        if self.compare == "circular":
            return seats if seats > 1 else 0
        every = seats * (seats - 1)
        return min(every, self.rounds * (seats - seats % 2)) if self.compare == "swiss" else every

    @abstractmethod
    def answer(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question P(first beats second) in [0, 1], or None and the reason. ½ is a tie."""

    def groups(self, match: Match) -> list[list[str]]:
        """The seats of a match that can be compared with each other."""
        by_chat: dict[tuple[Message, ...], list[str]] = {}
        for seat, turn in last_answers(match).items():
            by_chat.setdefault(turn.view.messages, []).append(seat)
        return list(by_chat.values())

    def alike(self, match: Match, first: str, second: str) -> bool:
        """True if two seats did the same, which is a tie without a question."""
        turns = match.last_turns()
        return turns[first].move.text == turns[second].move.text

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order, from one call of `answer` a round; `prompts` by id."""
        contests = [self._contests(match) for match in matches]
        every = list(chain.from_iterable(contests))
        for _ in range(self.rounds if self.compare == "swiss" else 1):
            questions: list[tuple[Contest, Comparison]] = []
            for contest in every:
                for pair in self._next_pairs(contest):
                    if frozenset(pair) in contest.alike:
                        contest.readings[pair] = Reading(0.5)
                    else:
                        prompt = prompts[contest.match.prompt]
                        questions.append((contest, self._question(contest.match, prompt, pair)))
            readings = self.answer([each for _, each in questions]) if questions else []
            for (contest, question), reading in zip(questions, readings, strict=True):
                contest.readings[question.seats] = reading
        return list(map(self._judgement, matches, contests))

    def _contests(self, match: Match) -> list[Contest]:
        contests = []
        for group in self.groups(match):
            order = group
            if self.compare != "all":
                dice = seeds.generator(self.judge_context.seed, "order", match.id, *group)
                order = [group[place] for place in dice.permutation(len(group))]
            pairs = combinations(group, 2)
            alike = {frozenset(pair) for pair in pairs if self.alike(match, *pair)}
            contests.append(Contest(match, order, alike))
        return contests

    def _next_pairs(self, contest: Contest) -> list[tuple[str, str]]:
        """The next round: (shown first, shown second)."""
        if self.compare == "circular":
            return circle(contest.order)
        pairs: Iterable[tuple[str, str]] = combinations(contest.order, 2)
        if self.compare == "swiss":
            met = set(map(frozenset, contest.readings))
            pairs = swiss_pairs(contest.standing(self.flip), met)
        return [order for first, second in pairs for order in ((first, second), (second, first))]

    def _question(self, match: Match, prompt: Prompt, pair: tuple[str, str]) -> Comparison:
        about = ("judge", self.name, match.id, self.name, *pair)
        first, second = (match.last_turns()[seat] for seat in pair)
        return Comparison(
            prompt,
            first.view.messages,
            first.move.text,
            second.move.text,
            seeds.child(self.judge_context.seed, *about),
            match,
            pair,
        )

    def unasked(self, match: Match) -> list[str]:
        """The reasons why seats of a match cannot be compared."""
        return reasons_without_answer(match)

    def _judgement(self, match: Match, contests: Sequence[Contest]) -> Judgement:
        votes: list[Vote] = []
        wins: dict[str, list[float]] = {seat: [] for seat in self.judged_seats(match)}
        reasons = dict.fromkeys(self.unasked(match))
        met: set[str] = set()
        for contest in contests:
            for (first, second), p in contest.results(self.flip).items():
                met |= {first, second}
                if isinstance(p, str):
                    reasons[brief_reason(p)] = None
                else:
                    wins[first].append(p)
                    wins[second].append(1 - p)
            votes += [
                reading.vote(self.name, *pair)
                for pair, reading in contest.readings.items()
                if frozenset(pair) not in contest.alike
            ]
            if len(contest.order) > 1 and set(contest.order) - met:
                reasons["it was drawn in no round"] = None
        if not reasons and wins.keys() - met:
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


class ComparingByModel(Comparing, QuestionSettings):
    """The base of comparing judges that ask `model`; they define the question and its quotes."""

    model: Player = Field(description="the judging model, a player that no seat holds")

    def questions(self, seats: int, pool: int) -> int:
        return self.comparisons(seats)

    def prepare(self) -> None:
        _ = self.question

    @cached_property
    @abstractmethod
    def question(self) -> Question:
        """The template of the question. Raises DataError."""

    @abstractmethod
    def quotes(self, comparison: Comparison) -> Quotes:
        """The texts that fill the template's placeholders."""

    def answer(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question 1, 0 or ½, or the reason why there is no verdict."""
        tokens = control_tokens_of(self.judge_context.actor(self.model))
        views = [self.question.view(self.quotes(each), each.seed, tokens) for each in questions]
        moves = self.judge_context.ask(self.model, views, [each.seed for each in questions])
        return [
            read_move(move, read_better, self.question.code(view))
            for move, view in zip(moves, views, strict=True)
        ]


def question_between(
    settings: QuestionSettings, quoted: Sequence[str], abstains: bool = False
) -> Question:
    """The question of these settings which of two is better; `abstains`: the verdict may be that
    it is unclear. Raises DataError.
    """
    labels = [*PROBABILITY, *([ABSTAINS] if abstains else [])]
    question = settings.question_with(quoted, needed=quoted)
    return replace(question, verdict="verdict", verdict_schema={"type": "string", "enum": labels})


def read_better(reply: str, code: str) -> float | Unread:
    """1 where the reply finds A better, 0 for B, ½ for a tie; or why none was read."""
    label = read_choice(reply, (*PROBABILITY, ABSTAINS), code, alone=not code)
    if label == ABSTAINS:
        return Abstained("the judge found it unclear which is better")
    return label if isinstance(label, Unread) else PROBABILITY[label]


class Pairwise(ComparingByModel):
    """Scores each seat by `model`'s verdicts A, B or tie on every pair, in both orders."""

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "first", "second")

    kind: Literal["pairwise"] = "pairwise"
    text: TemplateText = Field(
        default="pairwise",
        description="the question's template: a file, or a packaged one (pairwise, or "
        "pairwise_compact for small models)",
    )

    @cached_property
    def question(self) -> Question:
        return question_between(self, ("first", "second"))

    def quotes(self, comparison: Comparison) -> Quotes:
        return {
            "question": ("request", transcript(comparison.messages)),
            "first": ("answer A", comparison.first),
            "second": ("answer B", comparison.second),
            "reference": ("reference", self.reference(comparison.prompt)),
        }
