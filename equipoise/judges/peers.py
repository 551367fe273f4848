"""The pool as its own judge: those not in a match grade its answers (SPARTA, arXiv 2506.04721), or
those in it, who may judge their own gradings too (Meta-Rewarding, arXiv 2407.19594).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, permutations
from statistics import pvariance
from typing import ClassVar, Literal

import msgspec
from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.judges.base import comparable
from equipoise.judges.grading import (
    WEIGHTLESS,
    AnswerToGrade,
    GradingJudge,
    RepliedGrade,
    answers_to_grade,
)
from equipoise.judges.question import Question, Reading, control_tokens_of, read_move
from equipoise.judges.read_verdict import Unread, read_choice
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, PlayerId, Prompt, Review, View, Vote

CHOICES = ("A", "B")


@dataclass(frozen=True, slots=True)
class Graded:
    """A peer's grades of one answer, one for each sample."""

    peer: PlayerId
    answer: AnswerToGrade
    grades: Sequence[RepliedGrade]


class Peers(GradingJudge):
    """Scores each answer s̄ = Σ_k R_k s_k / Σ_k R_k (SPARTA, eq. 2).

    R_k is the rating of peer k and s_k its grade. With `who: others`, every player of the pool
    judges that is at no seat; that takes three players. With `who: self`, the players of the match
    judge all its answers, their own included. Ratings of 0 or less have no weight. Where a voter is
    not rated, all weigh the same. A peer that graded only some of the answers counts for none.
    """

    kind: Literal["peers"] = "peers"
    by_players: ClassVar[bool] = True
    who: Literal["others", "self"] = Field(
        default="others",
        description="who judges a match: all players that do not sit in it, or those that do",
    )
    weights: Literal["rating", "equal"] = Field(
        default="rating", description="a peer weighs its rating, or 1"
    )

    def prepare(self) -> None:
        """Raises ConfigError where nobody is left to judge, DataError for a faulty template."""
        names = {player.name for player in self.judge_context.pool}
        if not names:
            raise ConfigError(
                "judge: 'peers' are the players of a run, and here nobody plays; name a judge that "
                "needs none, such as rubric"
            )
        if self.who == "others" and len(names) < 3:
            raise ConfigError(
                "judge: 'peers' needs at least three players, so that one is left to judge the "
                f"other two; there {'is' if len(names) == 1 else 'are'} {len(names)} "
                f"({', '.join(sorted(names))}). Add players, or set judge.who: self"
            )
        super().prepare()

    def questions(self, seats: int, pool: int) -> int:
        return seats * self.samples * (2 if self.who == "self" else max(0, pool - 2))

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        return self._judgements(matches, self.graded(matches, prompts))

    def graded(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Graded]:
        """Every judge's grades of every answer that it judges."""
        answers = answers_to_grade(matches, prompts)
        judges = {match.id: self._judges(match) for match in matches}
        peers = dict.fromkeys(chain.from_iterable(judges.values()))
        graders = [
            (peer, str(peer), [answer for answer in answers if peer in judges[answer.match.id]])
            for peer in peers
        ]
        grades_of = self.grading.grades_of_several(graders)
        return [
            Graded(peer, answer, grades)
            for (peer, _, its), of_peer in zip(graders, grades_of, strict=True)
            for answer, grades in zip(its, of_peer, strict=True)
        ]

    def _judgements(self, matches: Sequence[Match], graded: Sequence[Graded]) -> list[Judgement]:
        by_match: dict[str, list[Vote]] = {match.id: [] for match in matches}
        for each in graded:
            by_match[each.answer.match.id] += [grade.vote for grade in each.grades]
        return [self._judgement(match, by_match[match.id]) for match in matches]

    def _judgement(self, match: Match, votes: Sequence[Vote]) -> Judgement:
        weight = self._weight(votes, self.judge_context.ratings)
        return self.judgement_by_votes(match, votes, weight)

    def reweigh(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        """The recorded votes under these ratings; SPARTA takes those after all updates."""
        votes = judgement.votes
        scores = self.scores(votes, self._weight(votes, ratings))
        counted = comparable(self.grades_by_votes(votes)).values()
        graded = set(chain.from_iterable(counted))
        reasons = [
            reason for reason in judgement.reason.split("; ") if reason and reason != WEIGHTLESS
        ]
        if graded - scores.keys():
            reasons.append(WEIGHTLESS)
        reason = "; ".join(reasons)
        return msgspec.structs.replace(judgement, scores=scores or None, reason=reason)

    def _judges(self, match: Match) -> list[PlayerId]:
        if self.who == "self":
            return list(dict.fromkeys(match.seats.values()))
        sitting = {player.name for player in match.seats.values()}
        return [player for player in self.judge_context.pool if player.name not in sitting]

    def _weight(
        self, votes: Sequence[Vote], ratings: Mapping[str, float]
    ) -> Callable[[str], float]:
        names = {vote.by: PlayerId.parse(vote.by).name for vote in votes}
        if self.weights == "equal" or not set(names.values()) <= ratings.keys():
            return lambda by: 1.0
        return lambda by: ratings[names[by]]


@dataclass(frozen=True, slots=True)
class Battle:
    """A question to the judge of judges: which of two of `replies` grades the answer better?"""

    graded: Graded
    replies: Sequence[str]
    first: int
    second: int
    seed: int


class MetaRewarding(Peers):
    """Every player grades its own answers, and then judges its own gradings. (arXiv 2407.19594)

    Scores are those of `peers` with `who: self`, means over `samples` gradings. Of each training
    match every player then takes the one answer whose grades vary most and compares each two
    different readable replies about it, in both orders; the outcomes are the judgement's
    `reviews`, of which `pairs: meta_rewarding` makes pairs of a better and a worse grading. There
    is no review where the grades do not vary, nor after the first `review_generations`.
    """

    kind: Literal["meta_rewarding"] = "meta_rewarding"  # type: ignore[assignment]
    who: Literal["self"] = Field(  # type: ignore[assignment]
        default="self", description="who judges a match: the players that sit in it"
    )
    samples: int = Field(
        default=4,
        ge=2,
        description="gradings of an answer; their mean counts, and they are set against each other",
    )
    verdict: Literal["reply"] = Field(  # type: ignore[assignment]
        default="reply", description="where the grade is read: in the reply, which is judged too"
    )
    meta_text: TemplateText = Field(
        default="meta_judge",
        description="the template of the question about two gradings: a file, or a packaged one "
        "(meta_judge, or meta_judge_compact for small models)",
    )
    review_generations: int | None = Field(
        default=2,
        ge=0,
        description="the first generations whose gradings are judged; null: all of them",
    )

    def prepare(self) -> None:
        """Raises DataError for a faulty template."""
        super().prepare()
        _ = self.meta_question

    def questions(self, seats: int, pool: int) -> int:
        return super().questions(seats, pool) + 2 * self.samples * (self.samples - 1)

    @cached_property
    def meta_question(self) -> Question:
        """The template of the question about two gradings. Raises DataError."""
        quoted = ("answer", "first", "second")
        question = self.question_with(quoted, self.scale, needed=quoted, setting="meta_text")
        schema = {"type": "string", "enum": list(CHOICES)}
        return replace(question, verdict="verdict", verdict_schema=schema)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        graded = self.graded(matches, prompts)
        reviews = self._reviews(graded)
        return [
            msgspec.structs.replace(judgement, reviews=tuple(reviews[judgement.match]))
            for judgement in self._judgements(matches, graded)
        ]

    def _reviews(self, graded: Sequence[Graded]) -> dict[str, list[Review]]:
        """match id -> the reviews of its gradings."""
        reviewed = [each for each in self._most_varied(graded) if len(_replies(each)) > 1]
        battles_of = [self._battles(each) for each in reviewed]
        readings = self._fight(list(chain.from_iterable(battles_of)))
        reviews: dict[str, list[Review]] = defaultdict(list)
        for each, battles in zip(reviewed, battles_of, strict=True):
            answers = [(battle, next(readings)) for battle in battles]
            review = Review(
                str(each.peer),
                each.answer.seat,
                each.grades[0].view.messages,
                tuple(_replies(each)),
                tuple(
                    (battle.first, battle.second, battle.first if won.value else battle.second)
                    for battle, won in answers
                    if won.value is not None
                ),
                sum(reading.tokens for _, reading in answers),
                sum(reading.cost for _, reading in answers),
            )
            reviews[each.answer.match.id].append(review)
        return reviews

    def _most_varied(self, graded: Sequence[Graded]) -> list[Graded]:
        """Of each player and training match the answer whose grades vary most, where any do."""
        most: dict[tuple[str, PlayerId], tuple[float, Graded]] = {}
        for each in graded:
            match = each.answer.match
            last = self.review_generations
            if match.split != "train" or (last is not None and match.generation >= last):
                continue
            values = [g.vote.value for g in each.grades if g.vote.value is not None]
            variance = pvariance(values) if values else 0.0
            if variance > most.get((match.id, each.peer), (0.0, each))[0]:
                most[match.id, each.peer] = variance, each
        return [each for _, each in most.values()]

    def _battles(self, graded: Graded) -> list[Battle]:
        replies, answer = _replies(graded), graded.answer
        about = ("meta", self.name, answer.match.id, str(graded.peer), answer.seat)
        return [
            Battle(
                graded,
                replies,
                first,
                second,
                seeds.child(self.judge_context.seed, *about, first, second),
            )
            for first, second in permutations(range(len(replies)), 2)
        ]

    def _fight(self, battles: Sequence[Battle]) -> Iterator[Reading]:
        """1 where the first grading won, 0 where the second, None where it cannot be read."""
        by_peer: dict[PlayerId, list[int]] = defaultdict(list)
        for place, battle in enumerate(battles):
            by_peer[battle.graded.peer].append(place)
        context = self.judge_context
        questions: list[tuple[PlayerId, list[View], list[int]]] = []
        for peer, places in by_peer.items():
            tokens = control_tokens_of(context.actor(peer))
            views = [self._view(battles[place], tokens) for place in places]
            questions.append((peer, views, [battles[place].seed for place in places]))
        readings: dict[int, Reading] = {}
        moves_of = context.ask_together(questions)
        for places, (_, views, _), moves in zip(by_peer.values(), questions, moves_of, strict=True):
            for place, view, move in zip(places, views, moves, strict=True):
                readings[place] = read_move(move, _read_winner, self.meta_question.code(view))
        return (readings[place] for place in range(len(battles)))

    def _view(self, battle: Battle, control_tokens: Sequence[str]) -> View:
        quotes = {
            **self._quotes(battle.graded.answer),
            "first": ("grading A", battle.replies[battle.first]),
            "second": ("grading B", battle.replies[battle.second]),
        }
        return self.meta_question.view(quotes, battle.seed, control_tokens)


def _replies(graded: Graded) -> list[str]:
    """The different replies with a readable grade, in order."""
    readable = [grade.reply for grade in graded.grades if grade.vote.value is not None]
    return list(dict.fromkeys(readable))


def _read_winner(reply: str, code: str) -> float | Unread:
    label = read_choice(reply, CHOICES, code, alone=not code)
    return label if isinstance(label, Unread) else float(label == CHOICES[0])
