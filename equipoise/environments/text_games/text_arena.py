"""Games of TextArena: a hundred text games for one player or many.

Source: Guertler et al. 2025, TextArena, arXiv 2504.11442.
"""

import io
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from equipoise.component import nearest
from equipoise.environments.text_games.game import Play, Result, TextGame, import_library
from equipoise.errors import ConfigError
from equipoise.games.base import Ask
from equipoise.system.effects import Text, effect_in
from equipoise.types import Message, Prompt, View, user

MOST_LOOKS = 1000
NLTK = "Fetch it: python -m nltk.downloader words averaged_perceptron_tagger_eng"


@cache
def textarena() -> Any:
    """TextArena. Raises ConfigError where it is not installed."""
    return import_library("textarena", "textarena")


class TextArena(TextGame):
    """Seats, turns, observations, illegal moves and rewards are the library's.

    A seat sees a chat: what the game and the others told it, and its own answers. `form` other than
    `whole` asks for the move in that form and passes nothing else on. What the library makes of an
    illegal move holds: mostly another try, then the seat loses or is out.
    """

    kind: Literal["textarena"] = "textarena"
    name: Text = Field(description="the library's name of the game: KuhnPoker-v0")
    parameters: Annotated[dict[str, Any], effect_in("TextArena")] = Field(
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
        """Raise ConfigError for a game that is unknown, impossible here, or for other numbers."""
        known = textarena().envs.registration.ENV_REGISTRY
        if self.name not in known:
            raise ConfigError(
                f"game.name: TextArena has no game '{self.name}'; "
                f"{nearest(self.name, sorted(known))}"
            )
        dice = OwnDice(0)
        try:
            dice.call(dice.call(environment, self, 0).get_observation)
        except LibraryError as error:
            raise ConfigError(
                f"game: {self.name} cannot be set up for {self.players} players: {error}"
            ) from error

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """The library does not say how long a game lasts: an even share of `longest`."""
        return dict.fromkeys(self.seats, -(-self.longest // self.players))

    def play(self, prompt: Prompt) -> Play:
        try:
            return (yield from self._play(self.seed(prompt)))
        except LibraryError as error:
            return Result(None, f"the library failed: {error}")

    def _play(self, seed: int) -> Play:
        dice = OwnDice(seed)
        env = dice.call(environment, self, seed)
        chats: dict[int, list[Message]] = {i: [] for i in range(self.players)}
        illegal = dict.fromkeys(self.seats, 0)
        for _ in range(self.longest):
            player, observations = dice.call(env.get_observation)
            chat = chats[player]
            seat = self.seats[player]
            news = _news(env, player, observations)
            if not chat and self.form != "whole":
                news = f"{news}\n{self.answer_form.instruction}"
            chat.append(user(news))
            answer = yield Ask(seat, View(tuple(self._window(chat))))
            chat.append(Message("assistant", answer))
            move = answer if self.form == "whole" else self.answer_form.read(answer) or ""
            errors = _errors(env)
            over = bool(dice.call(env.step, move)[0])
            # the game may end, for this player or for all, by its illegal move
            facts = getattr(env.state, "game_info", {}).get(player, {})
            # the count of errors goes back to 0 with the turn of the next
            illegal[seat] += _errors(env) > errors or bool(facts.get("invalid_move"))
            if over:
                return self._result(env.state.rewards, illegal)
        return Result(None, f"the match did not end within game.longest = {self.longest} moves")

    def _window(self, chat: Sequence[Message]) -> Sequence[Message]:
        count = self.remember
        if count is None or len(chat) <= 1 + 2 * count:
            return chat
        if count == 0:
            now = f"{chat[0].content}\n\n{chat[-1].content}"
            return [user(now)]
        return [chat[0], *chat[-2 * count :]]

    def _result(self, rewards: Any, illegal: Mapping[str, int]) -> Result:
        if not isinstance(rewards, Mapping) or set(rewards) != set(range(self.players)):
            return Result(None, f"the library does not pay every seat: {rewards}")
        by_seat = {seat: float(rewards[i]) for i, seat in enumerate(self.seats)}
        return Result(by_seat, illegal=illegal)


def _news(env: Any, player: int, observations: Sequence[tuple[int, str, Any]]) -> str:
    lines = []
    own = textarena().ObservationType.PLAYER_ACTION
    roles = env.state.role_mapping
    for sender, text, kind in observations:
        if sender == player and kind == own:
            continue
        name = "" if sender < 0 else f"[{roles.get(sender, f'Player {sender}')}] "
        lines.append(f"{name}{text}")
    return "\n".join(lines).strip() or "It is your move."


def _errors(env: Any) -> int:
    return getattr(env.state, "error_count", 0)


def environment(game: TextArena, seed: int) -> Any:
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


class LibraryError(Exception):
    """A failure inside the library."""


class OwnDice:
    """Python's and NumPy's global random numbers as one match sees them; given back afterwards."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self._python = dice.getstate()
        # the legacy generator is the one that is global
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the library with this match's dice. Raises LibraryError where it raises."""
        python = random.getstate()
        legacy = np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            return function(*arguments)
        # A game of the library may raise anything on an odd move, and the run goes on.
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines()]
            text = next((line for line in lines if line.strip("*")), "no reason given")
            plain = f"{text} {NLTK}" if text.startswith("Resource") else text
            raise LibraryError(f"{type(error).__name__}: {plain}") from error
        finally:
            self._python = random.getstate()
            self._numpy = np.random.get_state()
            random.setstate(python)
            np.random.set_state(legacy)


class _Eliminated(list):
    """Players that are out; keeps the library from looking for a next player for ever."""

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
