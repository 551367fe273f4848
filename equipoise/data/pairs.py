"""Pair makers: from judged matches to pairs of a better and a worse answer of one match.

Answers are compared when they were given to the same chat; by a judge that compares only some of
them, when it compared these two. Equal texts count as one answer with their mean score. A match
that gives no pair is counted by its reason:

    error       fewer than two scored answers, and a move failed
    unjudged    fewer than two scored answers otherwise
    identical   all the texts are the same
    tie         all the scores are the same, or those of all answers that were compared
    margin      no two scores are `min_margin` apart
    limit       its prompt has `per_prompt` wider pairs already
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from statistics import fmean
from typing import Any, ClassVar, Literal

from pydantic import Field

from equipoise.answer import parse_answer
from equipoise.component import Component, nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.types import Judgement, Match, Message, Pair, Prompt, Review, record_id

Chat = tuple[Message, ...]


@dataclass(frozen=True)
class JudgedMatches:
    """The matches that a generation learns from, and their judgements, in any order.

    utility: the judge's, by which answers are compared. prompts: those played, by id, for makers
    that read what the data bring along.
    """

    matches: Sequence[Match]
    judgements: Sequence[Judgement]
    utility: str = "score"
    prompts: Mapping[str, Prompt] = field(default_factory=dict)


class PairMaker(Component):
    """Decides which answers of a match are compared. may_tie: a pair's scores may be equal."""

    may_tie: ClassVar[bool] = False

    KINDS: ClassVar = {
        "best_worst": "equipoise.data.pairs:BestWorst",
        "all_pairs": "equipoise.data.pairs:AllPairs",
        "margin": "equipoise.data.pairs:Margin",
        "meta_rewarding": "equipoise.data.pairs:MetaRewarding",
        "data": "equipoise.data.given_answers:Data",
        "data_wins": "equipoise.data.given_answers:DataWins",
    }

    @property
    def answers(self) -> int:
        """The number of a match's answers that a pair takes."""
        return 2

    @property
    def one_scale(self) -> bool:
        """True if the scores of all pairs are in the judge's units."""
        return True

    def plays(self, generation: int) -> bool:
        """True if this generation's pairs are made of matches, not by `data_pairs`."""
        return True

    def by_judge(self, generation: int) -> bool:
        """True if a judge's scores decide this generation's pairs."""
        return True

    def why_no_pair(self, prompt: Prompt, generation: int) -> str:
        """The thing that a prompt lacks to give a pair in this generation; "" where nothing."""
        return ""

    def data_pairs(
        self, prompts: Sequence[Prompt], generation: int
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs that the prompts bring along; the number that gave none, by reason)."""
        raise TypeError(f"pairs: '{self.kind}' makes pairs of matches")

    def most(self, seats: int) -> int:
        """The most pairs that a match of so many seats can give."""
        return seats * (seats - 1) // 2

    def faults(self, game: Game) -> Iterator[str]:
        """Reasons why it cannot make pairs of this game's matches, one message each."""
        if len(game.seats) < self.answers:
            yield (
                f"a match of game '{game.kind}' has one answer, and a pair takes two; "
                "set game.samples to 2 or more"
            )

    @abstractmethod
    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        """(pairs in the matches' order; matches that gave none, by reason) by the utility."""


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """An answer's text, or its turns, and its score."""

    text: Any
    score: float


def pair_of(match: Match, messages: Chat, better: ScoredAnswer, worse: ScoredAnswer) -> Pair:
    """The pair of two answers to one chat of a match."""
    return Pair(
        id=record_id("pair", match.id, better.text, worse.text),
        generation=match.generation,
        prompt=match.prompt,
        messages=messages,
        chosen=better.text,
        rejected=worse.text,
        chosen_score=better.score,
        rejected_score=worse.score,
        match=match.id,
    )


def check_order(maker: PairMaker, pairs: Iterable[Pair]) -> None:
    """Raise ConfigError where a maker, as one's own may, puts a worse answer above a better one."""
    for pair in pairs:
        if pair.chosen_score < pair.rejected_score:
            raise ConfigError(
                f"pairs: {type(maker).__name__} chose an answer of score {pair.chosen_score:g} "
                f"above one of {pair.rejected_score:g} (match {pair.match}); a choice is (better, "
                "worse). To teach the opposite, turn the judge's scores round"
            )


def check_utility(utility: str, judgements: Iterable[Judgement]) -> None:
    """Raise ConfigError where judgements have utilities, but not this one."""
    names: set[str] = set()
    for judgement in judgements:
        names |= judgement.names()
    if names and utility not in names:
        raise ConfigError(
            f"utility: no judgement has '{utility}'; {nearest(utility, sorted(names))}"
        )


@dataclass(frozen=True, slots=True)
class RankedAnswer(ScoredAnswer):
    """A distinct answer of one match, with its score."""

    order: str  # the hash that orders equal scores
    seats: tuple[str, ...]


Ranking = list[RankedAnswer]  # answers to one chat, best first
Choice = tuple[RankedAnswer, RankedAnswer]  # better, worse
Compared = set[frozenset[str]] | None  # pairs of seats; None: all


class Ranked(PairMaker):
    """The base of these pair makers; each chooses among the comparable answers to one chat."""

    per_prompt: int | None = Field(
        None, ge=1, description="keep at most this many pairs a prompt, widest gaps first"
    )

    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        """The pairs, as of any maker. Raises ConfigError for a utility that no judgement has."""
        by_match = {judgement.match: judgement for judgement in judged.judgements}
        check_utility(judged.utility, judged.judgements)
        made = [
            self._of_match(match, by_match.get(match.id), judged.utility)
            for match in judged.matches
        ]
        pairs: list[Pair] = []
        for of_match in made:
            if not isinstance(of_match, str):
                pairs += of_match
        kept = _widest(pairs, self.per_prompt)
        dropped: Counter[str] = Counter()
        for of_match in made:
            if isinstance(of_match, str):
                dropped[of_match] += 1
            elif not any(pair.id in kept for pair in of_match):
                dropped["limit"] += 1
        return [pair for pair in pairs if pair.id in kept], dict(dropped)

    @abstractmethod
    def choose(self, choices: Sequence[Choice]) -> list[Choice]:
        """The choices to learn from, of one or more among the answers to one chat.

        All scores differ; they come in the order of the better answer, and of the worse.
        """

    def _of_match(
        self, match: Match, judgement: Judgement | None, utility: str
    ) -> list[Pair] | str:
        rankings = _rankings(match, judgement, utility)
        if not rankings:
            failed = any(turn.move.finish == "error" for turn in match.last_turns().values())
            return "error" if failed else "unjudged"
        pairs = []
        compared = None if judgement is None else judgement.compared()
        for messages, answers in rankings.items():
            choices = _choices(answers, compared)
            if choices:
                for better, worse in self.choose(choices):
                    pairs.append(pair_of(match, messages, better, worse))
        if pairs:
            return pairs
        if all(len(answers) == 1 for answers in rankings.values()):
            return "identical"
        if not any(_choices(answers, compared) for answers in rankings.values()):
            return "tie"
        return "margin"


class BestWorst(Ranked):
    """The best answer against the worst; among equals, the order of their hashes decides."""

    kind: Literal["best_worst"] = "best_worst"

    def most(self, seats: int) -> int:
        return min(1, seats - 1)

    def choose(self, choices: Sequence[Choice]) -> list[Choice]:
        widest = max(map(_gap, choices))
        chosen = [choice for choice in choices if _gap(choice) == widest]
        return [[choice for choice in chosen if choice[0] is chosen[0][0]][-1]]


class AllPairs(Ranked):
    """Every two answers with different scores."""

    kind: Literal["all_pairs"] = "all_pairs"

    def choose(self, choices: Sequence[Choice]) -> list[Choice]:
        return list(choices)


class Margin(Ranked):
    """Every two answers whose scores are at least `min_margin` apart."""

    kind: Literal["margin"] = "margin"
    min_margin: float = Field(
        gt=0, description="the smallest gap between scores, in the judge's units"
    )

    def choose(self, choices: Sequence[Choice]) -> list[Choice]:
        return [choice for choice in choices if _gap(choice) >= self.min_margin]


class MetaRewarding(Ranked):
    """Pairs of answers with their lengths kept in check, and pairs of gradings. (arXiv 2407.19594)

    Of the answers whose score is at least (1 − tier)·best + tier·worst the shortest is chosen; of
    those at most (1 − tier)·worst + tier·best the longest is rejected. Of each of the judgements'
    reviews the strongest grading is preferred to the weakest, by a Bradley–Terry fit of its
    battles, in which a win counts by its place: ω = (wins of the other place)/(all wins), over all
    reviews here. Reviews that give no pair are counted as `grading_unread` (of all verdicts),
    `grading_tie` (all are equally strong) and `grading_long`.
    """

    kind: Literal["meta_rewarding"] = "meta_rewarding"
    tier: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="share of the range of a prompt's scores within which answers count as equally "
        "good, and the shorter wins; 0: none",
    )
    longest_grading: int | None = Field(
        None, ge=1, description="characters of a preferred grading; longer ones give no pair"
    )

    @property
    def one_scale(self) -> bool:
        return False

    def most(self, seats: int) -> int:
        return 2 if seats > 1 else 1

    def choose(self, choices: Sequence[Choice]) -> list[Choice]:
        best = max(a.score for a, _ in choices)
        worst = min(b.score for _, b in choices)
        slack = self.tier * (best - worst)
        far = [(a, b) for a, b in choices if a.score >= best - slack and b.score <= worst + slack]
        return sorted(far, key=_lengths)[:1]

    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        """The pairs of answers, then those of gradings, as of any maker."""
        pairs, dropped = super().make(judged)
        by_id = {match.id: match for match in judged.matches}
        reviews: list[tuple[Match, Review]] = []
        for judgement in judged.judgements:
            match = by_id.get(judgement.match)
            if match is not None:
                reviews += [(match, review) for review in judgement.reviews]
        shares = place_weights([review for _, review in reviews])
        for match, review in reviews:
            pair = self._of_review(match, review, shares)
            if isinstance(pair, str):
                dropped[pair] = dropped.get(pair, 0) + 1
            else:
                pairs.append(pair)
        return pairs, dropped

    def _of_review(self, match: Match, review: Review, weights: tuple[float, float]) -> Pair | str:
        if not review.battles:
            return "grading_unread"
        strengths = grading_strengths(review, weights)
        best = max(strengths)
        worst = min(strengths)
        if best - worst < 1e-6:
            return "grading_tie"
        chosen, rejected = (review.replies[strengths.index(value)] for value in (best, worst))
        if self.longest_grading is not None and len(chosen) > self.longest_grading:
            return "grading_long"
        better = ScoredAnswer(chosen, best)
        worse = ScoredAnswer(rejected, worst)
        return pair_of(match, review.messages, better, worse)


def place_weights(reviews: Sequence[Review]) -> tuple[float, float]:
    """The worth of a win when shown first and when shown second, in inverse proportion to the wins
    of each place, so that neither place is worth more; they add up to one.

    >>> place_weights([Review("a@0", "1", (), ("x", "y"), ((0, 1, 0), (1, 0, 1), (0, 1, 1)))])
    (0.3333333333333333, 0.6666666666666666)
    """
    first = second = 0
    for review in reviews:
        for shown_first, _, winner in review.battles:
            first += winner == shown_first
            second += winner != shown_first
    total = first + second
    return (second / total, first / total) if total else (0.5, 0.5)


def grading_strengths(review: Review, weights: tuple[float, float]) -> list[float]:
    """The strength of each of a review's replies, in nats, by Bradley–Terry; a win weighs as much
    as its place.

    One drawn game against an average grading keeps finite what never lost.

    >>> review = Review("a@0", "1", (), ("x", "y"), ((0, 1, 0), (1, 0, 0)))
    >>> [round(strength, 2) for strength in grading_strengths(review, (0.5, 0.5))]
    [0.56, -0.56]
    """
    from equipoise.ratings.base import Outcome, count_outcomes
    from equipoise.ratings.bradley_terry import fit_strengths

    outcomes = [
        Outcome(str(first), str(second), float(winner == first), weights[int(winner != first)])
        for first, second, winner in review.battles
        if weights[int(winner != first)] > 0
    ]
    counts = count_outcomes(outcomes)
    if not counts.names:
        return [0.0] * len(review.replies)
    fitted = dict(zip(counts.names, fit_strengths(counts, prior=1.0).tolist(), strict=True))
    return [fitted.get(str(place), 0.0) for place in range(len(review.replies))]


def _choices(answers: Ranking, compared: Compared) -> list[Choice]:
    """Every two answers with different scores, of which some seats were compared."""
    return [
        (better, worse)
        for better, worse in combinations(answers, 2)
        if better.score > worse.score
        and (compared is None or any(map(compared.__contains__, seat_pairs(better, worse))))
    ]


def seat_pairs(first: RankedAnswer, second: RankedAnswer) -> Iterator[frozenset[str]]:
    return map(frozenset, product(first.seats, second.seats))


def _lengths(choice: Choice) -> tuple[int, int]:
    """The lengths of both answers without their thoughts, the shortest chosen one first."""
    better, worse = (parse_answer(answer.text).text for answer in choice)
    return len(better), -len(worse)


def _gap(choice: Choice) -> float:
    better, worse = choice
    return better.score - worse.score


def _rankings(match: Match, judgement: Judgement | None, utility: str) -> dict[Chat, Ranking]:
    scores = {} if judgement is None else judgement.by_seat(utility)
    scored: dict[Chat, list[tuple[str, float, str]]] = {}
    for seat, turn in match.last_turns().items():
        if seat in scores and turn.move.finish != "error":
            answer = (turn.move.text, scores[seat], seat)
            scored.setdefault(turn.view.messages, []).append(answer)
    return {
        messages: _ranked(match, answers)
        for messages, answers in scored.items()
        if len(answers) > 1
    }


def _ranked(match: Match, answers: Sequence[tuple[str, float, str]]) -> Ranking:
    by_text: dict[str, list[tuple[float, str]]] = {}
    for text, score, seat in answers:
        by_text.setdefault(text, []).append((score, seat))
    distinct = []
    for text, given in by_text.items():
        scores, seats = zip(*given, strict=True)
        distinct.append(RankedAnswer(text, fmean(scores), record_id(match.id, text), seats))
    return sorted(distinct, key=lambda answer: (-answer.score, answer.order))


def _widest(pairs: Sequence[Pair], per_prompt: int | None) -> set[str]:
    """The ids of each prompt's `per_prompt` widest pairs, or of all."""
    by_prompt: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_prompt.setdefault(pair.prompt, []).append(pair)
    kept: set[str] = set()
    for group in by_prompt.values():
        widest = sorted(group, key=lambda pair: (pair.rejected_score - pair.chosen_score, pair.id))
        kept.update(pair.id for pair in widest[:per_prompt])
    return kept
