"""Sentences on the first generation, in which several methods are the same algorithm."""

from collections.abc import Iterator

from equipoise.losses.first_step import FirstStep, first_step
from equipoise.losses.preference import IPO
from equipoise.runs.config import RunConfig


def first_step_of(config: RunConfig, learner: str) -> FirstStep | None:
    """The form of a learner's loss in its first generation that other methods share."""
    loss = config.loss_at(learner, 0)
    if loss is None or config.learner_of(learner).needs != "pairs":
        return None
    peers = [name for name in config.learning if name != learner]
    outsiders = [name for name in config.players if name not in config.learning]
    return first_step(loss, learner, peers, outsiders)


def first_step_notes(config: RunConfig) -> Iterator[str]:
    """A sentence where a loss that is not IPO is IPO in the first generation."""
    steps: dict[FirstStep, str] = {}
    for learner in config.learning:
        loss = config.loss_at(learner, 0)
        step = first_step_of(config, learner)
        if loss is not None and step is not None and not isinstance(loss, IPO):
            steps.setdefault(step, loss.kind)
    for step, kind in steps.items():
        rest = "they part in the second, when the past is no longer the start"
        if config.generations == 1:
            rest = "and this run has no second one, in which they would part"
        yield (
            f"in the first generation '{kind}' has one opponent, the start, and MNPO, INPO "
            f"and IPO are the same algorithm, {step.text()}; {rest}"
        )
