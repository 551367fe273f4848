"""The hand-over contract: that the weights which arrive at a player are the new ones.

Weights reach a player as a file that it opens, as an adapter that an engine loads, or as weights
that replace others in memory. Each time two sides score the same probes, prompts with answers: the
sender, who holds the weights for certain, and the receiver, who will play. Both score them under
weights that both know already, the old ones, and under the new ones:

    learned   the sender's scores under the new weights, less those under the old
    played    the receiver's, likewise
    noise     the receiver's less the sender's, both under the old

    gap       mean |receiver − sender| under the new weights, in nats a token
    share     of what was learned, how much is played: the slope of played against learned
    foreign   what is played and was not learned, as a share of what was learned

A gap alone passes the wrong weights where a step is small: the old ones are as near as the bound
allows. The share of the old weights is 0, of the new ones 1, of half of the new ones about a half;
those of another training have a large foreign part. Where the step is smaller than what rounding
moves, none of this can be told, and the contract says so: `is_told` is false.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.system.files import read_json
from equipoise.types import PlayerId

if TYPE_CHECKING:
    from equipoise.models.packing import PromptAnswers

FILE = "probes.json"
ARRIVES = 0.9  # the share of what was learned that has to be played
CERTAIN = 3.0  # standard errors by which it must fall short to stop the run
HALF = 0.5  # a share known to less than this tells new weights from old ones
FOREIGN = 0.5  # the largest foreign part of weights that are the sender's
EXCESS = 4.0  # times the noise that a foreign part has to be above
STILL = 1e-5  # nats a token below which too little was learned to tell, even in float32
FINEST = 1e-6  # nats a number: the least noise of sums in another order


@dataclass(frozen=True)
class Scores:
    """The numbers that sender and receiver give the probes under the same weights.

    Numbers [A] in nats: log-probabilities of tokens, or sums over answers.
    """

    sent_A: np.ndarray
    received_A: np.ndarray

    @property
    def noise(self) -> float:
        """The distance of the two sides, per number: the root of the mean square."""
        difference_A = self.received_A - self.sent_A
        return float(np.sqrt(np.mean(difference_A**2)))

    def gap(self, tokens: int) -> float:
        """The distance of the two sides, in nats for each of so many tokens."""
        return float(np.abs(self.received_A - self.sent_A).sum() / tokens)


@dataclass(frozen=True)
class HandOver:
    """The receiver's play of new weights beside the sender, who has them.

    All but `gap` are NaN where too little was learned to tell.
    """

    gap: float
    share: float
    share_error: float
    foreign: float = math.nan

    @classmethod
    def between(
        cls,
        old: Scores,
        new: Scores,
        tokens: int,
        jitter: float = 0.0,
        still: float = STILL,
        floor: float = 0.0,
    ) -> HandOver:
        """The hand-over from `old` weights to `new` ones.

        tokens: in all probes' answers. jitter: the standard deviation by which the sender's own
        change is noise, per number, which would make its slope too flat. floor: the least noise of
        the receiver's change, for the standard error.
        """
        gap = new.gap(tokens)
        learned_A = new.sent_A - old.sent_A
        played_A = new.received_A - old.received_A
        share, error = slope(learned_A, played_A, still * tokens, jitter)
        if math.isnan(share):
            return cls(gap, share, error)
        count = len(learned_A)
        power = float(learned_A @ learned_A)
        learned = power - count * jitter**2
        error = max(error, floor * math.sqrt(power) / learned)
        foreign_A = played_A - learned_A
        # under the new weights either side may round otherwise than under the old
        rounding = 2 * count * max(old.noise, FINEST) ** 2
        unexplained = float(foreign_A @ foreign_A)
        foreign = 0.0
        if unexplained > EXCESS**2 * rounding:
            foreign = math.sqrt(unexplained / learned)
        return cls(gap, share, error, foreign)

    @property
    def is_told(self) -> bool:
        """True if new weights could be told from old ones: a share of 0 from one of 1."""
        return not math.isnan(self.share) and CERTAIN * self.share_error < HALF

    @property
    def falls_short(self) -> bool:
        """True if for certain too little of what was learned is played."""
        return self.share + CERTAIN * self.share_error < ARRIVES

    @property
    def is_foreign(self) -> bool:
        """True if what is played is another change than the one that was learned."""
        return self.is_told and self.foreign > FOREIGN

    def facts(self) -> dict[str, Any]:
        """The facts to record: `played_gap`, and `played_share` or why it is not known."""
        if self.is_told:
            return {"played_gap": self.gap, "played_share": self.share}
        why = "what was learned lies below what the precision can show on these probes"
        return {"played_gap": self.gap, "below_precision": why}

    def check(self, player: PlayerId, bound: float) -> None:
        """Raises ConfigError where `gap` is above `bound` nats a token, or `share` too low."""
        if self.gap <= bound and not self.falls_short:
            return
        played = ""
        if not math.isnan(self.share):
            played = f", and {self.share:.0%} of what was learned is played"
        raise ConfigError(
            f"players.{player.name}: as it plays, {player} differs by {self.gap:.2g} "
            "nats a token from what was trained (learner.max_disagreement = "
            f"{bound:g}){played}. Updates are lost where weights are rounded "
            f"to bfloat16 or float16: set players.{player.name}.dtype: auto (the "
            "learner's precision), or learner.rounding: stochastic, which keeps their "
            "mean; or raise learner.max_disagreement if the difference is meant"
        )


def slope(
    x_A: np.ndarray, y_A: np.ndarray, still: float, jitter: float = 0.0
) -> tuple[float, float]:
    """(slope of y against x through the origin, its standard error).

        slope = Σ x·y / (Σ x² − A · jitter²)

    jitter: the standard deviation of the noise in x. NaN where there are fewer than three points,
    where Σ|x| is not above `still`, or where half of Σ x² is noise.
    """
    if len(x_A) < 3 or not np.abs(x_A).sum() > still:
        return math.nan, math.nan
    power = float(x_A @ x_A)
    signal = power - len(x_A) * jitter**2
    if signal < power / 2:
        return math.nan, math.nan
    value = float(x_A @ y_A) / signal
    residual_A = y_A - value * x_A
    variance = float(residual_A @ residual_A) / (len(x_A) - 1)
    return value, math.sqrt(variance * power) / signal


# -- weights that an engine receives


def check_arrival(
    name: str, new: Scores, known: Mapping[str, Scores], bound: float, *, exact: bool = False
) -> tuple[HandOver, list[str]]:
    """Judge by an engine's scores the weights that were sent to it as `name`.

    known: by name the scores of other weights that it has played before, the newest last, with the
    model without adapters among them. bound: the largest gap, nats a token. exact: the model here
    has products of float32. Returns the hand-over from the weights that are hardest to tell from
    these, and the names of all that cannot be told.
    Raises ModelError where others than the new ones answer, named if they are known.
    """
    tokens = len(new.sent_A)
    hand_overs: dict[str, HandOver] = {}
    for other, old in known.items():
        jitter = FINEST if exact else max(old.noise, FINEST)
        hand_overs[other] = HandOver.between(
            old, new, tokens, jitter, still=FINEST, floor=old.noise
        )
    told = [over for over in hand_overs.values() if over.is_told]
    wrong = [over for over in told if over.falls_short or over.is_foreign]
    if wrong:
        least = min(wrong, key=lambda over: over.share)
        fitting = fits(new, known)
        answers = "neither as these weights nor as any before them"
        if fitting:
            answers = f"as {fitting}"
        raise ModelError(
            f"{name} did not arrive: it answers {answers} ({least.share:.0%} of what was learned "
            f"is played, {least.gap:.2g} nats a token from the model here). Start the server "
            "again, give each run a server of its own, and let it see the run's directory"
        )
    gap = new.gap(tokens)
    if not gap <= bound:
        raise ModelError(
            f"it and the model here differ by {gap:.2g} nats a token on {name}, more than "
            f"sampler.max_gap = {bound:g}: it serves another model, or in a much shorter precision"
        )
    untold = [other for other, over in hand_overs.items() if not over.is_told]
    unknown = HandOver(gap, math.nan, math.nan)
    return max(told, key=lambda over: over.share_error, default=unknown), untold


def fits(new: Scores, known: Mapping[str, Scores]) -> str | None:
    """The name of the known weights that the receiver's answers fit better than the new ones.

    The receiver's scores are compared with its own of before, so that its rounding cancels.
    """
    distances: dict[str, float] = {}
    for other, old in known.items():
        expected_A = old.received_A + new.sent_A - old.sent_A
        to_new = float(np.abs(new.received_A - expected_A).sum())
        to_other = float(np.abs(new.received_A - old.received_A).sum())
        if to_other < to_new / 2:
            distances[other] = to_other
    return min(distances, key=distances.__getitem__, default=None)


# -- weights that a learner wrote


class TokenSums(Protocol):
    """A player that scores answers by token ids."""

    def token_sums(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float]:
        """log p(answer | prompt), in nats, of each answer."""
        ...


def write_probes(
    folder: Path,
    probes: Sequence[PromptAnswers],
    start: Sequence[Sequence[float]] | None,
    end: Sequence[Sequence[float]],
    *,
    exact: bool = True,
) -> None:
    """Write each probe's token ids and what the learner gave its answers, in nats.

    start, end: before it learned (None: not known) and after. exact: its products are of float32.
    """
    records: list[dict[str, Any]] = []
    for number, probe in enumerate(probes):
        for place, answer in enumerate(probe.answers):
            record: dict[str, Any] = {
                "prompt": list(probe.prompt),
                "answer": list(answer),
                "logprob": end[number][place],
            }
            if start is not None:
                record["start"] = start[number][place]
            records.append(record)
    content = {"exact": exact, "probes": records}
    (folder / FILE).write_text(json.dumps(content))


def has_probes(folder: Path) -> bool:
    """True if the learner of this generation wrote probes."""
    return (folder / FILE).is_file()


def compare(folder: Path, before: TokenSums, after: TokenSums) -> HandOver:
    """The player `after`, of the weights in `folder`, against what the learner wrote there.

    `before` is the generation that it was trained from.
    """
    content = read_json(folder / FILE)
    try:
        records = content["probes"]
        prompts = [record["prompt"] for record in records]
        answers = [record["answer"] for record in records]
        start_A = np.array([record.get("start", math.nan) for record in records], np.float64)
        trained_A = np.array([record["logprob"] for record in records], np.float64)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"{folder / FILE}: is damaged ({type(error).__name__}: {error})") from error
    before_A = np.array(before.token_sums(prompts, answers))
    after_A = np.array(after.token_sums(prompts, answers))
    tokens = sum(map(len, answers))
    new = Scores(trained_A, after_A)
    if np.isnan(start_A).any():
        return HandOver(new.gap(tokens), math.nan, math.nan)
    old = Scores(start_A, before_A)
    # a learner in bfloat16 rounds its own scores, by about as much as the sides are apart
    jitter = 0.0 if content["exact"] else old.noise
    return HandOver.between(old, new, tokens, jitter)
