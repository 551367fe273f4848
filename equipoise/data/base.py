"""What a pair maker is: from judged matches to pairs of a better and a worse answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from equipoise.component import Component, nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.types import Judgement, Match, Message, Pair, Prompt, record_id


class PairMaker(Component):
    """Decides which answers of a match are compared."""

    KINDS: ClassVar = {
        "best_worst": "equipoise.data.pairs:BestWorst",
        "all_pairs": "equipoise.data.pairs:AllPairs",
        "margin": "equipoise.data.pairs:Margin",
        "data": "equipoise.data.given_answers:Data",
        "data_wins": "equipoise.data.given_answers:DataWins",
    }

    @property
    def answers(self) -> int:
        """How many of a match's answers a pair takes."""
        return 2

    def plays(self, generation: int) -> bool:
        """Whether this generation's pairs are made of matches; else `given` takes them from the
        prompts.
        """
        return True

    def by_judge(self, generation: int) -> bool:
        """Whether a judge's scores decide this generation's pairs."""
        return True

    def why_no_pair(self, prompt: Prompt, generation: int) -> str:
        """What a prompt lacks to give a pair in this generation; "" where nothing."""
        return ""

    def given(
        self, prompts: Sequence[Prompt], generation: int
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs that the prompts bring along; how many gave none, by reason), for a generation
        without matches.
        """
        raise TypeError(f"pairs: '{self.kind}' makes pairs of matches")

    def most(self, seats: int) -> int:
        """How many pairs a match of so many seats can give at most."""
        return seats * (seats - 1) // 2

    def faults(self, game: Game) -> Iterator[str]:
        """What keeps it from making pairs of this game's matches, one message each."""
        if len(game.seats) < self.answers:
            yield (
                f"a match of game '{game.kind}' has one answer, and a pair takes two; "
                "set game.samples to 2 or more"
            )

    @abstractmethod
    def make(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        utility: str = "score",
        prompts: Mapping[str, Prompt] | None = None,
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs in the order of the matches; how many matches gave none, by reason).

        `utility` is what is compared; `prompts` are those of the matches, by id.
        """


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer's text and its score."""

    text: str
    score: float


def pair_of(match: Match, messages: tuple[Message, ...], better: Scored, worse: Scored) -> Pair:
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


def check_utility(utility: str, judgements: Iterable[Judgement]) -> None:
    """Raises ConfigError where judgements have utilities, but not this one."""
    names: set[str] = set()
    for judgement in judgements:
        names |= judgement.names()
    if names and utility not in names:
        raise ConfigError(
            f"utility: no judgement has '{utility}'; {nearest(utility, sorted(names))}"
        )
