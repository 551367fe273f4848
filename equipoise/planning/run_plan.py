"""The work and the cost of a run before it begins, without loading a model: counts and estimates.

The counts are in `equipoise.planning.counts`, the estimates of memory and time in
`equipoise.planning.cost`.
They are for this machine, or for `Hardware` that need not be here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from equipoise.component import with_inner
from equipoise.errors import ConfigError
from equipoise.models.device import Hardware, explain_device
from equipoise.planning.checks import (
    check_run,
    device_notes,
    short_runs,
    unshared_rows,
    wanted_accelerators,
)
from equipoise.planning.config_alone import plan_without_weights
from equipoise.planning.cost import CostEstimate, Work, costs
from equipoise.planning.counts import RunCounts, count_work
from equipoise.planning.endpoint_plan import EndpointPlan, plan_endpoints
from equipoise.planning.fixed_at_start import fix_at_start
from equipoise.planning.memory import engine_count
from equipoise.planning.phases import PhaseMemory, phases
from equipoise.players.local import Local
from equipoise.runs.by_generation import value_at
from equipoise.runs.config import RunConfig
from equipoise.runs.first_generation import first_step_notes
from equipoise.runs.named_sets.set_plan import SetPlan, plan_sets
from equipoise.sampling.engines.base import InProcess, RemoteSampler


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run; `counts` leave out the named `sets`.

    `costs`: one for each group of learners that cost the same; `notes` say what had to be assumed;
    `missing` names the players whose weights are not here.
    """

    config: RunConfig
    counts: RunCounts
    costs: tuple[CostEstimate, ...]
    notes: tuple[str, ...]
    sets: tuple[SetPlan, ...] = ()
    phases: tuple[PhaseMemory, ...] = ()
    endpoints: tuple[EndpointPlan, ...] = ()
    hardware: Hardware | None = None
    missing: tuple[str, ...] = ()

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Reasons why it cannot run there, each with the settings that would help."""
        reasons = []
        if self.hardware is not None:
            wanted = wanted_accelerators(self.config)
            there = self.hardware.count
            if wanted > there:
                reasons.append(
                    f"its {wanted} processes want an accelerator each, of {there}; lower "
                    "executor.processes and learner.launch.num_processes, or plan for more"
                )
            memory = self.hardware.memory
            short = [part for part in self.phases if part.bytes > memory]
            reasons += [
                f"{part.name} takes {part.bytes / 1e9:.1f} of {memory / 1e9:.0f} GB; "
                f"set {part.advice}"
                for part in short
            ]
        else:
            reasons += self.missing
            reasons += [
                f"{', '.join(cost.learners)} takes {cost.peak_memory / 1e9:.1f} of "
                f"{cost.memory / 1e9:.1f} GB; set {cost.advice}"
                for cost in self.costs
                if not cost.fits
            ]
        return tuple(dict.fromkeys(reasons))

    @property
    def seconds(self) -> float | None:
        """The time at most, as if every player were like the slowest; None: not known."""
        times = [cost.seconds for cost in self.costs]
        return None if not times or None in times else max(filter(None, times), default=0.0)

    @property
    def peak(self) -> float:
        """The most bytes that a process takes, or all on this machine's CPU together."""
        of_phases = [part.bytes for part in self.phases] if self.hardware else []
        return max([*of_phases, *(cost.peak_memory for cost in self.costs)], default=0.0)

    @property
    def place(self) -> str:
        """The hardware that the plan is for, to read."""
        if self.hardware is not None:
            return self.hardware.name
        devices = sorted({cost.device for cost in self.costs})
        processes = max((cost.processes for cost in self.costs), default=1)
        if processes > 1 and "cpu" in devices:
            devices.append(f"shared by {processes} processes")
        return f"this machine ({', '.join(devices)})" if devices else "this machine"

    @property
    def schedules(self) -> dict[str, str]:
        """setting -> its values in all generations, for those that change."""
        generations = range(self.config.generations)
        changing: dict[str, str] = {}
        for part, settings in self.config.by_generation.items():
            for name, values in settings.items():
                texts = [f"{value_at(values, t):g}" for t in generations]
                changing[f"{part}.{name}"] = ", ".join(texts)
        return changing


def plan(config: RunConfig, hardware: Hardware | None = None) -> RunPlan:
    """Plan a run of this configuration, with an estimate of memory and time.

    `hardware`: the accelerators that it is for; None: this machine, on which a layer or two of each
    model, with random weights, are timed. Raises what `check_run` raises, and ConfigError for a
    learner that would not use `hardware`.
    """
    config, missing = plan_without_weights(config)
    if hardware is None:
        checked = check_run(config)
        config = checked.config
    else:
        for name in config.learning:
            if getattr(config.players[name], "device", "auto") == "cpu":
                raise ConfigError(
                    f"players.{name}.device is cpu, and --on plans for accelerators; leave --on "
                    f"out, or set -s {name}.device=auto"
                )
        checked = check_run(without_places(config))
        fixed = fix_at_start(config)[0]
        config = fixed.model_copy(update={"prompts": checked.config.prompts})
    split = checked.split
    run_work = count_work(config, split)
    counts = run_work.counts
    last = config.generations
    measured = [t for t in range(last + 1) if config.evaluate.due(t, last)]
    sets = tuple(plan_sets(config, len(measured)))
    answers = counts.answers + sum(of_set.answers for of_set in sets)
    work = Work(
        answers=answers,
        matches=run_work.played_matches,
        stages=config.generations + len(measured),
        examples=2 * counts.pairs_at_most + counts.episodes_at_most,
        steps=counts.optimizer_steps_at_most,
        scored=counts.opponent_log_probabilities_at_most,
        questions=counts.questions_to_judges + sum(of_set.questions for of_set in sets),
    )
    prompts = split.training or split.held_out
    estimates, cut = costs(config, prompts, work, hardware)
    assumed = missing if hardware is not None else ()
    notes = [*assumed, *checked.notes, *cut, *short_runs(config, counts), *first_step_notes(config)]
    if hardware is not None:
        notes += [*unshared_rows(config), *idle_accelerators(config, hardware)]
    else:
        notes += device_notes(config)
        if any(estimate.device != "cpu" for estimate in estimates):
            notes.append(explain_device())
    endpoints = tuple(plan_endpoints(config, run_work, sets, prompts))
    parts = timed_phases(config, estimates, hardware)
    return RunPlan(
        config, counts, estimates, tuple(notes), sets, parts, endpoints, hardware, missing
    )


P = TypeVar("P", bound=BaseModel)


def without_places(part: P) -> P:
    """The part with devices, kernels and engines that need not be here left open."""
    changed: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if name == "device" and value not in ("auto", "cpu"):
            changed[name] = "auto"
        elif name == "liger":
            changed[name] = False
        elif name == "attention":
            changed[name] = "auto"
        elif isinstance(value, RemoteSampler):
            changed[name] = InProcess()
    part = part.model_copy(update=changed)
    return with_inner(part, lambda inner, name: without_places(inner))


def idle_accelerators(config: RunConfig, hardware: Hardware) -> tuple[str, ...]:
    """A note where the recipe leaves accelerators idle."""
    engines = [engine_count(p) for p in config.players.values() if isinstance(p, Local)]
    samplers = [getattr(player, "sampler", None) for player in config.players.values()]
    sleeps = any(getattr(sampler, "sleep", False) for sampler in samplers)
    used = max(1, wanted_accelerators(config)) + (0 if sleeps else max(engines, default=0))
    if used >= hardware.count:
        return ()
    n = hardware.count
    return (
        f"the recipe uses {used} of {n} accelerators; -s executor.processes={n} plays on all, "
        f"-s learner.launch.num_processes={n} trains on all (each step has "
        "batch_size × gradient_accumulation × num_processes examples)",
    )


def timed_phases(
    config: RunConfig, estimates: Sequence[CostEstimate], hardware: Hardware | None
) -> tuple[PhaseMemory, ...]:
    """The phases, on other hardware each with its processes and its time."""
    if not estimates:
        return ()
    prompt = max(estimate.mean_prompt_tokens for estimate in estimates)
    accelerator = any(estimate.device != "cpu" for estimate in estimates)
    parts = phases(config, prompt, accelerator=accelerator, hardware=hardware)  # without times
    if hardware is None:
        return tuple(parts)
    by_learner = {name: cost for cost in estimates for name in cost.learners}
    slowest = max(estimates, key=lambda cost: cost.seconds or 0.0)
    timed = []
    for part in parts:
        cost = by_learner.get(part.learner, slowest)
        if part.phase == "learn":
            part = replace(part, processes=cost.processes, seconds=cost.training_seconds)
        elif part.phase == "play":
            seconds = (cost.sampling_seconds or 0.0) + (cost.scoring_seconds or 0.0)
            part = replace(part, processes=cost.workers, seconds=seconds)
        elif part.phase == "judge":
            part = replace(part, processes=cost.workers, seconds=cost.judging_seconds)
        timed.append(part)
    return tuple(timed)
