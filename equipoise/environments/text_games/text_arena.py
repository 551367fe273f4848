"""Games of TextArena: a hundred text games for one player or many.

Source: Guertler et al. 2025, TextArena, arXiv 2504.11442.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Literal, TypeVar

from pydantic import Field

from equipoise.component import nearest
from equipoise.environments.text_games.game import Result, TextGame
from equipoise.environments.text_games.libraries import textarena
from equipoise.environments.text_games.own_dice import OwnDice
from equipoise.errors import ConfigError
from equipoise.games.base import Ask
from equipoise.types import Message, Prompt, View, user

T = TypeVar("T")
MOST_LOOKS = 1000
NLTK = "Fetch it: python -m nltk.downloader words averaged_perceptron_tagger_eng"


class TextArena(TextGame):
    """Seats, turns, observations, illegal moves and rewards are the library's.

    A seat sees a chat: what the game and the others told it, and its own answers. The game's own
    words say how a move is written; `form` other than `whole` asks for the move in that form and
    passes nothing else on. What the library makes of an illegal move holds: mostly another try,
    then the seat loses or is out.
    """

    kind: Literal["textarena"] = "textarena"
    name: str = Field(description="the library's name of the game: KuhnPoker-v0")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="the library's settings of the game"
    )
    retries: int | None = Field(
        None,
        ge=0,
        description="illegal moves in a turn before the library's penalty; null: as "
        "many as it allows, mostly 1",
    )
    remember: int | None = Field(
        None,
        ge=0,
        description="how many of its earlier answers a seat sees, with what came "
        "before each; null: all. The beginning, with the rules, is always shown",
    )
    longest: int = Field(
        400, ge=1, description="moves after which a match counts as endless, unjudged"
    )

    def check(self) -> None:
        """Raises ConfigError for an unknown game, one that the library cannot set up here, or not
        for so many players.
        """
        known = textarena().envs.registration.ENV_REGISTRY
        if self.name not in known:
            raise ConfigError(
                f"game.name: TextArena has no game '{self.name}'; "
                f"{nearest(self.name, sorted(known))}"
            )
        table = TextArenaTable(self, 0)
        if table.failure:
            raise ConfigError(
                f"game: {self.name} cannot be set up for {self.players} players: {table.failure}"
            )

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """The library does not say how long a game lasts: an even share of `longest`."""
        return dict.fromkeys(self.seats, -(-self.longest // self.players))

    def table(self, prompt: Prompt) -> TextArenaTable:
        """A new match on this prompt."""
        return TextArenaTable(self, self.seed(prompt))


class TextArenaTable:
    """One match of a TextArena game; `failure` is what the library raised, and ends it."""

    def __init__(self, game: TextArena, seed: int) -> None:
        self._game = game
        self._dice = OwnDice(seed)
        self._chats: dict[int, list[Message]] = {i: [] for i in range(game.players)}
        self._illegal = dict.fromkeys(game.seats, 0)
        self._moves = 0
        self._over = False
        self._player = 0
        self._asked: Ask | None = None
        self.failure = ""
        self._env: Any = self._guarded(lambda: _made(game, seed))
        self._go_on()

    def ask(self) -> Ask | None:
        """Who is to move, and on what."""
        return self._asked

    def take(self, answer: str) -> None:
        """The answer goes to the game as it is, or as the form reads it."""
        assert self._asked is not None, "the match is over"
        chat = self._chats[self._player]
        chat.append(Message("assistant", answer))
        move = answer
        if self._game.form != "whole":
            move = self._game.answer_form.read(answer) or ""
        errors = self._errors()
        stepped = self._guarded(lambda: self._env.step(move))
        self._moves += 1
        self._over = stepped is not None and bool(stepped[0])
        # the count of errors goes back to 0 with the turn of the next
        self._illegal[self._asked.seat] += self._errors() > errors or self._barred()
        self._go_on()

    def result(self) -> Result:
        """What the library pays."""
        if self.failure:
            return Result(None, f"the library failed: {self.failure}")
        if not self._over:
            return Result(None, f"the match did not end within game.longest = {self._moves} moves")
        rewards = self._env.state.rewards
        if not isinstance(rewards, Mapping) or set(rewards) != set(self._chats):
            return Result(None, f"the library does not pay every seat: {rewards}")
        by_seat = {seat: float(rewards[i]) for i, seat in enumerate(self._game.seats)}
        return Result(by_seat, illegal=self._illegal)

    def _go_on(self) -> None:
        """Ask whoever is to move, if anybody is."""
        self._asked = None
        if self.failure or self._over or self._moves >= self._game.longest:
            return
        seen = self._guarded(lambda: self._env.get_observation())
        if seen is None:
            return
        self._player, observations = seen
        chat = self._chats[self._player]
        told = self._told(observations)
        if not chat and self._game.form != "whole":
            told = f"{told}\n{self._game.answer_form.instruction}"
        chat.append(user(told))
        seat = self._game.seats[self._player]
        self._asked = Ask(seat, View(tuple(self._remembered(chat))))

    def _told(self, observations: Sequence[tuple[int, str, Any]]) -> str:
        """What the player is told since its last move, but its own answer."""
        lines = []
        own = textarena().ObservationType.PLAYER_ACTION
        roles = self._env.state.role_mapping
        for sender, text, kind in observations:
            if sender == self._player and kind == own:
                continue
            name = "" if sender < 0 else f"[{roles.get(sender, f'Player {sender}')}] "
            lines.append(f"{name}{text}")
        return "\n".join(lines).strip() or "It is your move."

    def _remembered(self, chat: Sequence[Message]) -> Sequence[Message]:
        """The beginning and the last answers with what followed them."""
        count = self._game.remember
        if count is None or len(chat) <= 1 + 2 * count:
            return chat
        if count == 0:
            now = f"{chat[0].content}\n\n{chat[-1].content}"
            return [user(now)]
        return [chat[0], *chat[-2 * count :]]

    def _errors(self) -> int:
        return getattr(self._env.state, "error_count", 0)

    def _barred(self) -> bool:
        """Whether the game ended, for this player or for all, by its illegal move."""
        facts = getattr(self._env.state, "game_info", {}).get(self._player, {})
        return bool(facts.get("invalid_move"))

    def _guarded(self, call: Callable[[], T]) -> T | None:
        """What a call to the library returns, with this match's own dice; None where it raises,
        which is noted.
        """
        try:
            with self._dice.in_force():
                return call()
        # A game of the library may raise anything on an odd move, and the run goes on.
        except Exception as error:  # noqa: BLE001
            self.failure = f"{type(error).__name__}: {_plain(error)}"
            return None


def _made(game: TextArena, seed: int) -> Any:
    """The library's environment, set up; of its wrappers only those that read moves."""
    library = textarena()
    # some games print what they set up, or what they cannot download
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        env = library.make(game.name, **game.parameters)
        readers = []
        while isinstance(env, library.Wrapper):
            if isinstance(env, library.ActionWrapper):
                readers.append(type(env))
            env = env.env
        for reader in reversed(readers):
            env = reader(env)
        env.reset(num_players=game.players, seed=seed % 2**31)
    if hasattr(env.state, "elimination_order"):
        env.state.elimination_order = _Eliminated(env.state)
    if game.retries is not None:
        if not hasattr(env.state, "error_allowance"):
            raise ValueError("it has no setting for retries")
        env.state.error_allowance = game.retries
    return env


class _Eliminated(list):
    """Who is out. The library looks for the next player among the others; where nobody is left and
    the game is not over, it would look for ever.
    """

    def __init__(self, state: Any) -> None:
        super().__init__(state.elimination_order)
        self._state = state
        self._looks = 0  # in a row, at a game in which everybody is out

    def __contains__(self, player: object) -> bool:
        nobody = len(set(self)) == self._state.num_players and not self._state.done
        self._looks = self._looks + 1 if nobody else 0
        if self._looks > MOST_LOOKS:
            raise RuntimeError("everybody is out, and the game has no winner")
        return super().__contains__(player)


def _plain(error: Exception) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = next((line for line in lines if line.strip("*")), "no reason given")
    return f"{text} {NLTK}" if text.startswith("Resource") else text
