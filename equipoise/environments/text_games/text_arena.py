"""Games of TextArena: a hundred text games for one player or many.

Source: Guertler et al. 2025, TextArena, arXiv 2504.11442.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from equipoise.component import nearest
from equipoise.environments.text_games.game import Result, TextGame, import_library
from equipoise.errors import ConfigError
from equipoise.games.base import Ask
from equipoise.types import Message, Prompt, View, user

T = TypeVar("T")
MOST_LOOKS = 1000
NLTK = "Fetch it: python -m nltk.downloader words averaged_perceptron_tagger_eng"


@cache
def textarena() -> Any:
    """TextArena. Raises ConfigError where it is not installed."""
    return import_library("textarena", "textarena")


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
        description="the number of its earlier answers that a seat sees, with the messages "
        "before each; null: all. The beginning, with the rules, is always shown",
    )
    longest: int = Field(
        400, ge=1, description="moves after which a match counts as endless, unjudged"
    )

    def check(self) -> None:
        """Raise ConfigError for an unknown game, one that the library cannot set up here, or not
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
    """One match of a TextArena game; `failure` is the library's error, which ends it."""

    def __init__(self, game: TextArena, seed: int) -> None:
        self._game = game
        self._dice = OwnDice(seed)
        self._chats: dict[int, list[Message]] = {i: [] for i in range(game.players)}
        self._illegal = dict.fromkeys(game.seats, 0)
        self._moves = 0
        self._over = False
        self._player = 0
        self._request: Ask | None = None
        self.failure = ""
        self._env: Any = self._call(lambda: _environment(game, seed))
        self._go_on()

    def ask(self) -> Ask | None:
        """The next request; None: the match is over."""
        return self._request

    def take(self, answer: str) -> None:
        """Pass the answer on to the game as it is, or as the form reads it."""
        assert self._request is not None, "the match is over"
        chat = self._chats[self._player]
        chat.append(Message("assistant", answer))
        move = answer
        if self._game.form != "whole":
            move = self._game.answer_form.read(answer) or ""
        errors = self._errors()
        step = self._call(lambda: self._env.step(move))
        self._moves += 1
        self._over = step is not None and bool(step[0])
        # the game may end, for this player or for all, by its illegal move
        facts = getattr(self._env.state, "game_info", {}).get(self._player, {})
        # the count of errors goes back to 0 with the turn of the next
        illegal = self._errors() > errors or bool(facts.get("invalid_move"))
        self._illegal[self._request.seat] += illegal
        self._go_on()

    def result(self) -> Result:
        """The library's pay-offs."""
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
        self._request = None
        if self.failure or self._over or self._moves >= self._game.longest:
            return
        observation = self._call(lambda: self._env.get_observation())
        if observation is None:
            return
        self._player, observations = observation
        chat = self._chats[self._player]
        news = self._news(observations)
        if not chat and self._game.form != "whole":
            news = f"{news}\n{self._game.answer_form.instruction}"
        chat.append(user(news))
        seat = self._game.seats[self._player]
        self._request = Ask(seat, View(tuple(self._window(chat))))

    def _news(self, observations: Sequence[tuple[int, str, Any]]) -> str:
        """The messages to the player since its last move, but its own answer."""
        lines = []
        own = textarena().ObservationType.PLAYER_ACTION
        roles = self._env.state.role_mapping
        for sender, text, kind in observations:
            if sender == self._player and kind == own:
                continue
            name = "" if sender < 0 else f"[{roles.get(sender, f'Player {sender}')}] "
            lines.append(f"{name}{text}")
        return "\n".join(lines).strip() or "It is your move."

    def _window(self, chat: Sequence[Message]) -> Sequence[Message]:
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

    def _call(self, call: Callable[[], T]) -> T | None:
        """Call the library with this match's own dice; None where it raises, which is noted."""
        try:
            with self._dice.in_force():
                return call()
        # A game of the library may raise anything on an odd move, and the run goes on.
        except Exception as error:  # noqa: BLE001
            self.failure = f"{type(error).__name__}: {_plain(error)}"
            return None


def _environment(game: TextArena, seed: int) -> Any:
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


class OwnDice:
    """Python's and NumPy's global random numbers as one match sees them.

    Matches advance together, so each keeps its place in its own sequence, and the global generators
    are given back as they were.
    """

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self._python = dice.getstate()
        # the legacy generator is the one that is global
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Draws continue this match's sequence."""
        python, legacy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(legacy)


class _Eliminated(list):
    """Players that are out. The library looks for the next player among the others; where nobody is
    left and the game is not over, it would look for ever.
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
