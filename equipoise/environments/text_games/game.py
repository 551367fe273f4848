"""Games of many turns whose rules a library knows.

A match is a generator: it yields whoever is to move and on what, and returns the pay-offs. All
chance comes from the prompt, so two matches on one prompt are dealt the same cards, and a judge can
replay a recorded match.
"""

import itertools
import re
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.errors import ConfigError
from equipoise.games.base import Ask, Game, Referee
from equipoise.judges.base import Judge
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Judgement, Match, Prompt, record_id

FormName = Literal["whole", "bracket", "tagged", "boxed"]


class AnswerForm(NamedTuple):
    """The form of a move: its `instruction`, an example `written`, and its `pattern`."""

    instruction: str
    written: str
    pattern: re.Pattern[str] | None

    def write(self, move: str) -> str:
        """The shortest answer that makes this move."""
        return self.written.format(move)

    def read(self, answer: str) -> str | None:
        """The move in an answer; None where there is none in this form."""
        if self.pattern is None:
            return answer.strip() or None
        moves = self.pattern.findall(answer)
        return moves[-1].strip() if moves else None


# All but `whole` let a player think aloud first; the text around the move is not passed on to the
# game, and so not to the other players.
FORMS: dict[FormName, AnswerForm] = {
    "whole": AnswerForm("Answer with your move alone.", "{}", None),
    "bracket": AnswerForm(
        "End your answer with your move in square brackets.", "[{}]", re.compile(r"\[[^\[\]]*\]")
    ),
    "tagged": AnswerForm(
        "End your answer with your move between <move> and </move>.",
        "<move>{}</move>",
        re.compile(r"<move>(.*?)</move>", re.DOTALL),
    ),
    "boxed": AnswerForm(
        "End your answer with your move in \\boxed{}.",
        "\\boxed{{{}}}",
        re.compile(r"\\boxed\{([^{}]*)\}"),
    ),
}


@dataclass(frozen=True)
class Result:
    """The end of a match: each seat's pay-off, or None with a reason, and its illegal answers."""

    returns: Mapping[str, float] | None
    reason: str = ""
    illegal: Mapping[str, int] = field(default_factory=dict)


# One match: yields the next request, takes the text of each answer, legal or not, and returns the
# result.
Play = Generator[Ask, str, Result]


class PlayedGame(Game):
    """A game of many turns that a library plays and pays; a failed move ends it unpaid."""

    @property
    def raw_moves(self) -> bool:
        """True: an answer without a legal move is the game's to judge, a thought without an end,
        too.
        """
        return True

    @abstractmethod
    def play(self, prompt: Prompt) -> Play:
        """One match on this prompt."""

    def referee(self, prompt: Prompt) -> Referee:
        play = self.play(prompt)
        ask, _ = _advance(play)
        while ask is not None:
            move = yield ask
            assert not isinstance(move, list)
            if move.finish == "error":
                return
            ask, _ = _advance(play, answer_of(move).text)

    def replay(self, match: Match, prompt: Prompt) -> Result:
        """The library's result of a recorded match, played again move by move."""
        play = self.play(prompt)
        ask, result = _advance(play)
        for turn in match.turns:
            if turn.move.finish == "error":
                return Result(None, f"{turn.seat} did not move: {turn.move.error}")
            if ask is None or (ask.seat, ask.view) != (turn.seat, turn.view):
                return Result(
                    None,
                    "played again, the game asks something else than it did: the "
                    "match was recorded with another version of its library",
                )
            ask, result = _advance(play, answer_of(turn.move).text)
        return result or Result(None, "the match was not played to its end")


class TextGame(PlayedGame):
    """A game whose rules a library knows."""

    players: int = Field(2, ge=1, description="seats")
    form: FormName = Field(
        "whole",
        description="the form of a move: whole, the answer is the move; the last "
        "[ … ] (bracket), <move> … </move> (tagged) or \\boxed{ … } (boxed) in it",
    )
    dice: int = Field(
        0, ge=0, description="with the prompt, the seed of all that the game leaves to chance"
    )

    @property
    def seats(self) -> tuple[str, ...]:
        """ "player 0", "player 1", …; each is a role of its own."""
        return tuple(f"player {i}" for i in range(self.players))

    @property
    def answer_form(self) -> AnswerForm:
        return FORMS[self.form]

    def seed(self, prompt: Prompt) -> int:
        """The seed of all chance in a match on this prompt."""
        return seeds.child(self.dice, "deal", prompt.id)


def _advance(play: Play, answer: str | None = None) -> tuple[Ask | None, Result | None]:
    """The next request, or None and the result; `answer`: to the last request, if any."""
    try:
        return (next(play) if answer is None else play.send(answer)), None
    except StopIteration as end:
        return None, end.value


class Deals(Prompts):
    """Numbered deals without a text, from whose numbers a game takes its cards, dice and words.

    The generations play different ones; all members of a league are measured on the same.
    """

    kind: Literal["deals"] = "deals"
    count: int = Field(5000, ge=1, description="deals to train on")
    reuse: bool | Literal["same"] = Field(
        True,
        description="true: start over, newly shuffled, when the deals run out; same: "
        "every generation plays the same; false: too few are an error",
    )

    def load(self, folder: Path = Path()) -> PromptSource:
        sizes = {"train": self.count, "held_out": self.held_out, "test": self.test}
        parts = []
        deal = itertools.count()
        for part, size in sizes.items():
            ids = [record_id("deal", part, number) for number in range(size)]
            parts.append([Prompt(name, (), {"deal": next(deal)}, "deals") for name in ids])
        return PromptSource(*parts)


# -- moves and libraries


def legal_index(move: str | None, legal: Sequence[str]) -> int | None:
    """The place of `move` among the legal ones, but for blanks, marks and, unless one has its very
    letters (bxc3, Bxc3), case; None: nowhere.
    """
    for even in (_bare, lambda text: _bare(text).casefold()):
        texts = list(map(even, legal))
        if move is not None and even(move) in texts:
            return texts.index(even(move))
    return None


def _bare(text: str) -> str:
    return text.strip(" \t\n.,;:!\"'`*[]")


def import_library(module: str, kind: str) -> Any:
    """The library of a kind of game. Raises ConfigError where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"game: '{kind}' needs a package that is not installed: "
            f"pip install 'equipoise[games]' ({error})"
        ) from error


class GameOutcome(Judge):
    """Scores each seat what the game pays it, by playing the match again.

    Utilities of a seat: `score`, `win` (1 for the best-paid, shared among equals) and `illegal`,
    its illegal answers. A match with a failed move, or that found no end, is unjudged.
    """

    kind: Literal["game_outcome"] = "game_outcome"
    whole_matches: ClassVar[bool] = True
    known_utilities: ClassVar = ("score", "win", "illegal")

    def prepare(self) -> None:
        game = self.judge_context.game
        if not isinstance(game, PlayedGame):
            raise ConfigError(
                "judge: 'game_outcome' judges the games open_spiel, textarena and verifiers; "
                f"this is {game.kind}"
            )

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        game = self.judge_context.game
        assert isinstance(game, PlayedGame)
        judgements = []
        for match in matches:
            result = game.replay(match, prompts[match.prompt])
            judgements.append(self.judgement(match, _scores(result), result.reason))
        return judgements


def _scores(result: Result) -> dict[str, dict[str, float]] | None:
    if result.returns is None:
        return None
    best = max(result.returns.values())
    winners = [seat for seat, value in result.returns.items() if value == best]
    return {
        seat: {
            "score": float(value),
            "win": float(seat in winners) / len(winners),
            "illegal": float(result.illegal.get(seat, 0)),
        }
        for seat, value in result.returns.items()
    }
