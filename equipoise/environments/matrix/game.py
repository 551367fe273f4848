"""Games of two seats given by a matrix of pay-offs: classics, cycles, or your own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.environments.matrix.kuhn import kuhn_poker
from equipoise.games.base import Ask, Bimatrix, Game, Referee
from equipoise.types import Prompt, View

Rows = tuple[tuple[float, ...], ...]
Moves = tuple[str, ...]

# Symmetric games: moves, and what the row seat gets; the column seat gets the same with the roles
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


class Matrix(Game):
    """The seats `row` and `column` each make one move, both at once.

    `name` picks a known game, or `custom` with `payoffs`.
    """

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
        description="which game; kuhn_poker: in normal form, a move is a whole plan",
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
        None, description="of `custom`: what row gets, one list for each of row's moves"
    )
    column_payoffs: Rows | None = Field(
        None, description="of `custom`: what column gets; else the game is zero-sum"
    )
    row_actions: tuple[str, ...] | None = Field(
        None, description="of `custom`: the names of row's moves"
    )
    column_actions: tuple[str, ...] | None = Field(
        None, description="of `custom`: column's; else they are row's"
    )

    @model_validator(mode="after")
    def _well_formed(self) -> Matrix:
        for key in _CYCLIC_ONLY:
            self._check_read(key, "cyclic")
        for key in _CUSTOM_ONLY:
            self._check_read(key, "custom")
        if self.size is not None and self.size % 2 == 0:
            raise ValueError(
                f"size must be odd, so that every move beats as many as beat it; got {self.size}"
            )
        if self.name == "custom":
            self._check_custom()
        return self

    def _check_read(self, key: str, name: str) -> None:
        """Raises ValueError for a setting that only the game `name` reads."""
        if getattr(self, key) is not None and self.name != name:
            raise ValueError(f"{key} is not read by name: {self.name}, only by {name}")

    def _check_custom(self) -> None:
        if self.payoffs is None or self.row_actions is None:
            raise ValueError(
                "name: custom needs payoffs (a list of rows) and row_actions (their names)"
            )
        column_actions = self.column_actions or self.row_actions
        _check_names("row_actions", self.row_actions)
        _check_names("column_actions", column_actions)
        shape = len(self.row_actions), len(column_actions)
        _check_rows("payoffs", self.payoffs, shape)
        if self.column_payoffs:
            _check_rows("column_payoffs", self.column_payoffs, shape)

    @property
    def seats(self) -> tuple[str, ...]:
        """Row and column."""
        return ("row", "column")

    @property
    def actions(self) -> Moves:
        """Row's moves."""
        return self.rules.actions[0]

    @cached_property
    def rules(self) -> Bimatrix:
        """Row's and column's moves and pay-offs [A, M]."""
        if self.name == "custom":
            assert self.row_actions is not None
            actions = self.row_actions, self.column_actions or self.row_actions
            payoff_AM = np.array(self.payoffs, float)
            if self.column_payoffs is None:
                return Bimatrix(actions, payoff_AM, -payoff_AM)
            return Bimatrix(actions, payoff_AM, np.array(self.column_payoffs, float))
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
        """Whether each seat gets from its moves what the other would."""
        first_AM, second_MA = self.rules.first_AM, self.rules.second_AM.T
        return first_AM.shape == second_MA.shape and np.allclose(first_AM, second_MA)

    def payoff_AM(self) -> np.ndarray:
        """What row gets, [A, M], when it plays a and column plays m."""
        return self.rules.first_AM.copy()

    def bimatrix(self) -> Bimatrix:
        """Row's and column's moves and pay-offs."""
        rules = self.rules
        return Bimatrix(rules.actions, rules.first_AM.copy(), rules.second_AM.copy())

    def referee(self, prompt: Prompt) -> Referee:
        """Ask both at once; neither sees the other's move."""
        row, column = self.rules.actions
        yield [Ask("row", View(prompt.messages, row)), Ask("column", View(prompt.messages, column))]

    def outcome(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Both seats' pay-offs; the case of a move and blanks around it do not matter.

        Raises ValueError naming a move that is none.
        """
        row, column = self.rules.actions
        cell = _index("row", row, moves), _index("column", column, moves)
        first, second = self.rules.first_AM[cell], self.rules.second_AM[cell]
        return {"row": float(first), "column": float(second)}


def cycle(size: int, seed: int | None) -> np.ndarray:
    """The pay-offs of a game in which every move beats the (size − 1)/2 before it.

    payoff[i, j] = +stake where (i − j) mod size is 1 … (size − 1)/2, −stake where it is more,
    [size, size]. Every stake is 1, or with a seed uniform in [0.1, 1], one for each pair of moves.
    """
    distance = np.subtract.outer(np.arange(size), np.arange(size)) % size
    payoff_AA = np.where(distance == 0, 0.0, np.where(distance <= size // 2, 1.0, -1.0))
    if seed is None:
        return payoff_AA
    stake_AA = np.triu(seeds.generator(seed, "cycle").uniform(0.1, 1, (size, size)), 1)
    return payoff_AA * (stake_AA + stake_AA.T)


_CYCLIC_ONLY = ("size", "seed")
_CUSTOM_ONLY = ("payoffs", "column_payoffs", "row_actions", "column_actions")


def _check_names(key: str, names: Moves) -> None:
    if not names or len({_plain(name) for name in names}) < len(names):
        raise ValueError(f"{key} must be different names, at least one")


def _check_rows(key: str, rows: Rows, shape: tuple[int, int]) -> None:
    """Raises ValueError unless the rows are finite numbers, [A, M]."""
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
    """The place of the seat's move among its actions."""
    move = moves.get(seat)
    if move is None:
        raise ValueError(f"{seat} made no move")
    for i, action in enumerate(actions):
        if _plain(move) == _plain(action):
            return i
    raise ValueError(f"{seat}: '{move}' is not one of {', '.join(actions)}")
