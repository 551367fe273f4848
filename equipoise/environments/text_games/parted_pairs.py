"""Pairs of moves at one information state, where matches come to it and part there."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import ClassVar, Literal, NamedTuple

import msgspec
from pydantic import Field

from equipoise import seeds
from equipoise.data.pairs import JudgedMatches, PairMaker, ScoredAnswer, check_utility, pair_of
from equipoise.environments.text_games.game import FORMS, TextGame, legal_index
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.games.base import Game
from equipoise.types import Match, Message, Pair, Turn, record_id


class Passage(NamedTuple):
    """A match's move at an information state, and its seat's final score."""

    match: Match
    turn: Turn
    score: float


class AtStates(PairMaker):
    """The base of makers that compare the moves of all matches at each information state."""

    @abstractmethod
    def compare(self, passages: Sequence[Passage]) -> Iterator[Pair | str]:
        """The pairs of one state's passages, and the reason of each comparison without."""

    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs, state by state; passages without, by reason). ConfigError for the utility."""
        check_utility(judged.utility, judged.judgements)
        scores = {each.match: each.by_seat(judged.utility) for each in judged.judgements}
        passages: dict[tuple[Message, ...], list[Passage]] = defaultdict(list)
        dropped: dict[str, int] = defaultdict(int)
        for match in judged.matches:
            by_seat = scores.get(match.id, {})
            for turn in match.turns:
                if turn.move.finish == "error" or turn.seat not in by_seat:
                    dropped["unjudged"] += 1
                    continue
                passage = Passage(match, turn, by_seat[turn.seat])
                passages[turn.view.messages].append(passage)
        pairs: dict[str, Pair] = {}
        for at_state in passages.values():
            for pair in self.compare(at_state):
                if isinstance(pair, str):
                    dropped[pair] += 1
                else:
                    pairs[pair.id] = pair
        return list(pairs.values()), dict(dropped)


class PartedTrajectories(AtStates):
    """Moves at one information state, in two matches, are compared by their seats' final scores.

    The passages through a state are matched up at random, each at most `per_passage` times; a pair
    comes of two with different moves and outcomes. One comparison is noisy: the preference P(move a
    ends better than move b) is what many of them tell.
    """

    kind: Literal["parted_trajectories"] = "parted_trajectories"
    per_passage: int = Field(1, ge=1, description="pairings of each move with another one")

    def most(self, seats: int) -> int:
        """A pair for each round of pairing, since nobody knows how often a seat moves."""
        return self.per_passage * seats

    def faults(self, game: Game) -> Iterator[str]:
        if not isinstance(game, TextGame):
            yield f"'{self.kind}' is for the games open_spiel and textarena"

    def compare(self, passages: Sequence[Passage]) -> Iterator[Pair | str]:
        """Every two neighbours of a random order, `per_passage` orders."""
        for turn in range(self.per_passage):
            rng = seeds.generator(turn, "parted", *(p.match.id for p in passages))
            order = rng.permutation(len(passages)).tolist()
            for a, b in zip(order[::2], order[1::2], strict=False):
                yield _pair(passages[a], passages[b])


class MeanOutcomes(AtStates):
    """Every two legal moves at an information state, by the mean final scores of the matches that
    went on with each.

        score(move) = (Σ its passages' scores + prior · mean of the state) / (passages + prior)

    estimates what a move is worth against the players as they are; one that nobody made is worth
    what the state is. A pair stands for all passages, so that rare moves and states teach as much
    as frequent ones, and equal scores make a pair, too: for losses that read the size of scores.
    Other answers than a whole legal move are left out.
    """

    kind: Literal["mean_outcomes"] = "mean_outcomes"
    may_tie: ClassVar = True
    prior: float = Field(
        1.0, gt=0, description="passages that the state's mean counts for in the mean of each move"
    )

    def most(self, seats: int) -> int:
        return seats

    def faults(self, game: Game) -> Iterator[str]:
        if not isinstance(game, OpenSpiel) or game.form != "whole":
            yield f"'{self.kind}' is for the game open_spiel with form: whole"

    def compare(self, passages: Sequence[Passage]) -> Iterator[Pair | str]:
        legal: dict[str, list[float]] = {move: [] for move in passages[0].turn.view.actions}
        for passage in passages:
            legal.get(passage.turn.move.text, []).append(passage.score)
        made: list[float] = []
        for scores in legal.values():
            made.extend(scores)
        if not made:
            yield "illegal"
            return
        ranked = []
        for move, scores in legal.items():
            total = sum(scores) + self.prior * fmean(made)
            ranked.append(ScoredAnswer(move, total / (len(scores) + self.prior)))
        ranked.sort(key=lambda answer: -answer.score)
        for better, worse in combinations(ranked, 2):
            yield pair_at(passages[0], better, worse)


def _move(turn: Turn) -> str:
    """The legal move that an answer makes, or what it has in the form asked for, or else all."""
    text = turn.move.text
    first = "".join(message.content for message in turn.view.messages[:1])
    for form in FORMS.values():
        index = legal_index(form.read(text), turn.view.actions)
        if index is not None:
            return turn.view.actions[index]
    moves = (form.read(text) for form in FORMS.values() if form.instruction in first)
    return next(filter(None, moves), text)


def _pair(first: Passage, second: Passage) -> Pair | str:
    if _move(first.turn) == _move(second.turn):
        return "identical"
    if first.score == second.score:
        return "tie"
    better, worse = sorted((first, second), key=lambda passage: -passage.score)
    chosen, rejected = (ScoredAnswer(p.turn.move.text, p.score) for p in (better, worse))
    return pair_at(better, chosen, rejected, worse.match.id)


def pair_at(passage: Passage, better: ScoredAnswer, worse: ScoredAnswer, *more: str) -> Pair:
    """The pair at a passage's state; `more`: what else tells it from others."""
    pair = pair_of(passage.match, passage.turn.view.messages, better, worse)
    # one match may part from others at several states
    texts = [message.content for message in passage.turn.view.messages]
    identity = record_id(pair.id, passage.turn.seat, *more, *texts)
    return msgspec.structs.replace(pair, id=identity)
