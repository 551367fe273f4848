"""Games of OpenSpiel, played in text: small ones, of which the truth is known.

Source: Lanctot et al. 2019, OpenSpiel, arXiv 1908.09453.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.component import Settings, nearest
from equipoise.environments.text_games.answer_form import named
from equipoise.environments.text_games.game import Result, TextGame
from equipoise.environments.text_games.libraries import pyspiel
from equipoise.environments.text_games.rendering import rendered, rules
from equipoise.errors import ConfigError, first_line
from equipoise.games.base import Ask
from equipoise.template import Template
from equipoise.types import Message, Prompt, View, user

PACKAGE = "equipoise.environments.text_games"


class Example(Settings):
    """A turn that is shown before the question: what was seen, and how it was answered."""

    state: str = Field(description="what the seat is told of the match")
    moves: tuple[str, ...] = Field(min_length=1, description="the legal moves")
    move: str = Field(description="the one that was made")

    @model_validator(mode="after")
    def _legal(self) -> Example:
        if self.move not in self.moves:
            raise ValueError(f"move: '{self.move}' is not one of moves")
        return self


class OpenSpiel(TextGame):
    """Every move answers one message: the rules, what the seat knows, its legal moves.

    Games in which all move at once are asked one after the other, without seeing each other's move.
    Who answers with no legal move is asked again `retries` times in that turn. After that, with
    `illegal: lose`, the match ends: the seat gets the least that the game pays, and the others
    share in what is left of a constant sum, or get 0 where there is none. With `illegal: random` a
    legal move is drawn for it.
    """

    kind: Literal["open_spiel"] = "open_spiel"
    name: str = Field(
        "kuhn_poker",
        description="the library's name of the game, such as leduc_poker, or the whole "
        "of what it loads: repeated_game(stage_game=matrix_pd(),num_repetitions=3)",
    )
    parameters: dict[str, bool | int | float | str] = Field(
        default_factory=dict, description="the library's settings of the game"
    )
    retries: int = Field(0, ge=0, description="how often a seat is asked again in a turn")
    illegal: Literal["lose", "random"] = Field(
        "lose", description="what becomes of a turn without a legal move"
    )
    rules: str | None = Field(
        None,
        description="what players are told of the rules; null: the packaged words, "
        'where there are some; "": nothing',
    )
    text: str = Field(
        "open_spiel", description="what players are asked: a template's file, or a packaged one"
    )
    examples: tuple[Example, ...] = Field(
        (),
        description="turns of the chat before every question, the first with the rules, "
        "which show a model that was never taught how a move is written",
    )

    def check(self) -> None:
        """Raises ConfigError for an unknown game, settings or numbers of players that it does not
        have, and games that cannot be played in text; DataError for a template that cannot be used.
        """
        known = _kinds()
        if self.short_name not in known:
            raise ConfigError(
                f"game.name: OpenSpiel has no game '{self.short_name}'; "
                f"{nearest(self.short_name, sorted(known))}"
            )
        kind = known[self.short_name]
        settings = list(kind.parameter_specification)
        for key in self.parameters:
            if key not in settings:
                hint = nearest(key, settings) if settings else "it has none"
                raise ConfigError(f"game.parameters: {self.name} has no setting '{key}'; {hint}")
        if not kind.min_num_players <= self.players <= kind.max_num_players:
            raise ConfigError(
                f"game.players: {self.name} is played by {_range(kind)}, not by {self.players}"
            )
        self._check_playable()
        self.view(self._first_decision())

    def _check_playable(self) -> None:
        """Raises ConfigError for a game that the library cannot make or show."""
        kind = self.spiel.get_type()
        if self.spiel.num_players() != self.players:
            raise ConfigError(
                f"game.players: {self.name} with these settings is played by "
                f"{self.spiel.num_players()}, not by {self.players}"
            )
        if str(kind.chance_mode) == "ChanceMode.SAMPLED_STOCHASTIC":
            raise ConfigError(
                f"game.name: {self.name} rolls dice of its own, so that its matches "
                "could not be replayed"
            )
        seen = (kind.provides_information_state_string, kind.provides_observation_string)
        if not any(seen):
            raise ConfigError(f"game.name: {self.name} has no text to show a player")

    @property
    def short_name(self) -> str:
        """The name of the game without its settings."""
        return self.name.partition("(")[0]

    @cached_property
    def spiel(self) -> Any:
        """The library's game, turned into one in which one player moves at a time.

        Raises ConfigError where the library refuses the settings.
        """
        settings = dict(self.parameters)
        kind = _kinds().get(self.name)
        if kind is not None and "players" in kind.parameter_specification:
            settings.setdefault("players", self.players)
        try:
            # a name with its settings is loaded as it stands
            game = pyspiel().load_game(self.name, *([settings] if kind else []))
        except (pyspiel().SpielError, IndexError) as error:
            raise ConfigError(f"game: {self.name}: {first_line(error)}") from error
        dynamics = str(game.get_type().dynamics)
        if dynamics == "Dynamics.SIMULTANEOUS":
            return pyspiel().convert_to_turn_based(game)
        if dynamics != "Dynamics.SEQUENTIAL":
            raise ConfigError(f"game.name: {self.name} is no game of single players")
        return game

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """As many as the longest match has, with every retry."""
        most: int = self.spiel.max_game_length() * (1 + self.retries)
        return dict.fromkeys(self.seats, most)

    def table(self, prompt: Prompt) -> SpielTable:
        """A new match on this prompt."""
        return SpielTable(self, self.seed(prompt))

    # -- states in words

    def legal_moves(self, state: Any) -> dict[str, int]:
        """The text of each legal move of whoever is to move -> its number."""
        player = state.current_player()
        texts: dict[str, int] = {}
        for action in state.legal_actions():
            text = str(state.action_to_string(player, action))
            texts[text.lower() if text.isalpha() else text] = action
        assert len(texts) == len(state.legal_actions()), "two moves have one name"
        return texts

    def view(self, state: Any) -> View:
        """What whoever is to move is asked."""
        moves = tuple(self.legal_moves(state))
        player = state.current_player()
        seen = rendered(self.short_name, state, player)
        messages: list[Message] = []
        for example in self.examples:
            first = not messages
            asked = self._question(self.seats[0], example.state, example.moves, first)
            answer = self.answer_form.write(example.move)
            messages += [asked, Message("assistant", answer)]
        messages.append(self._question(self.seats[player], seen, moves, with_rules=not messages))
        return View(tuple(messages), moves)

    def _question(self, seat: str, state: str, moves: Sequence[str], with_rules: bool) -> Message:
        """What a seat is asked, with the rules where none were told before it."""
        text = self._asked.render(
            rules=self.told_rules if with_rules else "",
            seat=seat,
            state=state,
            moves=", ".join(moves),
            form=self.answer_form.instruction,
        )
        return user(text)

    @cached_property
    def told_rules(self) -> str:
        """What players are told of the rules."""
        return rules(self.name, self.spiel) if self.rules is None else self.rules

    def corrected(self, view: View, answer: str) -> View:
        """What is asked after an answer that was no legal move."""
        text = self._again.render(moves=", ".join(view.actions), form=self.answer_form.instruction)
        messages = (*view.messages, Message("assistant", answer), user(text))
        return View(messages, view.actions)

    @cached_property
    def _asked(self) -> Template:
        known = ("rules", "seat", "state", "moves", "form")
        return Template(self.text, PACKAGE, "game.text", ("state", "moves"), known)

    @cached_property
    def _again(self) -> Template:
        return Template("illegal_move", PACKAGE, "game", ("moves",), ("moves", "form"))

    def _first_decision(self) -> Any:
        state = self.spiel.new_initial_state()
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        return state

    def forfeited(self, loser: int) -> list[float]:
        """What everybody gets where a seat loses by an illegal move."""
        least, total = self.spiel.min_utility(), self.spiel.utility_sum()
        others = 0.0
        if total is not None and self.players > 1:
            others = (total - least) / (self.players - 1)
        return [least if i == loser else others for i in range(self.players)]


class SpielTable:
    """One match of an OpenSpiel game."""

    def __init__(self, game: OpenSpiel, seed: int) -> None:
        self._game = game
        self._seed = seed
        self._state = game.spiel.new_initial_state()
        self._draws = 0
        self._refused = 0  # answers to this turn that were no legal moves
        self._illegal = dict.fromkeys(game.seats, 0)
        self._loser: int | None = None
        self._asked: Ask | None = None
        self._go_on()

    def ask(self) -> Ask | None:
        """Who is to move, and on what."""
        return self._asked

    def take(self, answer: str) -> None:
        """The answer: a legal move is made, for any other the game's rule holds."""
        assert self._asked is not None, "the match is over"
        view = self._asked.view
        place = named(self._game.answer_form.read(answer), view.actions)
        if place is not None:
            self._make(place)
            return
        self._illegal[self._asked.seat] += 1
        self._refused += 1
        if self._refused <= self._game.retries:
            self._asked = Ask(self._asked.seat, self._game.corrected(view, answer))
        elif self._game.illegal == "random":
            self._make(int(self._number() * len(view.actions)))
        else:
            self._loser = self._state.current_player()
            self._asked = None

    def result(self) -> Result:
        """What the game pays."""
        returns = self._state.returns()
        if self._loser is not None:
            returns = self._game.forfeited(self._loser)
        by_seat = dict(zip(self._game.seats, returns, strict=True))
        return Result(by_seat, illegal=self._illegal)

    def _make(self, place: int) -> None:
        actions = self._game.legal_moves(self._state)
        self._state.apply_action(list(actions.values())[place])
        self._refused = 0
        self._go_on()

    def _go_on(self) -> None:
        """Let chance play until somebody is to move, and ask."""
        while self._state.is_chance_node():
            self._state.apply_action(self._drawn(self._state.chance_outcomes()))
        self._asked = None
        if not self._state.is_terminal():
            seat = self._game.seats[self._state.current_player()]
            self._asked = Ask(seat, self._game.view(self._state))

    def _drawn(self, outcomes: Sequence[tuple[int, float]]) -> int:
        """One of these outcomes (with their probabilities)."""
        left = self._number()
        for outcome, probability in outcomes:
            left -= probability
            if left < 0:
                return outcome
        return outcomes[-1][0]

    def _number(self) -> float:
        """The next random number of this match, in [0, 1)."""
        self._draws += 1
        return float(seeds.generator(self._seed, self._draws).random())


def _kinds() -> dict[str, Any]:
    """Name -> what the library says of the game."""
    return {kind.short_name: kind for kind in pyspiel().registered_games()}


def _range(kind: Any) -> str:
    least, most = kind.min_num_players, kind.max_num_players
    return f"{least}" if least == most else f"{least} to {most}"
