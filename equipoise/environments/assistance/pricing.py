"""Prices on a written game: an assistant's pay-off matrix edited by who pays for which action.

A constant added to all of one side's pay-offs changes neither equilibria nor Pareto fronts, so
every pricing gives a cost to each *action*. Source: GTAlign (arXiv 2510.08872), steering at
inference.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.component import Component, Settings
from equipoise.environments.assistance.payoff_matrix import ACTIONS, Cell, PayoffMatrix, action_of


class ActionTokens(Settings):
    """Tokens that each action is expected to take."""

    AQ: float = Field(default=350.0, ge=0, description="of an answer with a follow-up question")
    CQ: float = Field(default=40.0, ge=0, description="of a clarifying question")
    DA: float = Field(default=300.0, ge=0, description="of a direct answer")


class ActionUnits(Settings):
    """Units of the pay-off for each action."""

    AQ: float = Field(default=0.0, allow_inf_nan=False, description="an answer with a question")
    CQ: float = Field(default=0.0, allow_inf_nan=False, description="a clarifying question")
    DA: float = Field(default=0.0, allow_inf_nan=False, description="a direct answer")


class Pricing(Component):
    """A price for each action."""

    KINDS: ClassVar = {
        name: f"equipoise.environments.assistance.pricing:{cls}"
        for name, cls in {
            "none": "NoPricing",
            "per_token": "PerToken",
            "subscription": "Subscription",
            "latency": "Latency",
            "user_effort": "UserEffort",
            "costs": "GivenCosts",
            "released": "ReleasedEdits",
        }.items()
    }

    @abstractmethod
    def cost(self, action: str) -> Cell:
        """Cost of `action` ("AQ", "CQ", "DA") to either side, in units of the pay-off.

        A negative cost is a gain.
        """

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        """The matrix with each cell's costs taken off, to one decimal as matrices are written."""
        costs = {action: self.cost(action) for action in ACTIONS}
        edited = {}
        for name, cell in matrix.items():
            cost = costs[action_of(name)]
            edited[name] = Cell(
                one_decimal(cell.user - cost.user), one_decimal(cell.llm - cost.llm)
            )
        return edited


class NoPricing(Pricing):
    """Nobody pays: the matrix as it was written."""

    kind: Literal["none"] = "none"

    def cost(self, action: str) -> Cell:
        return Cell(0.0, 0.0)

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        return dict(matrix)


class Metered(Pricing):
    """Every token costs price / 1000; a clarifying question costs the user a round trip besides."""

    price: float = Field(
        5.0, ge=0, description="cost of 1000 tokens to whoever pays, in units of the pay-off"
    )
    tokens: ActionTokens = Field(
        ActionTokens(), description="tokens that each action is expected to take"
    )
    round_trip: float = Field(
        0.5,
        ge=0,
        description="the user's cost of replying to a clarifying question, in units of the pay-off",
    )

    def _token_cost(self, action: str) -> float:
        return self.price * getattr(self.tokens, action) / 1000

    def _reply_cost(self, action: str) -> float:
        return self.round_trip if action == "CQ" else 0.0


class PerToken(Metered):
    """The user pays for every token; after a clarifying question the answer is still to come."""

    kind: Literal["per_token"] = "per_token"

    def cost(self, action: str) -> Cell:
        return Cell(self._token_cost(action) + self._reply_cost(action), 0.0)


class Subscription(Metered):
    """The user has paid already, and the provider bears every token."""

    kind: Literal["subscription"] = "subscription"

    def cost(self, action: str) -> Cell:
        return Cell(self._reply_cost(action), self._token_cost(action))


class Latency(Pricing):
    """Every second over the budget costs the user, until it has its answer.

    After a clarifying question that takes the reply and the answer that follows it as well.
    """

    kind: Literal["latency"] = "latency"
    budget: float = Field(5.0, ge=0, description="seconds that cost nothing")
    price: float = Field(
        0.2, ge=0, description="cost of a second over the budget, in units of the pay-off"
    )
    speed: float = Field(50.0, gt=0, description="tokens a second")
    tokens: ActionTokens = Field(
        ActionTokens(), description="tokens that each action is expected to take"
    )
    reply: float = Field(
        10.0, ge=0, description="seconds that a user takes to reply to a clarifying question"
    )

    def cost(self, action: str) -> Cell:
        seconds = getattr(self.tokens, action) / self.speed
        if action == "CQ":
            seconds += self.reply + self.tokens.DA / self.speed
        return Cell(self.price * max(0.0, seconds - self.budget), 0.0)


class UserEffort(Pricing):
    """Being asked costs the user; it must reply to a clarifying question, not to a follow-up."""

    kind: Literal["user_effort"] = "user_effort"
    clarifying: float = Field(
        2.0, ge=0, description="cost of a clarifying question, in units of the pay-off"
    )
    follow_up: float = Field(
        0.5, ge=0, description="cost of a follow-up question, in units of the pay-off"
    )

    def cost(self, action: str) -> Cell:
        return Cell({"AQ": self.follow_up, "CQ": self.clarifying, "DA": 0.0}[action], 0.0)


class GivenCosts(Pricing):
    """Each action's costs as they are given; a negative cost is a reward."""

    kind: Literal["costs"] = "costs"
    user: ActionUnits = Field(
        ActionUnits(), description="taken from the user, in units of the pay-off"
    )
    llm: ActionUnits = Field(
        ActionUnits(), description="taken from the model, in units of the pay-off"
    )

    def cost(self, action: str) -> Cell:
        return Cell(getattr(self.user, action), getattr(self.llm, action))


class ReleasedEdits(Pricing):
    """The published edits: a constant for one side, which by itself changes no equilibrium, and
    bonuses for the other.

        llm ≠ 0:   LLM + llm,    user + 0, 1, ½ for DA, AQ, CQ
        else:      user + user,  LLM + 1, ½, 0 for DA, AQ, CQ;  user = 0: no edit
    """

    kind: Literal["released"] = "released"
    user: float = Field(
        0.0, allow_inf_nan=False, description="added to every pay-off of the user's, where llm is 0"
    )
    llm: float = Field(
        0.0, allow_inf_nan=False, description="added to every pay-off of the model's"
    )

    def cost(self, action: str) -> Cell:
        if self.llm:
            return Cell(-{"DA": 0.0, "AQ": 1.0, "CQ": 0.5}[action], -self.llm)
        if self.user:
            return Cell(-self.user, -{"DA": 1.0, "AQ": 0.5, "CQ": 0.0}[action])
        return Cell(0.0, 0.0)

    def edit(self, matrix: PayoffMatrix) -> PayoffMatrix:
        """The matrix with the additions; with 0 and 0 the same matrix."""
        return super().edit(matrix) if self.llm or self.user else dict(matrix)


def one_decimal(value: float) -> float:
    return round(value, 1) + 0.0  # −0.0 is 0.0
