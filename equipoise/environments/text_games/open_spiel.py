"""Games of OpenSpiel, played in text: small ones, of which the truth is known.

Source: Lanctot et al. 2019, OpenSpiel, arXiv 1908.09453.
"""

import re
from collections.abc import Callable, Generator, Sequence
from functools import cache, cached_property
from itertools import count
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.component import Settings, nearest
from equipoise.environments.text_games.game import (
    Play,
    Result,
    TextGame,
    import_library,
    legal_index,
)
from equipoise.errors import ConfigError, first_line
from equipoise.games.base import Ask
from equipoise.question_template import Template
from equipoise.system.effects import TemplateText, Text, effect_in
from equipoise.types import Message, Prompt, View, user

PACKAGE = "equipoise.environments.text_games"
RULES = {
    "kuhn_poker": "Kuhn poker: every player puts one chip into the pot and gets one "
    "card; the highest card wins. Whoever bets adds one chip; after a bet, pass means "
    "to fold and bet means to call.",
    "leduc_poker": "Leduc poker: two cards each of jack, queen and king. Every player "
    "puts one chip into the pot and gets one card. There are two rounds of betting, "
    "with raises of two and then four chips; between them a card is laid on the table. "
    "Who has its pair wins, else the higher card.",
    "tic_tac_toe": "Tic-tac-toe: three in a row win. Moves name row and column.",
}
RANKS = ("jack", "queen", "king")
LEDUC_MOVES = ("fold", "call", "raise")


@cache
def pyspiel() -> Any:
    """OpenSpiel's own module. Raises ConfigError where it is not installed."""
    return import_library("pyspiel", "open_spiel")


class Example(Settings):
    """A turn that is shown before the question, with its answer."""

    state: Text = Field(description="the seat's view of the match")
    moves: tuple[Text, ...] = Field(min_length=1, description="the legal moves")
    move: Text = Field(description="the chosen one")

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if self.move not in self.moves:
            raise ValueError(f"move: '{self.move}' is not one of moves")
        return self


class OpenSpiel(TextGame):
    """Every move answers one message: the rules, what the seat knows, its legal moves.

    Games in which all move at once are asked one after the other, unseen. An illegal answer is
    asked again `retries` times in that turn; then, with `illegal: lose`, the match ends: the seat
    gets the least that the game pays, and the others share the rest of a constant sum, or get 0.
    With `illegal: random` a legal move is drawn for it.
    """

    kind: Literal["open_spiel"] = "open_spiel"
    name: Annotated[str, effect_in("OpenSpiel", only=r"\(")] = Field(
        "kuhn_poker",
        description="the library's name of the game, such as leduc_poker, or the whole "
        "of what it loads: repeated_game(stage_game=matrix_pd(),num_repetitions=3)",
    )
    parameters: dict[Text, bool | int | float | Annotated[str, effect_in("OpenSpiel")]] = Field(
        default_factory=dict, description="the library's settings of the game"
    )
    retries: int = Field(0, ge=0, description="further requests to a seat in a turn")
    illegal: Literal["lose", "random"] = Field(
        "lose", description="the consequence of a turn without a legal move"
    )
    rules: Text | None = Field(
        None,
        description="the rules in the players' words; null: the packaged words, "
        'where there are some; "": nothing',
    )
    text: TemplateText = Field(
        "open_spiel", description="the players' question: a template's file, or a packaged one"
    )
    examples: tuple[Example, ...] = Field(
        (),
        description="turns of the chat before every question, the first with the rules, "
        "which show a model that was never taught how a move is written",
    )

    def check(self) -> None:
        """Raise ConfigError for a game that cannot be played so, DataError for its template."""
        known = _kinds()
        if self.short_name not in known:
            raise ConfigError(
                f"game.name: OpenSpiel has no game '{self.short_name}'; "
                f"{nearest(self.short_name, sorted(known))}"
            )
        kind = known[self.short_name]
        settings = list(kind.parameter_specification)
        if self.parameters and "(" in self.name:
            raise ConfigError(f"game.parameters: write them into game.name: {self.name}")
        for key in self.parameters:
            if key not in settings:
                hint = nearest(key, settings) if settings else "it has none"
                raise ConfigError(f"game.parameters: {self.name} has no setting '{key}'; {hint}")
        least = kind.min_num_players
        most = kind.max_num_players
        if not least <= self.players <= most:
            number = f"{least}" if least == most else f"{least} to {most}"
            raise ConfigError(
                f"game.players: {self.name} is played by {number}, not by {self.players}"
            )
        self._check_playable()
        state = self.spiel.new_initial_state()
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        self.view(state)

    def _check_playable(self) -> None:
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
        return self.name.partition("(")[0]

    @cached_property
    def spiel(self) -> Any:
        """The library's game, one player at a time. Raises ConfigError for refused settings."""
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
        most: int = self.spiel.max_game_length() * (1 + self.retries)
        return dict.fromkeys(self.seats, most)

    def play(self, prompt: Prompt) -> Play:
        seed = self.seed(prompt)
        numbers = (float(seeds.generator(seed, draw).random()) for draw in count(1))
        state = self.spiel.new_initial_state()
        illegal = dict.fromkeys(self.seats, 0)
        while not state.is_terminal():
            if state.is_chance_node():
                state.apply_action(_draw(state.chance_outcomes(), next(numbers)))
                continue
            player = state.current_player()
            index, mistakes = yield from self._turn(self.seats[player], self.view(state))
            illegal[self.seats[player]] += mistakes
            if index is None and self.illegal == "lose":
                returns = self.forfeit_returns(player)
                return Result(dict(zip(self.seats, returns, strict=True)), illegal=illegal)
            actions = list(self.legal_moves(state).values())
            if index is None:
                index = int(next(numbers) * len(actions))
            state.apply_action(actions[index])
        return Result(dict(zip(self.seats, state.returns(), strict=True)), illegal=illegal)

    def _turn(self, seat: str, view: View) -> Generator[Ask, str, tuple[int | None, int]]:
        """(the index of the seat's legal move, None where it made none; its illegal answers)."""
        for mistakes in range(1 + self.retries):
            answer = yield Ask(seat, view)
            index = legal_index(self.answer_form.read(answer), view.actions)
            if index is not None:
                return index, mistakes
            text = self._again.render(
                moves=", ".join(view.actions), form=self.answer_form.instruction
            )
            messages = (*view.messages, Message("assistant", answer), user(text))
            view = View(messages, view.actions)
        return None, 1 + self.retries

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
        """The view of whoever is to move: examples, the state, the legal moves."""
        moves = tuple(self.legal_moves(state))
        player = state.current_player()
        shown = state_in_words(self.short_name, state, player)
        messages: list[Message] = []
        for example in self.examples:
            question = self._question(self.seats[0], example.state, example.moves, not messages)
            answer = self.answer_form.write(example.move)
            messages += [question, Message("assistant", answer)]
        messages.append(self._question(self.seats[player], shown, moves, not messages))
        return View(tuple(messages), moves)

    def _question(self, seat: str, state: str, moves: Sequence[str], with_rules: bool) -> Message:
        rules = ""
        if with_rules:
            rules = rules_in_words(self.name) if self.rules is None else self.rules
        text = self._question_template.render(
            rules=rules,
            seat=seat,
            state=state,
            moves=", ".join(moves),
            form=self.answer_form.instruction,
        )
        return user(text)

    @cached_property
    def _question_template(self) -> Template:
        known = ("rules", "seat", "state", "moves", "form")
        return Template(self.text, PACKAGE, "game.text", ("state", "moves"), known)

    @cached_property
    def _again(self) -> Template:
        return Template("illegal_move", PACKAGE, "game", ("moves",), ("moves", "form"))

    def forfeit_returns(self, loser: int) -> list[float]:
        """Everybody's pay-off where a seat loses by an illegal move."""
        least = self.spiel.min_utility()
        total = self.spiel.utility_sum()
        others = 0.0
        if total is not None and self.players > 1:
            others = (total - least) / (self.players - 1)
        return [least if i == loser else others for i in range(self.players)]


def _draw(outcomes: Sequence[tuple[int, float]], number: float) -> int:
    for outcome, probability in outcomes:
        number -= probability
        if number < 0:
            return outcome
    return outcomes[-1][0]


def _kinds() -> dict[str, Any]:
    return {kind.short_name: kind for kind in pyspiel().registered_games()}


# -- rules and states in words


@cache
def rules_in_words(name: str) -> str:
    """The rules of the game, "" where they are unknown; of a matrix game every pay-off."""
    stage = name.removeprefix("repeated_game(stage_game=").partition("(")[0]
    if stage in _kinds() and stage.startswith("matrix_"):
        rounds = "Both move at once, without seeing each other's move."
        game = pyspiel().load_matrix_game(stage)
        cells = []
        for row in range(game.num_rows()):
            for column in range(game.num_cols()):
                first, second = (game.player_utility(player, row, column) for player in (0, 1))
                moves = f"{game.row_action_name(row)} and {game.col_action_name(column)}"
                cells.append(f"{moves}: {first:g} and {second:g}".lower())
        payoffs = f"What player 0 and player 1 get when they play … and …: {'; '.join(cells)}."
        return f"{rounds} {payoffs}"
    return RULES.get(name.partition("(")[0], "")


def state_in_words(name: str, state: Any, player: int) -> str:
    """The information of `player` in this state of the game `name`, and nothing else."""
    if name.startswith("matrix_"):
        return ""  # the rules say all
    return RENDERERS.get(name, library_text)(state, player)


def library_text(state: Any, player: int) -> str:
    """The library's own words: the whole board, or the player's part where something is hidden."""
    kind = state.get_game().get_type()
    hides = str(kind.information) != "Information.PERFECT_INFORMATION"
    if hides and kind.provides_information_state_string:
        text = state.information_state_string(player)
    else:
        text = state.observation_string(player)
    return re.sub(r"\ACurrent player: \d+\n", "", text).strip()


def kuhn_poker(state: Any, player: int) -> str:
    """The player's card, and everybody's moves."""
    players = state.num_players()
    history = state.history()
    dealt = history[:players]
    moves = history[players:]
    played = [
        f"{'you' if i % players == player else f'player {i % players}'} {('pass', 'bet')[move]}"
        for i, move in enumerate(moves)
    ]
    cards = RANKS if players == 2 else tuple(map(str, range(players + 1)))
    return f"Your card: {cards[dealt[player]]}. So far: {', '.join(played) or 'nothing'}."


def leduc_poker(state: Any, player: int) -> str:
    """The player's card, that on the table, and both rounds of betting."""
    known = dict(re.findall(r"\[(\w+): ?([^\]]*)\]", state.information_state_string(player)))
    ranks = RANKS if state.num_players() == 2 else tuple(map(str, range(12)))
    rounds = [_round(known[key]) for key in ("Round1", "Round2")]
    table = ranks[int(known["Public"]) // 2] if "Public" in known else "nothing yet"
    return (
        f"Your card: {ranks[int(known['Private']) // 2]}. On the table: {table}. "
        f"Round 1: {rounds[0]}. Round 2: {rounds[1]}. Pot: {known['Pot']}."
    )


def _round(moves: str) -> str:
    return ", ".join(LEDUC_MOVES[int(move)] for move in moves.split()) or "nothing yet"


def repeated_game(state: Any, player: int) -> str:
    """All earlier rounds, player 0's move first."""
    return f"Earlier rounds: {library_text(state, player).rstrip(' ;') or 'none'}."


# game -> its own words; the others are shown as the library writes them
RENDERERS: dict[str, Callable[[Any, int], str]] = {
    "kuhn_poker": kuhn_poker,
    "leduc_poker": leduc_poker,
    "repeated_game": repeated_game,
}
