"""Games of two seats given by a matrix of pay-offs, classics, cycles, Kuhn poker or your own, and
their judge.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import permutations, product
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.games.base import Ask, Bimatrix, Game, Referee
from equipoise.judges.base import Judge
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Prompt, View

Rows = tuple[tuple[float, ...], ...]
Moves = tuple[str, ...]

# Symmetric games: moves, and the row seat's pay-offs; the column seat's are the same with the roles
# exchanged.
KNOWN: dict[str, tuple[Moves, Rows]] = {
    "rock_paper_scissors": (("rock", "paper", "scissors"), ((0, -1, 1), (1, 0, -1), (-1, 1, 0))),
    # The equilibrium is (1, 10, 5)/16.
    "biased_rock_paper_scissors": (
        ("rock", "paper", "scissors"),
        ((0, -0.5, 1), (0.5, 0, -0.1), (-1, 0.1, 0)),
    ),
    "prisoners_dilemma": (("cooperate", "defect"), ((3, 0), (5, 1))),
    "stag_hunt": (("stag", "hare"), ((4, 0), (3, 3))),
    "chicken": (("swerve", "straight"), ((0, -1), (1, -10))),
}
# a setting -> the only game that reads it
READ_BY = {
    "size": "cyclic",
    "seed": "cyclic",
    "payoffs": "custom",
    "column_payoffs": "custom",
    "row_actions": "custom",
    "column_actions": "custom",
    "row_sees": "custom",
}
MOST_PLANS = 4096


class Matrix(Game):
    """The seats `row` and `column` move at once; `name` is a known game or `custom`."""

    kind: Literal["matrix"] = "matrix"
    name: Literal[
        "rock_paper_scissors",
        "biased_rock_paper_scissors",
        "cyclic",
        "prisoners_dilemma",
        "stag_hunt",
        "chicken",
        "kuhn_poker",
        "custom",
    ] = Field(
        "rock_paper_scissors",
        description="the game; kuhn_poker: in normal form, a move is a whole plan",
    )
    size: int | None = Field(
        default_factory=lambda data: 5 if data.get("name") == "cyclic" else None,
        ge=3,
        description="of `cyclic`: how many moves, an odd number; each beats the"
        " (size − 1)/2 before it",
    )
    seed: int | None = Field(
        None,
        description="of `cyclic`: random stakes in [0.1, 1], drawn by this seed; else all are 1",
    )
    payoffs: Rows | None = Field(
        None, description="of `custom`: row's pay-offs, one list for each of row's moves"
    )
    column_payoffs: Rows | None = Field(
        None, description="of `custom`: column's pay-offs; else the game is zero-sum"
    )
    row_actions: tuple[Text, ...] | None = Field(
        None, description="of `custom`: the names of row's moves"
    )
    column_actions: tuple[Text, ...] | None = Field(
        None, description="of `custom`: column's; else they are row's"
    )
    row_sees: bool = Field(
        False,
        description="of `custom`: row sees column's move; a move of row is then a whole plan, "
        "`answer to` each of column's moves",
    )

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        for key, name in READ_BY.items():
            value = getattr(self, key)
            if value is not None and value is not False and self.name != name:
                raise ValueError(f"{key} is not read by name: {self.name}, only by {name}")
        if self.size is not None and self.size % 2 == 0:
            raise ValueError(
                f"size must be odd, so that every move beats as many as beat it; got {self.size}"
            )
        if self.name == "custom":
            self._check_custom()
        return self

    def _check_custom(self) -> None:
        if self.payoffs is None or self.row_actions is None:
            raise ValueError(
                "name: custom needs payoffs (a list of rows) and row_actions (their names)"
            )
        column_actions = self.row_actions if self.column_actions is None else self.column_actions
        check_names("row_actions", self.row_actions)
        check_names("column_actions", column_actions)
        shape = len(self.row_actions), len(column_actions)
        check_rows("payoffs", self.payoffs, shape)
        if self.column_payoffs is not None:
            check_rows("column_payoffs", self.column_payoffs, shape)
        plans = len(self.row_actions) ** len(column_actions)
        if self.row_sees and plans > MOST_PLANS:
            raise ValueError(
                f"row_sees: {len(self.row_actions)} answers to each of {len(column_actions)} moves "
                f"make {plans} plans, more than {MOST_PLANS}; take fewer, or solvers.gpo.contextual"
            )

    @property
    def seats(self) -> tuple[str, ...]:
        return ("row", "column")

    @property
    def actions(self) -> Moves:
        return self.rules.actions[0]

    @cached_property
    def rules(self) -> Bimatrix:
        """Row's and column's moves and pay-offs [A, M]."""
        if self.name == "custom":
            assert self.row_actions is not None
            actions = self.row_actions, self.column_actions or self.row_actions
            payoff_AM = np.array(self.payoffs, float)
            column_AM = -payoff_AM
            if self.column_payoffs is not None:
                column_AM = np.array(self.column_payoffs, float)
            rules = Bimatrix(actions, payoff_AM, column_AM)
            return with_plans(rules) if self.row_sees else rules
        if self.name == "kuhn_poker":
            first, second, payoff_AM = kuhn_poker()
            return Bimatrix((first, second), payoff_AM, -payoff_AM)
        if self.size is not None:
            moves = tuple(str(i + 1) for i in range(self.size))
            payoff_AA = cycle(self.size, self.seed)
        else:
            moves, rows = KNOWN[self.name]
            payoff_AA = np.array(rows, float)
        return Bimatrix((moves, moves), payoff_AA, payoff_AA.T.copy())

    @property
    def symmetric(self) -> bool:
        first_AM = self.rules.first_AM
        second_MA = self.rules.second_AM.T
        return first_AM.shape == second_MA.shape and np.allclose(first_AM, second_MA)

    def payoff_AM(self) -> np.ndarray:
        return self.rules.first_AM.copy()

    def bimatrix(self) -> Bimatrix:
        rules = self.rules
        return rules._replace(first_AM=rules.first_AM.copy(), second_AM=rules.second_AM.copy())

    def referee(self, prompt: Prompt) -> Referee:
        """Ask both at once; neither sees the other's move."""
        row, column = self.rules.actions
        yield [Ask("row", View(prompt.messages, row)), Ask("column", View(prompt.messages, column))]

    def outcome(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Both seats' pay-offs, case and blanks aside. Raises ValueError for unknown moves."""
        row, column = self.rules.actions
        cell = _index("row", row, moves), _index("column", column, moves)
        first = self.rules.first_AM[cell]
        second = self.rules.second_AM[cell]
        return {"row": float(first), "column": float(second)}


def with_plans(rules: Bimatrix) -> Bimatrix:
    """The game in which the first seat sees the second's move, in normal form.

    Its moves are plans, one for each way to answer each of the second's moves, named `answer to
    move; …`: A ** M of them.
    """
    answers, moves = rules.actions
    plans_PM = np.array(list(product(range(len(answers)), repeat=len(moves))))
    column_M = np.arange(len(moves))
    names = [
        "; ".join(f"{answers[a]} to {move}" for a, move in zip(plan, moves, strict=True))
        for plan in plans_PM
    ]
    return Bimatrix(
        (tuple(names), moves),
        rules.first_AM[plans_PM, column_M],
        rules.second_AM[plans_PM, column_M],
        first_sees=True,
    )


def cycle(size: int, seed: int | None) -> np.ndarray:
    """The pay-offs [size, size] of a game in which every move beats the (size − 1)/2 before it.

    payoff[i, j] = +stake where (i − j) mod size is 1 … (size − 1)/2, −stake where it is more. Every
    stake is 1, or with a seed uniform in [0.1, 1], one for each pair.
    """
    distance = np.subtract.outer(np.arange(size), np.arange(size)) % size
    payoff_AA = np.where(distance == 0, 0.0, np.where(distance <= size // 2, 1.0, -1.0))
    if seed is None:
        return payoff_AA
    stake_AA = np.triu(seeds.generator(seed, "cycle").uniform(0.1, 1, (size, size)), 1)
    return payoff_AA * (stake_AA + stake_AA.T)


def check_names(key: str, names: Moves) -> None:
    if not names or len({_plain(name) for name in names}) < len(names):
        raise ValueError(f"{key} must be different names, at least one")


def check_rows(key: str, rows: Rows, shape: tuple[int, int]) -> None:
    if len(rows) != shape[0]:
        raise ValueError(f"{key} has {len(rows)} rows for {shape[0]} row_actions")
    for i, row in enumerate(rows):
        if len(row) != shape[1]:
            raise ValueError(
                f"{key}, row {i + 1}: {len(row)} numbers for column's {shape[1]} moves"
            )
        if not np.isfinite(row).all():
            raise ValueError(f"{key}, row {i + 1}: every number must be finite")


def _plain(text: str) -> str:
    return text.strip().casefold()


def _index(seat: str, actions: Moves, moves: Mapping[str, str]) -> int:
    move = moves.get(seat)
    if move is None:
        raise ValueError(f"{seat} made no move")
    for i, action in enumerate(actions):
        if _plain(move) == _plain(action):
            return i
    raise ValueError(f"{seat}: '{move}' is not one of {', '.join(actions)}")


# -- Kuhn poker

CARDS = "JQK"
# The first player's choices with a card: pass (then pass or bet, if the second bets), or bet.
FIRST = ("pp", "pb", "b")
# The second player's choices with a card: after a pass, and after a bet.
SECOND = ("pp", "pb", "bp", "bb")


def kuhn_poker() -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """Kuhn poker in normal form: (27 plans, the second's 64, mean pay-off of the first [27, 64]).

    A move is a whole plan, `J:pp Q:pb K:b`. Three cards, jack, queen and king; each side puts in
    one and is dealt one. The first passes or bets one more; the second, after a pass, passes (the
    higher card wins one) or bets; after a bet the other passes (and loses one) or bets, too (the
    higher card wins two). The value for the first is −1/18. Source: Kuhn 1950, Contributions to the
    Theory of Games 1.
    """
    deals = list(permutations(range(len(CARDS)), 2))
    first_plans = list(product(FIRST, repeat=len(CARDS)))
    second_plans = list(product(SECOND, repeat=len(CARDS)))
    payoff_AM = np.zeros((len(first_plans), len(second_plans)))
    for i, first in enumerate(first_plans):
        for j, second in enumerate(second_plans):
            paid = [kuhn_payoff(first[a], second[b], a > b) for a, b in deals]
            payoff_AM[i, j] = sum(paid) / len(deals)
    return plan_names(first_plans), plan_names(second_plans), payoff_AM


def plan_names(plans: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    named = [zip(CARDS, plan, strict=True) for plan in plans]
    return tuple(" ".join(f"{card}:{choice}" for card, choice in plan) for plan in named)


def kuhn_payoff(first: str, second: str, higher: bool) -> int:
    """Pay-off of the first in one deal; `higher`: its card is."""
    after_pass, after_bet = second
    showdown = 1 if higher else -1
    if first == "b":
        return 2 * showdown if after_bet == "b" else 1
    if after_pass == "p":
        return showdown
    return 2 * showdown if first == "pb" else -1


class MatrixPayoff(Judge):
    """Scores each seat what the rules pay; unjudged where a move failed or is illegal."""

    kind: Literal["matrix"] = "matrix"
    whole_matches: ClassVar[bool] = True
    known_utilities: ClassVar = ("score",)

    def prepare(self) -> None:
        game = self.judge_context.game
        if game.payoff_AM() is None:
            raise ConfigError(f"judge: 'matrix' judges finite games; '{game.kind}' is none")

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        return [self._judgement(match) for match in matches]

    def _judgement(self, match: Match) -> Judgement:
        game = self.judge_context.game
        for turn in match.turns:
            if turn.move.finish == "error":
                return self.judgement(match, None, f"{turn.seat} did not move: {turn.move.error}")
        moves = {turn.seat: turn.move.text for turn in match.turns}
        try:
            payoffs = game.outcome(moves)
        except ValueError as error:
            return self.judgement(match, None, str(error))
        scores = {seat: {"score": payoff} for seat, payoff in payoffs.items()}
        return self.judgement(match, scores)
