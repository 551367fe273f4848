"""One player's answers from an engine, compared with the player's own model whenever other weights
are opened.

A probe samples a few answers at temperature 0.7 and asks the model here for the log-probabilities
of the same tokens, at 0.7 and at 1. Where those of the engine are nearer to the latter, it gives
raw ones. Where they are near to neither, it holds other weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equipoise.errors import ModelError
from equipoise.models.samplers.adapter import EngineAdapter
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.samplers.engine import Engine, Work
from equipoise.models.samplers.remote import EngineRow

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

TEMPERATURE = 0.7  # at 1, raw log-probabilities are the right ones
TOKENS = 16  # of a probe's answer, at most
SURE = 0.02  # nats a token: a smaller gap is rounding, whatever else it is near to

Retraced = Callable[[list[list[int]], list[list[int]], float], list[list[float]]]
"""(prompts, answers, temperature) -> log-probabilities of the model here, by token."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How far an engine is from the model here, in nats a token: `gap` the mean distance of its
    log-probabilities, `raw_gap` the same where it were to give raw ones.
    """

    gap: float
    raw_gap: float

    @property
    def is_raw(self) -> bool:
        """Whether the engine gives log-probabilities from before the temperature."""
        return self.gap > SURE and self.raw_gap < self.gap / 2

    def check(self, engine: Engine, name: str, bound: float) -> None:
        """Raises ModelError where the engine does not give what the model here gives."""
        where = f"sampler {engine.settings.where}"
        if self.is_raw:
            raise ModelError(
                f"{where}: its log-probabilities are raw ones, from before temperature "
                f"and cuts (at temperature {TEMPERATURE} they are {self.gap:.2g} nats a "
                f"token off, and {self.raw_gap:.2g} as raw ones). Start vLLM with "
                "--logprobs-mode processed_logprobs (`equipoise sampler start` does)"
            )
        if not self.gap <= bound:
            raise ModelError(
                f"{where}: it and the model here differ by {self.gap:.2g} nats a token "
                f"on {name}, more than sampler.max_gap = {bound:g}: it serves another "
                "model, or in a much shorter precision"
            )


class SamplingElsewhere:
    """What an actor asks in place of its own sampler."""

    def __init__(
        self, engine: Engine, weights: Callable[[], EngineAdapter | None], stop_ids: Sequence[int]
    ) -> None:
        """`weights` gives those that play now: an adapter, or None for the base."""
        self.engine = engine
        self._weights = weights
        self._stop_ids = stop_ids
        self._gaps: dict[str, float] = {}  # weights -> what their probe gave
        self._last = ""

    def begin(
        self, rows: Sequence[EngineRow], settings: SamplingSettings, retraced: Retraced
    ) -> Work:
        """Send the rows; `answers` has what comes of them.

        `retraced` asks the model here. Raises ModelError where the engine's log-probabilities are
        not the model's.
        """
        adapter = self._weights()
        self._last = "the base model" if adapter is None else adapter.name
        if self._last not in self._gaps and self.engine.settings.probes:
            self._gaps[self._last] = self._probed(adapter, rows, retraced)
        return self.engine.begin(adapter, rows, settings, self._stop_ids)

    def answers(self, work: Work) -> list[SampledAnswer]:
        """The answers to rows that were sent, in order."""
        return self.engine.wait(work)

    def facts(self) -> dict[str, Any]:
        """For the records: the engine, its version, the form of its log-probabilities, and the gap
        of the weights that played last.
        """
        gap = self._gaps.get(self._last)
        return self.engine.facts() | ({} if gap is None else {"probe_gap": gap})

    def rest(self) -> None:
        """Free the servers' memory while a learner trains."""
        self.engine.rest()

    def _probed(
        self, adapter: EngineAdapter | None, rows: Sequence[EngineRow], retraced: Retraced
    ) -> float:
        from equipoise.models.token_choice import SamplingSettings

        settings = self.engine.settings
        prompts = list({tuple(row.prompt): row for row in rows}.values())
        chosen = [prompts[n % len(prompts)] for n in range(settings.probes)]
        probes = [EngineRow(row.prompt, n, min(TOKENS, row.limit)) for n, row in enumerate(chosen)]
        answers = self.engine.sample(adapter, probes, SamplingSettings(TEMPERATURE), self._stop_ids)
        result = compared(probes, answers, retraced)
        result.check(self.engine, self._last, settings.max_gap)
        return result.gap


def compared(
    rows: Sequence[EngineRow], answers: Sequence[SampledAnswer], retraced: Retraced
) -> ProbeResult:
    """How far the log-probabilities of answers at the probe's temperature are from the model
    here.
    """
    prompts = [row.prompt for row in rows]
    ids = [answer.token_ids for answer in answers]
    theirs = [value for answer in answers for value in answer.logprobs]
    gaps: list[float] = []
    for temperature in (TEMPERATURE, 1.0):
        values = retraced(prompts, ids, temperature)
        ours = [value for row in values for value in row]
        distances = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
        gaps.append(sum(distances) / len(distances))
    return ProbeResult(*gaps)
