"""The loss of the first generation, in which several methods are one.

At first every generation of the past is the start π_0, so that what a method does with its history
does not show: with one opponent of weight 1 and a constant target, MNPO, INPO and IPO are

    (Δ(π_θ) − Δ(π_0) − target)²

and differ in nothing but what the target is called: 1/(2η), 1/(2τ), 1/(2τ).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.losses.base import PreferenceLoss
from equipoise.losses.opponent_shares import OpponentPool, merge_shares
from equipoise.losses.preference import INPO, IPO, MNPO
from equipoise.types import PlayerId


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A squared distance to a constant target in nats, against the start alone."""

    target: float
    length: str

    def text(self) -> str:
        """The loss in words."""
        mean = ", of per-token means" if self.length == "mean" else ""
        return f"(Δ(π_θ) − Δ(π_0) − {self.target:g})²{mean}"


def first_step(
    loss: PreferenceLoss, learner: str, peers: Sequence[str] = (), outsiders: Sequence[str] = ()
) -> FirstStep | None:
    """The form that MNPO, INPO and IPO share in the first generation; None for another loss, or
    where it has opponents beside the start.

    >>> first_step(INPO(tau=0.1, eta=0.3), "policy") == first_step(IPO(tau=0.1), "policy")
    True
    """
    pool = OpponentPool(
        (PlayerId(learner),),
        tuple(PlayerId(name) for name in peers),
        tuple(PlayerId(name) for name in outsiders),
    )
    if isinstance(loss, IPO):
        divisor = loss.tau
    elif isinstance(loss, INPO):
        divisor = loss.tau if loss.target == "tau" else loss.eta
    elif isinstance(loss, MNPO) and loss.distance == "squared" and loss.target == "constant":
        divisor = loss.eta
    else:
        return None
    shares = merge_shares(loss.opponents(pool))
    alone = len(shares) == 1 and shares[0][0] == pool.reference
    if not alone or abs(shares[0][1] - 1) > 1e-9 or not divisor:
        return None
    return FirstStep(1 / (2 * divisor), loss.length)
