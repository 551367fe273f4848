"""The work and the cost of a run before it begins, without loading a model: counts and estimates.

The counts are upper bounds that follow from configuration and prompts alone: every match judged,
every possible pair made. The estimates of memory and time are in `equipoise.planning.cost`.
They are for this machine, or for `Hardware` that need not be here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.evaluation.base import EvaluationPlan, Workload
from equipoise.learners.base import FEW_STEPS, Learner
from equipoise.losses.opponents import OpponentPool
from equipoise.matches.base import MatchContext, Seatings
from equipoise.models.device import Hardware
from equipoise.models.loading import row_length
from equipoise.planning.checks import CheckedRun, check_run, device_notes, wanted_accelerators
from equipoise.planning.cost import CostEstimate, Work, costs, engine_count
from equipoise.planning.fixed_at_start import fix_at_start
from equipoise.planning.phases import PhaseMemory, phases
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.prompts.shown_row import first_row_notes
from equipoise.prompts.split import PromptSplit
from equipoise.runs.by_generation import value_at
from equipoise.runs.config import MOST_GENERATIONS, RunConfig
from equipoise.runs.named_sets.set_plan import TEMPLATE_TOKENS, SetPlan, mean_tokens, plan_sets
from equipoise.runs.roster import expected_generations
from equipoise.sampling.engines.base import InProcess, RemoteSampler
from equipoise.types import PlayerId, Prompt


@dataclass(frozen=True)
class RunCounts:
    """Upper bounds of a run's work; `answers` are in training and when measuring."""

    generations: int
    players: int
    prompts: int
    held_out_prompts: int
    test_prompts: int
    matches: int
    held_out_matches: int
    judgements: int
    questions_to_judges: int
    answers: int
    sampled_tokens_at_most: int
    pairs_at_most: int
    episodes_at_most: int
    opponent_log_probabilities_at_most: int
    optimizer_steps_at_most: int


@dataclass(frozen=True)
class EndpointPlan:
    """What an endpoint may be asked, at `place` in the configuration.

    `questions` at most, where each is answered at once; `requests` at most, where every one fails
    as often as `retries` allows. `money`, about, of both; None without prices.
    """

    place: str
    account: str
    questions: int
    requests: int
    money: float | None
    most_money: float | None
    budget: dict[str, float]

    def text(self) -> str:
        """The plan to read, on one line."""
        asked = f"{self.questions:,} questions at most{_about(self.money)}"
        failing = f"{self.requests:,} requests{_about(self.most_money)}"
        limits = ", ".join(f"{name} {limit:,}" for name, limit in self.budget.items())
        return f"{asked}; if all fail until the last retry, {failing}; budget: {limits or 'none'}"


def _about(money: float | None) -> str:
    return "" if money is None else f", about {money:,.{2 if money >= 1 else 6}f} of money"


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run; `counts` leave out the named `sets`.

    `costs`: one for each group of learners that cost the same; `notes` say what had to be assumed.
    """

    config: RunConfig
    counts: RunCounts
    costs: tuple[CostEstimate, ...]
    notes: tuple[str, ...]
    sets: tuple[SetPlan, ...] = ()
    phases: tuple[PhaseMemory, ...] = ()
    endpoints: tuple[EndpointPlan, ...] = ()
    hardware: Hardware | None = None

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Reasons why it cannot run there, each with the settings that would help."""
        reasons = []
        if self.hardware is not None:
            wanted, there = wanted_accelerators(self.config), self.hardware.count
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
        return {
            f"{part}.{name}": ", ".join(f"{value_at(values, t):g}" for t in generations)
            for part, settings in self.config.by_generation.items()
            for name, values in settings.items()
        }


def plan(config: RunConfig, hardware: Hardware | None = None) -> RunPlan:
    """Plan a run of this configuration, with an estimate of memory and time.

    `hardware`: the accelerators that it is for; None: this machine, on which a layer or two of each
    model, with random weights, are timed. Raises what `check_run` raises, and ConfigError for a
    learner that would not use `hardware`.
    """
    if hardware is None:
        checked = check_run(config)
        config = checked.config
    else:
        _check_devices(config)
        checked = check_run(_without_places(config))
        fixed = fix_at_start(config)[0]
        config = fixed.model_copy(update={"prompts": checked.config.prompts})
    split = checked.split
    training = _train(config, split)
    counts = count(config, split, training)
    last = config.generations
    measured = [t for t in range(last + 1) if config.evaluate.due(t, last)]
    sets = tuple(plan_sets(config, len(measured)))
    work = Work(
        answers=counts.answers + sum(of_set.answers for of_set in sets),
        matches=counts.matches + counts.held_out_matches,
        stages=config.generations + len(measured),
        examples=2 * counts.pairs_at_most + counts.episodes_at_most,
        steps=counts.optimizer_steps_at_most,
        scored=counts.opponent_log_probabilities_at_most,
        questions=counts.questions_to_judges + sum(of_set.questions for of_set in sets),
    )
    prompts = split.training or split.held_out
    estimates, cut = costs(config, prompts, work, hardware)
    of_place = _idle(config, hardware) if hardware else (*device_notes(config), *_used(estimates))
    notes = (*checked.notes, *cut, *short_runs(config, counts), *of_place)
    endpoints = tuple(_endpoints(config, counts, training, sets, prompts))
    parts = _phases(config, estimates, hardware)
    return RunPlan(config, counts, estimates, notes, sets, parts, endpoints, hardware)


def _check_devices(config: RunConfig) -> None:
    """Raises ConfigError for a learner that is to compute on the CPU."""
    for name in config.learning:
        if getattr(config.players[name], "device", "auto") == "cpu":
            raise ConfigError(
                f"players.{name}.device is cpu, and --on plans for accelerators; leave --on out, "
                f"or set -s {name}.device=auto"
            )


P = TypeVar("P", bound=BaseModel)


def _without_places(part: P) -> P:
    """The part with devices and engines that need not be here left open."""
    changed: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if name == "device" and value not in ("auto", "cpu"):
            changed[name] = "auto"
        elif name == "liger":
            changed[name] = False
        elif isinstance(value, RemoteSampler):
            changed[name] = InProcess()
        elif isinstance(value, BaseModel):
            changed[name] = _without_places(value)
        elif isinstance(value, Mapping):
            changed[name] = {
                key: _without_places(each) if isinstance(each, BaseModel) else each
                for key, each in value.items()
            }
    return part.model_copy(update=changed)


def _idle(config: RunConfig, hardware: Hardware) -> tuple[str, ...]:
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


def _endpoints(
    config: RunConfig,
    counts: RunCounts,
    training: _Training,
    sets: Sequence[SetPlan],
    prompts: Sequence[Prompt],
) -> Iterator[EndpointPlan]:
    measuring = counts.answers - training.moves.total()
    by_pool = any(judge.kind == "peers" for judge in map(config.judge_of, config.learning))
    answer = max(map(_new_tokens, config.players.values()), default=0)
    for place, player in config.every_player():
        if not isinstance(player, Endpoint):
            continue
        room, _, name = place.partition(".")
        asks = room in ("judge", "judges", "evaluate", "measures")
        if asks:
            questions = counts.questions_to_judges + sum(of_set.questions for of_set in sets)
        else:
            questions = training.moves.get(name, 0) + measuring
            questions += sum(of_set.answers for of_set in sets) if name in config.measured else 0
            questions += counts.questions_to_judges if by_pool else 0
        read = mean_tokens(prompts)
        if asks or by_pool:
            read += len(config.game.seats) * answer + TEMPLATE_TOKENS
        each = player.cost(read, player.max_new_tokens) if player.prices else None
        requests = questions * player.most_requests
        yield EndpointPlan(
            place=place,
            account=player.account or player.model,
            questions=questions,
            requests=requests,
            money=None if each is None else questions * each,
            most_money=None if each is None else requests * each,
            budget={name: limit for name, limit in player.budget if limit is not None},
        )


def _phases(
    config: RunConfig, estimates: Sequence[CostEstimate], hardware: Hardware | None
) -> tuple[PhaseMemory, ...]:
    if not estimates:
        return ()
    prompt = max(estimate.mean_prompt_tokens for estimate in estimates)
    accelerator = any(estimate.device != "cpu" for estimate in estimates)
    parts = phases(config, prompt, accelerator=accelerator, hardware=hardware)
    if hardware is None:
        return tuple(parts)
    by_learner = {name: cost for cost in estimates for name in cost.learners}
    slowest = max(estimates, key=lambda cost: cost.seconds or 0.0)
    return tuple(_timed(part, by_learner.get(part.learner, slowest)) for part in parts)


def _timed(part: PhaseMemory, cost: CostEstimate) -> PhaseMemory:
    """The phase with its processes and its time."""
    if part.phase == "engine":
        return part
    if part.phase == "learn":
        return replace(part, processes=cost.processes, seconds=cost.training_seconds)
    seconds = cost.judging_seconds
    if part.phase == "play":
        seconds = (cost.sampling_seconds or 0.0) + (cost.scoring_seconds or 0.0)
    return replace(part, processes=cost.workers, seconds=seconds)


def _used(estimates: Sequence[CostEstimate]) -> tuple[str, ...]:
    from equipoise.models.device import explain_device

    accelerated = any(estimate.device != "cpu" for estimate in estimates)
    return (explain_device(),) if accelerated else ()


def notes_of_start(checked: CheckedRun) -> tuple[str, ...]:
    """What a plan notes and a run says before it begins: devices, and learners that hardly move."""
    config = checked.config
    devices = (*first_row_notes(config.prompts), *device_notes(config))
    if all(config.learner_of(name).needs == "game" for name in config.learning):
        return devices
    training = _train(config, checked.split)
    return (*devices, *short_runs(config, count(config, checked.split, training)))


def short_runs(config: RunConfig, counts: RunCounts) -> tuple[str, ...]:
    """Warnings of runs so short that the learners hardly move.

    A learner that keeps its optimizer warms up once; others warm up in each generation.
    """
    turns = expected_generations(config.turns, config.learning, config.generations)
    notes = []
    for name in config.learning:
        taught = [t for t, (_, learning) in enumerate(turns) if name in learning]
        steps = counts.optimizer_steps_at_most // max(1, len(config.learning))
        trainer = config.learner_of(name)
        warmup = getattr(trainer, "warmup_steps", 0)
        if taught and warmup >= steps:
            notes.append(
                f"learner: warmup_steps = {warmup} is no less than the {steps} optimizer "
                f"steps of '{name}', whose learning rate never reaches its peak; set "
                f"learner.warmup_steps={steps // 10}"
            )
        elif taught and trainer.needs != "game" and steps < FEW_STEPS:
            notes.append(
                f"learner: '{name}' takes at most {steps} optimizer steps in the whole "
                f"run, fewer than {FEW_STEPS}, and will hardly move; more prompts, "
                "smaller batches or a higher learner.learning_rate help"
            )
    return tuple(dict.fromkeys(notes))


def count(config: RunConfig, split: PromptSplit, training: _Training) -> RunCounts:
    """Count the run's work on these prompts, at most."""
    measuring = _measure(config, split)
    seats, pool = len(config.game.seats), len(config.players)
    judges = {judge.name: judge for judge in map(config.judge_of, config.measured)}.values()
    questions = training.matches * sum(judge.questions(seats, pool) for judge in judges)
    questions += sum(
        matches * judge.questions(beside, pool) for judge, matches, beside in measuring.judged
    )
    judgements = training.matches * len(judges)
    judgements += sum(matches for _, matches, _ in measuring.judged)
    answers = training.moves.total() + measuring.moves
    longest = max(map(_new_tokens, config.players.values()), default=0)
    return RunCounts(
        generations=config.generations,
        players=pool,
        prompts=split.count,
        held_out_prompts=len(split.held_out),
        test_prompts=len(split.test),
        matches=training.matches,
        held_out_matches=measuring.matches,
        judgements=judgements,
        questions_to_judges=questions,
        answers=answers,
        sampled_tokens_at_most=answers * longest,
        pairs_at_most=training.pairs,
        episodes_at_most=training.episodes,
        opponent_log_probabilities_at_most=training.scored,
        optimizer_steps_at_most=training.steps,
    )


@dataclass
class _Training:
    """Running totals over the generations."""

    matches: int = 0
    moves: Counter[str] = field(default_factory=Counter)  # by player
    pairs: int = 0
    episodes: int = 0
    scored: int = 0
    steps: int = 0

    def add(self, other: _Training) -> None:
        """Add another's totals to these."""
        self.matches += other.matches
        self.moves.update(other.moves)
        self.pairs += other.pairs
        self.episodes += other.episodes
        self.scored += other.scored
        self.steps += other.steps


def _train(config: RunConfig, split: PromptSplit) -> _Training:
    totals = _Training()
    rosters = expected_generations(config.turns, config.learning, config.generations)
    known: dict[Any, _Training] = {}  # what generations bring that are alike
    alike = not config.schedule.draws and _same_moves(config, split.training)
    for t, (learners, turn) in enumerate(rosters[:-1]):
        key = _kind_of_generation(config, t, learners, turn) if alike else t
        if key not in known or not alike:
            known[key] = _generation(config, split.parts[t], t, learners, turn)
        totals.add(known[key])
    return totals


def _same_moves(config: RunConfig, prompts: Sequence[Prompt]) -> bool:
    """True if a match on any of the prompts has as many moves of each seat."""
    return len({frozenset(config.game.moves(prompt).items()) for prompt in prompts}) < 2


def _kind_of_generation(
    config: RunConfig, t: int, learners: Sequence[PlayerId], turn: Sequence[str]
) -> Any:
    """Equal for generations of one amount of work, where nothing in it is drawn."""
    settings = [
        value_at(values, t) for part in config.by_generation.values() for values in part.values()
    ]
    memory = 2 + (0 if config.loss is None else config.loss.memory)
    ages = [min(learner.generation, memory) for learner in learners]
    return config.plays(t), config.pairs.by_judge(t), *turn, *settings, *ages


def _generation(
    config: RunConfig,
    prompts: Sequence[Prompt],
    t: int,
    learners: Sequence[PlayerId],
    turn: Sequence[str],
) -> _Training:
    totals = _Training()
    context = MatchContext(
        config.game,
        [*learners, *_others(config)],
        [past for learner in learners for past in _past(learner)],
        seeds.child(config.seed, "seats", t),
        config.training_ratings.initial_ratings(list(config.players)),
        learners=learners,
        turn=turn,
    )
    seatings: Seatings = []
    if config.plays(t):
        seatings = list(config.schedule.seatings(prompts, context))
    totals.matches += len(seatings)
    for prompt, seats in seatings:
        for seat, moves in config.game.moves(prompt).items():
            totals.moves[seats[seat].name] += moves
    for learner in learners:
        if learner.name in turn:
            _teach(config, learner, learners, prompts, seatings, t, totals)
    return totals


def _teach(
    config: RunConfig,
    learner: PlayerId,
    learners: Sequence[PlayerId],
    prompts: Sequence[Prompt],
    seatings: Seatings,
    t: int,
    totals: _Training,
) -> None:
    trainer = config.learner_at(learner.name, t)
    loss = config.loss_at(t)
    pairs = len(prompts)
    if config.plays(t):
        pairs = _pairs(config, trainer, learner, seatings)
    episodes = _episodes(config, trainer, learner, seatings)
    totals.pairs += pairs
    totals.episodes += episodes
    totals.steps += trainer.steps(episodes if trainer.needs == "episodes" else pairs)
    if trainer.needs == "pairs" and loss is not None:
        peers = [peer for peer in learners if peer != learner]
        pool = OpponentPool([learner, *_past(learner)], peers, _others(config))
        totals.scored += 2 * pairs * len(loss.opponents(pool))
        judged = config.pairs.by_judge(t)
        scores = not config.judge_of(learner.name).compares
        if loss.wins_by in ("auto", "counted", "bradley_terry") and scores and judged:
            rivals = loss.wins_against(pool)
            _answer(config, [player for player, _ in rivals], seatings, totals)


def _answer(
    config: RunConfig, opponents: Sequence[PlayerId], seatings: Seatings, totals: _Training
) -> None:
    """Add the answers of opponents outside the matches: all seats on every prompt."""
    seated = {player for _, seats in seatings for player in seats.values()}
    if config.prompts.reuse == "same" and config.schedule.kind == "self_play":
        names = {player.name for player in seated}  # whose earlier answers are recorded
        seated |= {player for player in opponents if player.name in names}
    prompts = {prompt.id: prompt for prompt, _ in seatings}
    for player in opponents:
        if player not in seated:
            totals.matches += len(prompts)
            for prompt in prompts.values():
                totals.moves[player.name] += sum(config.game.moves(prompt).values())


def _pairs(config: RunConfig, trainer: Learner, learner: PlayerId, seatings: Seatings) -> int:
    """The most pairs that one generation's matches make for a learner."""
    if trainer.needs not in ("pairs", "answers"):
        return 0
    sat_in = [seats for _, seats in seatings if learner in seats.values()]
    teaching = seatings if config.training_matches == "all" else sat_in
    return len(teaching) * config.pairs.most(len(config.game.seats))


def _episodes(config: RunConfig, trainer: Learner, learner: PlayerId, seatings: Seatings) -> int:
    """The number of a learner's own moves that are paid in one generation."""
    if trainer.needs != "episodes":
        return 0
    paid = 0
    for prompt, seats in seatings:
        moves = config.game.moves(prompt)
        paid += sum(moves[seat] for seat in moves if seats[seat] == learner)
    return paid


def _measure(config: RunConfig, split: PromptSplit) -> Workload:
    rosters = expected_generations(config.turns, config.learning, config.generations)
    measured = [
        learners
        for t, (learners, _) in enumerate(rosters)
        if config.evaluate.due(t, config.generations)
    ]
    run_plan = EvaluationPlan(
        config.game,
        measured,
        _others(config),
        config.schedule.player_of_role,
        split.held_out,
        split.test,
        config.judge_of,
    )
    evaluation = config.evaluate
    work = [evaluation.planned(run_plan)]
    for part in config.measures:
        samples = part.sample_count(evaluation)
        played = evaluation.plays and samples == getattr(evaluation, "samples", None)
        work.append(part.planned(run_plan, samples, played))
    return Workload(
        sum(each.matches for each in work),
        sum(each.moves for each in work),
        [judged for each in work for judged in each.judged],
    )


def _others(config: RunConfig) -> list[PlayerId]:
    return [PlayerId(name) for name, player in config.players.items() if not player.learns]


def _past(learner: PlayerId) -> list[PlayerId]:
    return _generations(learner.name)[MOST_GENERATIONS - learner.generation :]


@cache
def _generations(name: str) -> list[PlayerId]:
    """Every generation that a player can have in a run, newest first."""
    return [PlayerId(name, age) for age in range(MOST_GENERATIONS - 1, -1, -1)]


def _new_tokens(player: Player) -> int:
    """The longest answer of a language model in tokens; 0 for other players."""
    if isinstance(player, Local):
        return min(player.most_tokens, row_length(player.model, player.max_length))
    return player.max_new_tokens if isinstance(player, Endpoint) else 0
