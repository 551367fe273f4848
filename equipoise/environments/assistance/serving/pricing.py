"""What a price makes of a written game: an assistant's pay-off matrix edited by who
pays for which action.

A constant added to all of one side's pay-offs changes neither equilibria nor Pareto
fronts, so every pricing says what each *action* costs. Then a cell of the edited matrix
is chosen, and the answer goes on from there. Source: GTAlign (arXiv 2510.08872),
steering at inference.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from equipoise.component import Component, Settings, nearest
from equipoise.environments.assistance import written_game
from equipoise.environments.assistance.payoff_matrix import ACTIONS, Cell, PayoffMatrix
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Welfare

BY = (
    "welfare",
    "sum",
    "product",
    "product_released",
    "nash",
    "stackelberg",
    "bargaining",
)


class Cost(NamedTuple):
    """What an action takes from either side, in units of the pay-off; negative: what it
    gives.
    """

    user: float
    llm: float


class Lengths(Settings):
    """Tokens that each action is expected to take."""

    AQ: float = Field(
        default=350.0, ge=0, description="tokens of an answer with a follow-up question"
    )
    CQ: float = Field(default=40.0, ge=0, description="tokens of a clarifying question")
    DA: float = Field(default=300.0, ge=0, description="tokens of a direct answer")

    def of(self, action: str) -> float:
        """Tokens of `action`."""
        return {"AQ": self.AQ, "CQ": self.CQ, "DA": self.DA}[action]


class PerAction(Settings):
    """Units of the pay-off for each action."""

    AQ: float = Field(
        default=0.0,
        allow_inf_nan=False,
        description="an answer with a follow-up question",
    )
    CQ: float = Field(
        default=0.0, allow_inf_nan=False, description="a clarifying question"
    )
    DA: float = Field(default=0.0, allow_inf_nan=False, description="a direct answer")

    def of(self, action: str) -> float:
        """The units of `action`."""
        return {"AQ": self.AQ, "CQ": self.CQ, "DA": self.DA}[action]


class Pricing(Component):
    """Who pays how much for which action."""

    KINDS: ClassVar = {
        name: f"equipoise.environments.assistance.serving.pricing:{cls}"
        for name, cls in {
            "none": "Free",
            "per_token": "PerToken",
            "subscription": "Subscription",
            "latency": "Latency",
            "user_effort": "UserEffort",
            "costs": "Costs",
            "released": "Released",
        }.items()
    }

    @abstractmethod
    def cost(self, action: str) -> Cost:
        """What `action` ("AQ", "CQ", "DA") takes from either side, in units of the
        pay-off.
        """

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        """The matrix with each cell's costs taken off, to one decimal as matrices are
        written.
        """
        costs = {action: self.cost(action) for action in ACTIONS}
        return {
            name: Cell(
                *(
                    _one_decimal(value - cost)
                    for value, cost in zip(cell, costs[name[3:]], strict=True)
                )
            )
            for name, cell in matrix.items()
        }


class Free(Pricing):
    """Nobody pays: the matrix as it was written."""

    kind: Literal["none"] = "none"

    def cost(self, action: str) -> Cost:
        """Nothing."""
        return Cost(0.0, 0.0)

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        """The same matrix."""
        return dict(matrix)


class Metered(Pricing):
    """Every token has its price: price · tokens / 1000. A clarifying question costs the
    user a round trip besides.
    """

    price: float = Field(
        5.0,
        ge=0,
        description="what 1000 tokens cost whoever pays, in units of the pay-off",
    )
    tokens: Lengths = Field(
        Lengths(), description="tokens that each action is expected to take"
    )
    round_trip: float = Field(
        0.5,
        ge=0,
        description="what having to reply costs the user after a clarifying question, in units of the pay-off",
    )

    def _paid(self, action: str) -> float:
        return self.price * self.tokens.of(action) / 1000

    def _replied(self, action: str) -> float:
        return self.round_trip if action == "CQ" else 0.0


class PerToken(Metered):
    """The user pays for every token, as of an API.

    A clarifying question takes few tokens now; the answer that it puts off is still to
    come.
    """

    kind: Literal["per_token"] = "per_token"

    def cost(self, action: str) -> Cost:
        """The user's tokens, and its round trip."""
        return Cost(self._paid(action) + self._replied(action), 0.0)


class Subscription(Metered):
    """The user has paid already, and the provider bears every token."""

    kind: Literal["subscription"] = "subscription"

    def cost(self, action: str) -> Cost:
        """The provider's tokens, and the user's round trip."""
        return Cost(self._replied(action), self._paid(action))


class Latency(Pricing):
    """The user waits: every second over the budget costs it, until it has its answer.

    After a clarifying question that takes the reply and the answer that follows it as
    well.
    """

    kind: Literal["latency"] = "latency"
    budget: float = Field(5.0, ge=0, description="seconds that cost nothing")
    price: float = Field(
        0.2,
        ge=0,
        description="what a second over the budget costs, in units of the pay-off",
    )
    speed: float = Field(50.0, gt=0, description="tokens a second")
    tokens: Lengths = Field(
        Lengths(), description="tokens that each action is expected to take"
    )
    reply: float = Field(
        10.0,
        ge=0,
        description="seconds that a user takes to reply to a clarifying question",
    )

    def cost(self, action: str) -> Cost:
        """What the user's waiting costs it."""
        seconds = self.tokens.of(action) / self.speed
        if action == "CQ":
            seconds += self.reply + self.tokens.DA / self.speed
        return Cost(self.price * max(0.0, seconds - self.budget), 0.0)


class UserEffort(Pricing):
    """Being asked costs the user: it must reply to a clarifying question, and may leave
    a follow-up alone.
    """

    kind: Literal["user_effort"] = "user_effort"
    clarifying: float = Field(
        2.0,
        ge=0,
        description="what a clarifying question costs, in units of the pay-off",
    )
    follow_up: float = Field(
        0.5,
        ge=0,
        description="what a follow-up question costs, in units of the pay-off",
    )

    def cost(self, action: str) -> Cost:
        """The user's effort."""
        return Cost(
            {"AQ": self.follow_up, "CQ": self.clarifying, "DA": 0.0}[action], 0.0
        )


class Costs(Pricing):
    """Each action's costs as they are given; a negative cost is a reward."""

    kind: Literal["costs"] = "costs"
    user: PerAction = Field(
        PerAction(), description="taken from the user, in units of the pay-off"
    )
    llm: PerAction = Field(
        PerAction(), description="taken from the model, in units of the pay-off"
    )

    def cost(self, action: str) -> Cost:
        """As given."""
        return Cost(self.user.of(action), self.llm.of(action))


class Released(Pricing):
    """The published edits: a constant for one side, which by itself changes no
    equilibrium, and bonuses for the other.

    llm ≠ 0:   LLM + llm,    user + 0, 1, ½ for DA, AQ, CQ
    else:      user + user,  LLM + 1, ½, 0 for DA, AQ, CQ;  user = 0: no edit
    """

    kind: Literal["released"] = "released"
    user: float = Field(
        0.0,
        allow_inf_nan=False,
        description="added to every pay-off of the user's, where llm is 0",
    )
    llm: float = Field(
        0.0, allow_inf_nan=False, description="added to every pay-off of the model's"
    )

    def cost(self, action: str) -> Cost:
        """What is added, with its sign turned."""
        if self.llm:
            return Cost(-{"DA": 0.0, "AQ": 1.0, "CQ": 0.5}[action], -self.llm)
        if self.user:
            return Cost(-self.user, -{"DA": 1.0, "AQ": 0.5, "CQ": 0.0}[action])
        return Cost(0.0, 0.0)

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        """The matrix with what is added; with 0 and 0 the same matrix."""
        return super().edit(matrix) if self.llm or self.user else dict(matrix)


def selection(
    matrix: PayoffMatrix,
    by: str | Welfare,
    dice: np.random.Generator,
    question: str | None = None,
) -> str:
    """The cell of `matrix` to go on with.

    welfare (Cobb–Douglas), a welfare's kind or a `Welfare`: the largest, of equals the largest sum
    sum               the largest sum, of equals the user's best
    product           the largest product among cells good for both; without any, the largest sum
    product_released  the largest product whatever the signs, as published; ties at random
    nash              an equilibrium: of pure ones the one of the largest sum; without any, drawn from a mixed one
    stackelberg       where the assistant, who leads, would end up
    bargaining        the Nash bargaining solution; without an agreement, the largest sum

    question: "DQ" or "VQ" where the question has been asked, so that three cells are
    left (nash and stackelberg are the assistant's best reply then); None: all six.
    dice: for ties and mixtures. Raises ConfigError for another `by` or `question`.
    Source: GTAlign (arXiv 2510.08872), steering at inference.
    """
    names = written_game.outcomes(question)
    if not names:
        raise ConfigError(f"question: must be DQ, VQ or none; it is {question!r:.40}")
    if isinstance(by, Welfare) or by == "welfare" or by in Welfare.KINDS:
        welfare = (
            by
            if isinstance(by, Welfare)
            else Welfare.build("cobb_douglas" if by == "welfare" else by)
        )
        return _best_welfare(matrix, welfare, names)
    match by:
        case "sum":
            return written_game.largest_sum(matrix, question)
        case "product":
            return written_game.largest_product(matrix, question)
        case "product_released":
            tied = largest_products(matrix, question)
            return tied[int(dice.integers(len(tied)))]
        case "nash":
            return _equilibrium(matrix, question, dice)
        case "stackelberg":
            return written_game.stackelberg_outcome(matrix, question)
        case "bargaining":
            return written_game.bargaining_outcome(
                matrix, question
            ) or written_game.largest_sum(matrix, question)
    raise ConfigError(
        f"by: unknown choice '{by:.40}'; {nearest(by, [*BY, *Welfare.KINDS])}"
    )


def largest_products(
    matrix: PayoffMatrix, question: str | None = None
) -> tuple[str, ...]:
    """The cells of the largest user · LLM, whatever the signs: two negatives make a
    large one.
    """
    products = {
        name: matrix[name].user * matrix[name].llm
        for name in written_game.outcomes(question)
    }
    return tuple(
        name for name, product in products.items() if product == max(products.values())
    )


def _best_welfare(
    matrix: PayoffMatrix, welfare: Welfare, names: tuple[str, ...]
) -> str:
    value_N = np.round(
        welfare.value(*np.array([matrix[name] for name in names], float).T),
        written_game.DIGITS,
    )
    most = value_N.max()
    tied = [name for name, value in zip(names, value_N, strict=True) if value == most]
    return max(tied, key=lambda name: written_game.precedence(matrix, name))


def _equilibrium(
    matrix: PayoffMatrix, question: str | None, dice: np.random.Generator
) -> str:
    cells = written_game.nash(matrix, question)
    if cells:
        return max(cells, key=lambda name: written_game.precedence(matrix, name))
    played = written_game.mixed(matrix)[0]
    chance_N = np.outer(played.row_A, played.column_M).ravel()
    return written_game.outcomes()[
        int(dice.choice(len(chance_N), p=chance_N / chance_N.sum()))
    ]


def _one_decimal(value: float) -> float:
    return round(value, 1) + 0.0  # −0.0 is 0.0
