"""Pairs of trajectories: two matches come to the same information state and part there."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from pydantic import Field

from equipoise import seeds
from equipoise.data.pairs import PairMaker, ScoredAnswer, check_utility, pair_of
from equipoise.environments.text_games.game import TextGame
from equipoise.games.base import Game
from equipoise.types import Judgement, Match, Message, Pair, Prompt, Turn, record_id


class Passage(NamedTuple):
    """A match's move at an information state, and its seat's final score."""

    match: Match
    turn: Turn
    score: float


class PartedTrajectories(PairMaker):
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

    def make(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        utility: str = "score",
        prompts: Mapping[str, Prompt] | None = None,
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs, state by state; passages without, by reason). ConfigError for the utility."""
        check_utility(utility, judgements)
        scores = {judgement.match: judgement.by_seat(utility) for judgement in judgements}
        passages: dict[tuple[Message, ...], list[Passage]] = defaultdict(list)
        dropped: dict[str, int] = defaultdict(int)
        for match in matches:
            by_seat = scores.get(match.id, {})
            for turn in match.turns:
                if turn.move.finish == "error" or turn.seat not in by_seat:
                    dropped["unjudged"] += 1
                    continue
                passage = Passage(match, turn, by_seat[turn.seat])
                passages[turn.view.messages].append(passage)
        pairs: dict[str, Pair] = {}
        for at_state in passages.values():
            for first, second in self._pairings(at_state):
                pair = _pair(first, second)
                if isinstance(pair, str):
                    dropped[pair] += 1
                else:
                    pairs[pair.id] = pair
        return list(pairs.values()), dict(dropped)

    def _pairings(self, passages: Sequence[Passage]) -> Iterator[tuple[Passage, Passage]]:
        """Every two neighbours of a random order, `per_passage` orders."""
        for turn in range(self.per_passage):
            rng = seeds.generator(turn, "parted", *(p.match.id for p in passages))
            order = rng.permutation(len(passages)).tolist()
            for a, b in zip(order[::2], order[1::2], strict=False):
                yield passages[a], passages[b]


def _pair(first: Passage, second: Passage) -> Pair | str:
    if first.turn.move.text == second.turn.move.text:
        return "identical"
    if first.score == second.score:
        return "tie"
    better, worse = sorted((first, second), key=lambda passage: -passage.score)
    pair = pair_of(
        better.match,
        better.turn.view.messages,
        ScoredAnswer(better.turn.move.text, better.score),
        ScoredAnswer(worse.turn.move.text, worse.score),
    )
    # one match may part from others at several states
    texts = [message.content for message in better.turn.view.messages]
    identity = record_id(pair.id, better.turn.seat, worse.match.id, *texts)
    return msgspec.structs.replace(pair, id=identity)
