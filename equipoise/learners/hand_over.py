"""The hand-over from learner to player: that the trained weights play is checked on probes.

The learner writes the log-probabilities that it gives some of its examples when it has finished.
The player that will play computes them, too, and so does the generation before, as it played. Two
numbers follow:

    gap     mean |player − learner| in nats a token
    share   of what was learned, how much is played: the slope of the player's change
            against the learner's

Weights rounded to bfloat16 lose most updates at small learning rates: their gap may be no larger
than that of sums in another order, but their share is near 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise.errors import ConfigError
from equipoise.players.base import TokenScorer
from equipoise.types import PlayerId

if TYPE_CHECKING:
    from equipoise.models.packing import PromptAnswers

FILE = "probes.json"
ARRIVES = 0.9  # the share of what was learned that has to be played
CERTAIN = 3.0  # standard errors by which it must fall short to stop the run
STILL = 1e-4  # nats a token below which too little was learned to tell


@dataclass(frozen=True)
class HandOver:
    """The distance of a player from its learner: `gap` in nats a token, and `share`.

    The share (and its standard error): of what was learned, how much is played; NaN where too
    little was learned to tell.
    """

    gap: float
    share: float
    share_error: float

    def facts(self) -> dict[str, float]:
        """The facts to record: `played_gap`, and `played_share` where it is known."""
        known = {} if math.isnan(self.share) else {"played_share": self.share}
        return {"played_gap": self.gap, **known}

    def check(self, player: PlayerId, bound: float) -> None:
        """Raises ConfigError where `gap` is above `bound` nats a token, or `share` too low."""
        lost = self.share + CERTAIN * self.share_error < ARRIVES
        if self.gap <= bound and not lost:
            return
        played = "" if math.isnan(self.share) else f", and {self.share:.0%} of"
        learned = " what was learned is played" if played else ""
        raise ConfigError(
            f"players.{player.name}: as it plays, {player} differs by {self.gap:.2g} "
            "nats a token from what was trained (learner.max_disagreement = "
            f"{bound:g}){played}{learned}. Updates are lost where weights are rounded "
            f"to bfloat16 or float16: set players.{player.name}.dtype: auto (the "
            "learner's precision), or learner.rounding: stochastic, which keeps their "
            "mean; or raise learner.max_disagreement if the difference is meant"
        )


def write_probes(
    folder: Path, probes: Sequence[PromptAnswers], logprobs: Sequence[Sequence[float]]
) -> None:
    """Write each probe's token ids and what the learner gives its answers, in nats."""
    records = [
        {"prompt": list(probe.prompt), "answer": list(answer), "logprob": value}
        for probe, values in zip(probes, logprobs, strict=True)
        for answer, value in zip(probe.answers, values, strict=True)
    ]
    (folder / FILE).write_text(json.dumps(records))


def has_probes(folder: Path) -> bool:
    """True if the learner of this generation wrote probes."""
    return (folder / FILE).is_file()


def compare(folder: Path, before: TokenScorer, after: TokenScorer) -> HandOver:
    """The player `after`, of the weights in `folder`, against what the learner wrote there.

    `before` is the generation that it was trained from.
    """
    records = json.loads((folder / FILE).read_text())
    prompts = [record["prompt"] for record in records]
    answers = [record["answer"] for record in records]
    trained_A = np.array([record["logprob"] for record in records])
    start_A = np.array(before.token_sums(prompts, answers))
    played_A = np.array(after.token_sums(prompts, answers))
    tokens = sum(map(len, answers))
    gap = float(np.abs(played_A - trained_A).sum() / tokens)
    share, error = slope(trained_A - start_A, played_A - start_A, STILL * tokens)
    return HandOver(gap, share, error)


def slope(x_A: np.ndarray, y_A: np.ndarray, still: float) -> tuple[float, float]:
    """(slope of y against x through the origin, its standard error).

    NaN where there are fewer than three points or Σ|x| is below `still`.
    """
    if len(x_A) < 3 or not np.abs(x_A).sum() > still:
        return math.nan, math.nan
    power = float(x_A @ x_A)
    value = float(x_A @ y_A) / power
    residual_A = y_A - value * x_A
    variance = float(residual_A @ residual_A) / (len(x_A) - 1) / power
    return value, math.sqrt(variance)
