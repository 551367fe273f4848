"""Schedules of the learning rate that waste no step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def begun(scheduler: Any) -> None:
    """Let a fresh LambdaLR go on from its second step: a warm-up's first is at rate 0."""
    rates = [partial(_one_later, rate) for rate in scheduler.lr_lambdas]
    scheduler.lr_lambdas = rates
    groups = scheduler.optimizer.param_groups
    for group, peak, rate in zip(groups, scheduler.base_lrs, rates, strict=True):
        group["lr"] = peak * rate(0)
    scheduler._last_lr = [group["lr"] for group in groups]


def _one_later(rate: Callable[[int], float], step: int) -> float:
    """What a schedule gives for the step after this one."""
    return rate(step + 1)
