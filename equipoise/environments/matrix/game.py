"""Two-player games given by a matrix of pay-offs, moved in at the same time: the
classics, cycles, or your own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.games.base import Ask, Bimatrix, Game, Referee
from equipoise.types import Prompt, View

Rows = tuple[tuple[float, ...], ...]

# Symmetric games: moves, and what the row seat gets; the column seat gets the same with
# the roles exchanged.
KNOWN: dict[str, tuple[tuple[str, ...], Rows]] = {
    "rock_paper_scissors": (
        ("rock", "paper", "scissors"),
        ((0, -1, 1), (1, 0, -1), (-1, 1, 0)),
    ),
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
    """The seats `row` and `column` each make one move. `name` picks a known game, or
    `custom` with `payoffs`.
    """

    kind: Literal["matrix"] = "matrix"
    name: Literal[
        "rock_paper_scissors",
        "biased_rock_paper_scissors",
        "cyclic",
        "prisoners_dilemma",
        "stag_hunt",
        "chicken",
        "custom",
    ] = Field("rock_paper_scissors", description="which game")
    size: int | None = Field(
        default_factory=lambda data: 5 if data.get("name") == "cyclic" else None,
        ge=3,
        description="of `cyclic`: how many moves, an odd number; each beats the (size − 1)/2 before it",
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
        readers = {"size": "cyclic", "seed": "cyclic"} | dict.fromkeys(
            ("payoffs", "column_payoffs", "row_actions", "column_actions"), "custom"
        )
        for key, reader in readers.items():
            if getattr(self, key) is not None and self.name != reader:
                raise ValueError(
                    f"{key} is not read by name: {self.name}, only by {reader}"
                )
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
        columns = self.column_actions or self.row_actions
        for key, names in (
            ("row_actions", self.row_actions),
            ("column_actions", columns),
        ):
            if not names or len({_plain(name) for name in names}) < len(names):
                raise ValueError(f"{key} must be different names, at least one")
        for key, rows in (
            ("payoffs", self.payoffs),
            ("column_payoffs", self.column_payoffs or self.payoffs),
        ):
            if len(rows) != len(self.row_actions):
                raise ValueError(
                    f"{key} has {len(rows)} rows for {len(self.row_actions)} row_actions"
                )
            for i, row in enumerate(rows):
                if len(row) != len(columns):
                    raise ValueError(
                        f"{key}, row {i + 1}: {len(row)} numbers for column's {len(columns)} moves"
                    )
                if not np.isfinite(row).all():
                    raise ValueError(f"{key}, row {i + 1}: every number must be finite")

    @property
    def seats(self) -> tuple[str, ...]:
        """Row and column."""
        return ("row", "column")

    @property
    def actions(self) -> tuple[str, ...]:
        """Row's moves."""
        return self.rules[0][0]

    @cached_property
    def rules(
        self,
    ) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], np.ndarray, np.ndarray]:
        """(row's and column's moves, row's pay-offs [A, M], column's pay-offs [A, M])."""
        if self.name == "custom":
            assert self.row_actions is not None
            payoff_AM = np.array(self.payoffs, float)
            column_AM = (
                -payoff_AM
                if self.column_payoffs is None
                else np.array(self.column_payoffs, float)
            )
            return (
                (self.row_actions, self.column_actions or self.row_actions),
                payoff_AM,
                column_AM,
            )
        if self.size is not None:
            actions, payoff_AM = (
                tuple(str(i + 1) for i in range(self.size)),
                cycle(self.size, self.seed),
            )
        else:
            actions, payoff_AM = (
                KNOWN[self.name][0],
                np.array(KNOWN[self.name][1], float),
            )
        return (actions, actions), payoff_AM, payoff_AM.T.copy()

    @property
    def symmetric(self) -> bool:
        """Whether each seat gets from its moves what the other would."""
        _, payoff_AM, column_AM = self.rules
        return payoff_AM.shape == column_AM.T.shape and bool(
            np.allclose(payoff_AM, column_AM.T)
        )

    def payoff_AM(self) -> np.ndarray:
        """What row gets, [A, M], when it plays a and column plays m."""
        return self.rules[1].copy()

    def bimatrix(self) -> Bimatrix:
        """Row's and column's moves and pay-offs."""
        actions, payoff_AM, column_AM = self.rules
        return Bimatrix(actions, payoff_AM.copy(), column_AM.copy())

    def referee(self, prompt: Prompt) -> Referee:
        """Ask both at once; neither sees the other's move."""
        row, column = self.rules[0]
        yield [
            Ask("row", View(prompt.messages, row)),
            Ask("column", View(prompt.messages, column)),
        ]

    def outcome(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Both seats' pay-offs. A move is a name, whatever its case and surrounding
        blanks.
        """
        (row, column), payoff_AM, column_AM = self.rules
        cell = _index("row", row, moves), _index("column", column, moves)
        return {"row": float(payoff_AM[cell]), "column": float(column_AM[cell])}


def cycle(size: int, seed: int | None) -> np.ndarray:
    """payoff[i, j] = +stake where (i − j) mod size is 1 … (size − 1)/2, −stake where it
    is more, [size, size].

    Every stake is 1, or with a seed uniform in [0.1, 1], one for each pair of moves.
    """
    distance = np.subtract.outer(np.arange(size), np.arange(size)) % size
    payoff_AA = np.where(distance == 0, 0.0, np.where(distance <= size // 2, 1.0, -1.0))
    if seed is None:
        return payoff_AA
    stake_AA = np.triu(seeds.generator(seed, "cycle").uniform(0.1, 1, (size, size)), 1)
    return payoff_AA * (stake_AA + stake_AA.T)


def _plain(text: str) -> str:
    return text.strip().casefold()


def _index(seat: str, actions: tuple[str, ...], moves: Mapping[str, Any]) -> int:
    said = moves.get(seat)
    for i, action in enumerate(actions):
        if said is not None and _plain(said) == _plain(action):
            return i
    raise ValueError(
        f"{seat} made no move"
        if said is None
        else f"{seat}: '{said}' is not one of {', '.join(actions)}"
    )
