"""The contract of a preference loss and the batch of pairs that it reads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from equipoise.component import Component
from equipoise.errors import ConfigError
from equipoise.losses.opponent_shares import OpponentPool, Shares
from equipoise.types import PlayerId

if TYPE_CHECKING:
    import torch

WinsBy = Literal["auto", "counted", "bradley_terry", "judged"]
"""counted: share of the opponents' answers to the prompt with a lower score, ties ½;
bradley_terry: mean of σ(reward − theirs); judged: the scores are probabilities already;
auto: judged of a judge that compares, counted of one that scores."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """B pairs; log-probabilities are sums over the answer's tokens, in nats.

    policy_chosen_B, policy_rejected_B: of the learner, with gradient. opponent_chosen_KB,
    opponent_rejected_KB: of the K opponents (K may be 0), in the order of weight_K.
    tokens_chosen_B, tokens_rejected_B: answer lengths, 0 of an answer that is not there.
    score_chosen_B, score_rejected_B: the judge's, or P(answer beats those that it is scored
    against).
    """

    policy_chosen_B: torch.Tensor
    policy_rejected_B: torch.Tensor
    opponent_chosen_KB: torch.Tensor
    opponent_rejected_KB: torch.Tensor
    tokens_chosen_B: torch.Tensor
    tokens_rejected_B: torch.Tensor
    score_chosen_B: torch.Tensor
    score_rejected_B: torch.Tensor
    weight_K: torch.Tensor


def check_shape(
    part: Component, method: str, values: torch.Tensor, like: torch.Tensor, wanted: str
) -> None:
    """Raise ConfigError where a loss has not the shape that its learner takes the mean of."""
    shape = list(getattr(values, "shape", ()))
    if shape != list(like.shape):
        raise ConfigError(
            f"{type(part).__name__}.{method}() returned a {type(values).__name__} of shape "
            f"{shape} for a batch of {list(like.shape)}; return {wanted}, of which the learner "
            "takes the mean"
        )


class PreferenceLoss(Component):
    """A loss of pairs; see `losses.preference` for the family."""

    KINDS: ClassVar = {
        name: f"equipoise.losses.preference:{cls}"
        for name, cls in {
            "simpo": "SimPO",
            "cpo": "CPO",
            "orpo": "ORPO",
            "dpo": "DPO",
            "rdpo": "RDPO",
            "kto": "KTO",
            "distill_dpo": "DistillDPO",
            "ipo": "IPO",
            "dno": "DNO",
            "spin": "SPIN",
            "sppo": "SPPO",
            "inpo": "INPO",
            "mnpo": "MNPO",
            "mnpo_released": "MNPOReleased",
            "optimistic": "Optimistic",
            "extragradient": "Extragradient",
        }.items()
    }

    @abstractmethod
    def opponents(self, pool: OpponentPool) -> Shares:
        """The players that the residual is taken against, with weights of at most one in all."""

    def scored_against(self, pool: OpponentPool) -> Shares:
        """The players, with weights of sum 1, to beat where scores are probabilities."""
        return self.opponents(pool) or [(pool.current, 1.0)]

    def wins_against(self, pool: OpponentPool) -> Shares:
        """The players whose P(answer beats them) a target adds up, by weights of sum 1; one may be
        negative.
        """
        return self.scored_against(pool)

    def init_from(self, pool: OpponentPool) -> PlayerId:
        """The own generation whose weights training begins from."""
        return pool.current

    @property
    def wins_by(self) -> WinsBy | None:
        """The estimator of P(answer beats those of `wins_against`); None if unused."""
        return None

    @property
    def reads_single(self) -> bool:
        """True for a loss that learns an answer alone, by its label."""
        return False

    @property
    def reads_scores(self) -> bool:
        """True where the size of scores, and not their order alone, enters the loss."""
        return self.wins_by is not None

    def faults_of_age(self, age: int) -> Iterator[str]:
        """Reasons why a learner cannot end at generation `age`."""
        return iter(())

    @property
    def memory(self) -> int:
        """The number of the learner's newest generations, without the start, needed."""
        past = [PlayerId("player", generation) for generation in range(256, -1, -1)]
        opponents = [player for player, _ in self.opponents(OpponentPool(past))]
        newest = [past.index(player) + 1 for player in opponents if player.generation]
        return max(newest, default=0)

    def faults(
        self, judge: str, limits: tuple[float, float] | None, compares: bool = False
    ) -> Iterator[str]:
        """Reasons why the loss cannot learn from the scores of the judge of this kind.

        `limits`: its least and greatest score, None where that is not known beforehand. `compares`:
        True where its scores are shares of wins over the match's other answers.
        """
        if self.wins_by == "judged" and limits is not None:
            low, high = limits
            if low < 0 or high > 1:
                yield (
                    f"'{self.kind}' as it is set reads scores as win probabilities, and "
                    f"those of the judge '{judge}' lie between {low:g} and {high:g}; "
                    "set loss.wins: counted or bradley_terry, which estimate them "
                    "from the samples, or take a judge of probabilities"
                )

    @abstractmethod
    def rows(self, batch: PairBatch) -> torch.Tensor:
        """loss_B, one value a pair."""

    @abstractmethod
    def metrics(self, batch: PairBatch) -> dict[str, torch.Tensor]:
        """Numbers to log [B]: `margin` (residual, nats), `accuracy` (margin > 0), both rewards."""


def check_rows(loss: PreferenceLoss, loss_B: torch.Tensor, batch: PairBatch) -> None:
    """Raise ConfigError where a loss of pairs has not one value a pair."""
    check_shape(loss, "rows", loss_B, batch.policy_chosen_B, "[B], one value a pair")
