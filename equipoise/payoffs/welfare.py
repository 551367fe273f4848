"""Welfare functions: the pay-offs of two sides as a single number, over numbers or arrays.

`user` and `llm` broadcast. Missing values (NaN) stay missing. Powers and products put negatives at
0: a product of two negatives would be positive. Each function is also a component. Source: Moulin
2003, Fair Division and Collective Welfare, ch. 3; GTAlign (arXiv 2510.08872), section 3, takes the
geometric mean.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from equipoise.component import Component


def cobb_douglas(user: ArrayLike, llm: ArrayLike, weight: float = 0.5) -> np.ndarray:
    """user^w · llm^(1 − w), negatives at 0; with w = ½ the geometric mean √(user · llm).

    `weight` w in [0, 1] is the user's. Raises ValueError for a weight outside. Source: GTAlign
    (arXiv 2510.08872), section 3.

    >>> float(cobb_douglas(4, 9))
    6.0
    """
    user, llm = _sides(user, llm, weight)
    return np.maximum(user, 0.0) ** weight * np.maximum(llm, 0.0) ** (1 - weight)


def utilitarian(user: ArrayLike, llm: ArrayLike, weight: float = 0.5) -> np.ndarray:
    """w·user + (1 − w)·llm, `weight` w in [0, 1] the user's. Raises ValueError for a weight
    outside.

    >>> float(utilitarian(4, 8, weight=0.25))
    7.0
    """
    user, llm = _sides(user, llm, weight)
    return weight * user + (1 - weight) * llm


def egalitarian(user: ArrayLike, llm: ArrayLike) -> np.ndarray:
    """min(user, llm): the worse-off side's.

    >>> egalitarian([4, 1], [9, 0])
    array([4., 0.])
    """
    return np.minimum(*_sides(user, llm))


def ces(user: ArrayLike, llm: ArrayLike, rho: float, weight: float = 0.5) -> np.ndarray:
    """(w·user^ρ + (1 − w)·llm^ρ)^(1/ρ), negatives at 0: elasticity of substitution 1/(1 − ρ).

    ρ = 1 is the weighted sum, ρ → 0 Cobb–Douglas, ρ → −∞ the minimum; the limits are taken exactly.
    For ρ ≤ 0 the welfare is 0 where a side that counts (weight above 0) has 0. `weight` w in [0, 1]
    is the user's. Raises ValueError for a weight outside, or a ρ that is no number. Source: Arrow,
    Chenery, Minhas and Solow 1961.

    >>> float(ces(2, 6, rho=-1))
    3.0
    """
    user, llm = _sides(user, llm, weight)
    if np.isnan(rho):
        raise ValueError("rho must be a number; it is nan")
    user, llm = np.broadcast_arrays(np.maximum(user, 0.0), np.maximum(llm, 0.0))
    if weight in (0.0, 1.0):
        return (user if weight else llm) + 0.0
    if rho == 0:
        return cobb_douglas(user, llm, weight)
    low = np.minimum(user, llm)
    high = np.maximum(user, llm)
    anchor = high if rho > 0 else low
    if np.isinf(rho):
        return anchor + 0.0
    # anchor · (w·(user/anchor)^ρ + …)^(1/ρ): no power exceeds 1, and a ρ next to 0 loses no digits.
    with np.errstate(divide="ignore", over="ignore"):
        unit = np.where(anchor > 0, anchor, 1.0)
        power_user, power_llm = (np.expm1(rho * np.log(side / unit)) for side in (user, llm))
        power = weight * power_user + (1 - weight) * power_llm
        mean = np.log1p(np.maximum(power, -1.0)) / rho
    return np.where(anchor == 0, 0.0, anchor * np.exp(mean))[()]


def user_only(user: ArrayLike, llm: ArrayLike) -> np.ndarray:
    """The user's alone.

    >>> float(user_only(4, 9))
    4.0
    """
    return _sides(user, llm)[0]


def llm_only(user: ArrayLike, llm: ArrayLike) -> np.ndarray:
    """The model's alone.

    >>> float(llm_only(4, 9))
    9.0
    """
    return _sides(user, llm)[1]


def nash_bargaining(
    user: ArrayLike, llm: ArrayLike, disagreement: tuple[float, float] = (0.0, 0.0)
) -> np.ndarray:
    """(user − d_user)·(llm − d_llm), the product of both gains, and 0 where a side does not gain.

    `disagreement` (user, llm): what each has without one. Source: Nash 1950, Econometrica 18.

    >>> float(nash_bargaining(4, 9, disagreement=(1, 7)))
    6.0
    """
    user, llm = _sides(user, llm)
    user_gain = np.maximum(user - disagreement[0], 0.0)
    llm_gain = np.maximum(llm - disagreement[1], 0.0)
    return user_gain * llm_gain


def _sides(user: ArrayLike, llm: ArrayLike, weight: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    if not 0 <= weight <= 1:
        raise ValueError(f"weight is the user's share, in [0, 1]; it is {weight}")
    user, llm = np.broadcast_arrays(np.asarray(user, float), np.asarray(llm, float))
    return user[()], llm[()]


class Welfare(Component):
    """The welfare of both sides' pay-offs; if not `signed`, negative ones count as 0."""

    KINDS: ClassVar = {
        name: f"equipoise.payoffs.welfare:{cls}"
        for name, cls in {
            "cobb_douglas": "CobbDouglas",
            "utilitarian": "Utilitarian",
            "egalitarian": "Egalitarian",
            "ces": "CES",
            "user_only": "UserOnly",
            "llm_only": "LLMOnly",
            "nash_bargaining": "NashBargaining",
        }.items()
    }
    signed: ClassVar[bool] = False

    @abstractmethod
    def value(self, user: ArrayLike, llm: ArrayLike) -> np.ndarray:
        """The welfare, of the broadcast shape."""


class WelfareFunction(Welfare):
    """A function of this module; its arguments are the settings."""

    function: ClassVar[Callable[..., np.ndarray]]

    def value(self, user: ArrayLike, llm: ArrayLike) -> np.ndarray:
        arguments = self.model_dump(exclude={"kind"})
        return self.function(user, llm, **arguments)


class CobbDouglas(WelfareFunction):
    """The weighted geometric mean: no side can make up for another that has nothing."""

    kind: Literal["cobb_douglas"] = "cobb_douglas"
    function: ClassVar = staticmethod(cobb_douglas)
    weight: float = Field(0.5, ge=0, le=1, description="the user's weight; the model's is the rest")


class Utilitarian(WelfareFunction):
    """The weighted mean: one side's gain makes up for the other's loss."""

    kind: Literal["utilitarian"] = "utilitarian"
    function: ClassVar = staticmethod(utilitarian)
    signed: ClassVar[bool] = True
    weight: float = Field(0.5, ge=0, le=1, description="the user's weight; the model's is the rest")


class Egalitarian(WelfareFunction):
    """The worse-off side's pay-off."""

    kind: Literal["egalitarian"] = "egalitarian"
    function: ClassVar = staticmethod(egalitarian)
    signed: ClassVar[bool] = True


class CES(WelfareFunction):
    """Between the sum (ρ = 1), the product (0) and the minimum (far below 0)."""

    kind: Literal["ces"] = "ces"
    function: ClassVar = staticmethod(ces)
    rho: float = Field(
        -1.0, le=1, description="1 − 1/elasticity: how well one side's pay-off replaces the other's"
    )
    weight: float = Field(0.5, ge=0, le=1, description="the user's weight; the model's is the rest")


class UserOnly(WelfareFunction):
    """The user's pay-off alone."""

    kind: Literal["user_only"] = "user_only"
    function: ClassVar = staticmethod(user_only)
    signed: ClassVar[bool] = True


class LLMOnly(WelfareFunction):
    """The model's pay-off alone."""

    kind: Literal["llm_only"] = "llm_only"
    function: ClassVar = staticmethod(llm_only)
    signed: ClassVar[bool] = True


class NashBargaining(WelfareFunction):
    """The product of both gains over what each has without an agreement."""

    kind: Literal["nash_bargaining"] = "nash_bargaining"
    function: ClassVar = staticmethod(nash_bargaining)
    disagreement: tuple[float, float] = Field(
        (0.0, 0.0),
        description="(user, llm): what each has without an agreement, in units of the pay-off",
    )
