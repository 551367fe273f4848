"""Check before a run begins what can be known to fail: every part is asked what it needs of the
prompts and of the others.

Every room's parts have a method for it: `Player.faults()`, `Player.faults_of_prompts(prompts)`,
`Judge.faults(context)`, `Judge.why_unjudgeable(prompt)`, `Judge.faults_of_prompts(prompts)`,
`PreferenceLoss.faults(judge, range)`, `PairMaker.faults(game)`, `Learner.faults(player, game)`,
`.faults_of_opponents(…)`, `Game.faults(prompts)`. All faults are reported at once, each with its
place in the configuration.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from equipoise import seeds
from equipoise.component import nearest
from equipoise.data.pairs import PairMaker
from equipoise.errors import ConfigError, DataError, UserError, first_line, shorten
from equipoise.evaluation.measure import JudgeScore
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge, JudgeContext
from equipoise.learners.base import FEW_STEPS
from equipoise.matches.base import MatchContext
from equipoise.matches.schedule import SelfPlay
from equipoise.models.loading import MASKED, load_config
from equipoise.models.resources import Resources
from equipoise.planning.counts import RunCounts, count_work
from equipoise.planning.fixed_at_start import fix_at_start
from equipoise.players.endpoint import Endpoint
from equipoise.players.local_settings import LocalSettings
from equipoise.prompts.shown_row import first_row_notes
from equipoise.prompts.split import PromptSplit, fit_counts, split_source
from equipoise.runs.config import RunConfig
from equipoise.runs.executors.ray_cluster import RayCluster
from equipoise.runs.named_sets.set_plan import check_sets, nobody_plays
from equipoise.runs.room_for_prompts import players_that_read, too_long, without_too_long
from equipoise.runs.roster import expected_generations
from equipoise.runs.unread_settings import unread_settings
from equipoise.system.addresses import Machine
from equipoise.types import PlayerId, Prompt


@dataclass(frozen=True)
class CheckedRun:
    """A configuration whose parts fit together and its prompts, dealt.

    `config` has the counts of prompts that the source allows; `notes` name changes and omissions.
    """

    config: RunConfig
    split: PromptSplit
    notes: tuple[str, ...]


def check_run(config: RunConfig, *, has_begun: bool = False) -> CheckedRun:
    """Load and deal the prompts, and collect every part's faults, without any weights.

    A run that `has_begun` may have settings that nothing reads. Raises DataError for prompts that
    cannot be used, ConfigError with all faults, one a line.
    """
    config.game.check()
    try:
        source = config.prompts.load()
    except DataError as error:
        others = list(dict.fromkeys(faults_of_parts(config)))
        if others:
            raise ConfigError("\n".join([str(error), *others])) from error
        raise
    config, fixed = fix_at_start(config)
    source = without_too_long(source, config)
    prompts, notes = fit_counts(config.prompts, source, config.generations)
    config = config.model_copy(update={"prompts": prompts})
    split = split_source(source, prompts, config.generations, config.seed)

    faults = list(faults_of_parts(config))
    if not has_begun:
        faults += unread_settings(config)
    faults += faults_with_prompts(config, split)
    faults += faults_of_room(config, split, faults)
    judged, unjudged = check_judged(config, split)
    faults += judged
    faults += faults_by_trial(config, split)
    faults += faults_of_named_sets(config)
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))

    noted = [*config.yielded, *fixed, *notes_on_rows(config, split), *notes]
    dealt = len(split.parts[0]) if split.parts else prompts.per_generation
    if dealt < prompts.per_generation:
        noted.append(
            f"prompts: every generation plays all {dealt} that there are, not the "
            f"{prompts.per_generation} of prompts.per_generation"
        )
    noted += unjudged
    for shaping in config.shaping:
        noted += shaping.notes()
    of_learners: dict[str, None] = {}
    for name in config.learning:
        of_learners |= dict.fromkeys(config.learner_of(name).notes())
    noted += of_learners
    noted += [*without_template(config), *unshared_rows(config), *longer_weights(config)]
    return CheckedRun(config, split, tuple(noted))


def check_new_run(
    config: RunConfig, announce: Callable[[Sequence[str]], None] | None = None
) -> CheckedRun:
    """Check a run that begins now; its notes are also of devices, and of learners that hardly move.

    `announce`: gets what `check_endpoints` notes; None: nothing is asked over the network.
    """
    if announce is not None:
        announce(check_endpoints(config))
    checked = check_run(config)
    config = checked.config
    notes = [*checked.notes, *first_row_notes(config.prompts), *device_notes(config)]
    if any(config.learner_of(name).needs != "game" for name in config.learning):
        notes += short_runs(config, count_work(config, checked.split).counts)
    return replace(checked, notes=tuple(notes))


def short_runs(config: RunConfig, counts: RunCounts) -> tuple[str, ...]:
    """Warnings of runs so short that the learners hardly move.

    A learner that keeps its optimizer warms up once; others warm up in each generation.
    """
    turns = expected_generations(config.turns, config.learning, config.generations)
    steps = counts.optimizer_steps_at_most // max(1, len(config.learning))
    notes = []
    for name in config.learning:
        if not any(name in learning for _, learning in turns):
            continue
        trainer = config.learner_of(name)
        warmup = getattr(trainer, "warmup_steps", 0)
        if warmup >= steps:
            notes.append(
                f"learner: warmup_steps = {warmup} is no less than the {steps} optimizer "
                f"steps of '{name}', whose learning rate never reaches its peak; set "
                f"learner.warmup_steps={steps // 10}"
            )
        elif trainer.needs != "game" and steps < FEW_STEPS:
            notes.append(
                f"learner: '{name}' takes at most {steps} optimizer steps in the whole "
                f"run, fewer than {FEW_STEPS}, and will hardly move; more prompts, "
                "smaller batches or a higher learner.learning_rate help"
            )
    return tuple(dict.fromkeys(notes))


def without_template(config: RunConfig) -> Iterator[str]:
    """A note for each player that is asked in a layout of ours, its model having none."""
    own = ((n, p) for n, p in config.players.items() if isinstance(p, LocalSettings))
    for name, player in own:
        if player.lacks_template():
            yield (
                f"players.{name}: model '{player.model}' has no chat template, so chats are "
                f"written plainly; players.{name}.template names a Jinja file"
            )


def longer_weights(config: RunConfig) -> Iterator[str]:
    """A note for each learner of whole weights that are kept longer than its model's own."""
    for name in config.learning:
        player = config.players[name]
        if not isinstance(player, LocalSettings) or player.lora is not None:
            continue
        if config.learner_of(name).carried_precision() == "bf16_weights":
            continue
        if str(load_config(player.model).dtype).endswith("float16"):
            yield (
                f"players.{name}: generations are kept in float32, as they learn and play, and "
                f"model '{player.model}' has 16 bits; `equipoise merge RUN/players/{name}/N --to "
                "FOLDER` writes one in the model's own precision, learner.rounding: stochastic "
                "keeps all in bfloat16"
            )


def unshared_rows(config: RunConfig) -> Iterator[str]:
    """A note for each learner whose attention keeps answers from sharing their prompt's row."""
    for name in config.learning:
        attention = getattr(config.players[name], "attention", MASKED[0])
        if attention not in MASKED and config.learner_of(name).needs in ("pairs", "episodes"):
            yield (
                f"players.{name}: attention: {attention} takes no mask of ours, so a prompt is "
                "computed once for each answer in training; "
                f"{', '.join(MASKED[1:])} compute it once for all"
            )


def wanted_accelerators(config: RunConfig) -> int:
    """The accelerators on which the recipe's processes would each have one; 0: it names none.

    Over all its machines. Processes of learners whose device is the CPU want none.
    """
    wanted = [int(getattr(config.executor, "processes", 0))]
    if isinstance(config.executor, RayCluster):
        wanted.append(math.ceil(config.executor.workers * config.executor.gpus))
    for name in config.learning:
        launch = getattr(config.learner_of(name), "launch", None)
        device = getattr(config.players[name], "device", "cpu")
        if launch is not None and device != "cpu" and launch.on_accelerators:
            wanted.append(launch.processes)
    return max(wanted)


def device_notes(config: RunConfig) -> tuple[str, ...]:
    """A note where the recipe's processes are more than this machine's accelerators."""
    wanted = wanted_accelerators(config)
    machine = Machine.here()
    if wanted < 2 or machine.ray_address or machine.launch_prefix:  # they are on others
        return ()
    from equipoise.models.device import accelerator_count

    here = accelerator_count()
    if wanted <= (here or len(os.sched_getaffinity(0))):
        return ()
    there = f"has {here}" if here else "has none: they would share its CPU"
    return (
        f"executor, learner.launch: {wanted} processes are meant for an accelerator each, and this "
        f"machine {there}. `equipoise plan … --on {wanted}xH100-80GB` plans them for others; "
        "-s executor=local -s learner.launch=null takes one process",
    )


def check_endpoints(config: RunConfig) -> tuple[str, ...]:
    """Ask each endpoint, and each tracker's server, once whether it is there; notes on players'
    that are not.

    Raises ConfigError with the judges' and trackers' that cannot be reached, or want another key.
    """
    faults: list[str] = []
    notes: list[str] = []
    known: dict[tuple[object, ...], str] = {}
    for place, player in config.every_player():
        if not isinstance(player, Endpoint) or any(player.faults()):  # which `check_run` reports
            continue
        servers = (player.base_url, player.replicas, player.api_key_env)
        if servers not in known:
            known[servers] = player.fault_of_servers()
        fault = known[servers]
        if fault:
            judges = place.split(".")[0] in ("judge", "judges", "evaluate", "measures")
            (faults if judges else notes).append(f"{place}: {fault}")
    faults += filter(None, map(fault_of_tracker, config.report_to))
    if faults:
        raise ConfigError("\n".join(faults))
    return tuple(notes)


def fault_of_tracker(kind: str) -> str:
    """The reason why a tracker cannot send what its variables ask for; "" for none."""
    known = "WANDB_API_KEY" in os.environ or Path("~/.netrc").expanduser().is_file()
    if kind == "wandb" and os.environ.get("WANDB_MODE") == "online" and not known:
        return "report_to: WANDB_MODE=online sends to wandb, and it has no key: `wandb login`"
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if kind == "mlflow" and address.startswith("http"):
        import httpx2

        try:
            httpx2.get(address, timeout=5)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return (
                f"report_to: {address} (MLFLOW_TRACKING_URI) does not answer: {first_line(error)}"
            )
    return ""


def training_judges(config: RunConfig) -> dict[str, Judge]:
    """Place in the configuration -> judge that teaches, or if nobody learns, measures."""
    judges = {}
    for name in config.measured:
        place = f"judges.{name}" if name in config.judges else "judge"
        judges[place] = config.judge_of(name)
    return judges


def measuring_judges(config: RunConfig) -> dict[str, Judge]:
    """Place in the configuration -> the judge that measures, each once."""
    further = {
        f"measures.{place}.judge": part.judge
        for place, part in enumerate(config.measures)
        if isinstance(part, JudgeScore)
    }
    if not config.evaluate.plays:
        return further
    own = config.evaluate.judge
    return (training_judges(config) if own is None else {"evaluate.judge": own}) | further


# -- the parts and each other


def faults_of_parts(config: RunConfig) -> Iterator[str]:
    for place, player in config.every_player():
        for fault in player.faults():
            yield f"{place}: {fault}"
    for fault in config.evaluate.faults(config.game):
        yield f"evaluate: {fault}"
    pool = [PlayerId(name) for name in config.players]
    context = JudgeContext(config.game, 0, pool, {}, Resources(), nobody_plays)
    for place, judge in {**training_judges(config), **measuring_judges(config)}.items():
        for fault in judge.faults(context):
            yield f"{place}: {fault}"
    for place, judge in training_judges(config).items():
        known = judge.known_utilities
        if known is not None and config.utility not in known:
            hint = nearest(config.utility, list(known))
            yield f"utility: {place}: '{judge.kind}' gives no '{shorten(config.utility)}'; {hint}"
    for name in config.learning:
        trainer = config.learner_of(name)
        place = f"learners.{name}" if name in config.learners else "learner"
        for fault in trainer.faults(config.players[name], config.game):
            yield f"{place}: {fault} (players.{name})"
        for fault in trainer.faults_of_opponents(
            name, config.players, config.schedule, config.game
        ):
            yield f"{place}: {fault}"
        if trainer.needs in ("pairs", "answers"):
            for fault in config.pairs.faults(config.game):
                yield f"pairs: {fault}"
            if config.generations and config.pairs.answers > 1 and answers_alike(config, name):
                yield (
                    f"players.{name}: temperature = 0 gives the same answer again and again, and "
                    f"pairs are made of answers that differ; set {name}.temperature to 0.8, say"
                )
        loss = config.loss_of(name)
        if loss is not None and trainer.needs == "pairs" and trainer.by_loss:
            judge = config.judge_of(name)
            limits = judge.score_range if config.utility == "score" else None
            for fault in loss.faults(judge.kind, limits, judge.compares):
                yield f"loss: {fault}"
            if config.pairs.may_tie and not loss.reads_scores:
                yield (
                    f"loss: '{loss.kind}' as it is set learns from the order of scores, and "
                    f"those of pairs: {config.pairs.kind} may be equal; take one of their size, "
                    "such as {kind: optimistic, target: reward}"
                )
            if loss.reads_scores and not config.pairs.one_scale:
                yield (
                    f"loss: '{loss.kind}' as it is set learns from the size of scores, and "
                    f"pairs: {config.pairs.kind} brings gradings, whose strengths are no scores of "
                    "answers; take a loss that reads none, such as dpo or ipo"
                )
    yield from faults_of_ages(config)


def faults_of_ages(config: RunConfig) -> Iterator[str]:
    """Faults that the loss finds in the generations at which its learners end."""
    if config.turns.by_rewards:
        return
    last = expected_generations(config.turns, config.learning, config.generations)[-1]
    for learner in last.learners:
        trainer = config.learner_of(learner.name)
        loss = config.loss_of(learner.name)
        if loss is not None and trainer.by_loss and trainer.needs in ("pairs", "game"):
            for fault in loss.faults_of_age(learner.generation):
                yield f"generations: {fault} (players.{learner.name})"


def answers_alike(config: RunConfig, name: str) -> bool:
    """True where all answers of a match are the learner's own, at temperature 0."""
    alone = isinstance(config.schedule, SelfPlay) and isinstance(config.game, Answers)
    return alone and getattr(config.players[name], "temperature", None) == 0


def faults_of_named_sets(config: RunConfig) -> Iterator[str]:
    try:
        measured = [PlayerId(name) for name in config.measured]
        check_sets(config.players, config.evaluate.sets, measured)
    except UserError as error:
        for line in str(error).splitlines():
            yield f"evaluate.sets.{line}"


# -- the prompts


def faults_with_prompts(config: RunConfig, split: PromptSplit) -> Iterator[str]:
    """Faults that the game, the schedule and the pairs find in the prompts."""
    for part, prompts in parts_of_split(split).items():
        for fault in config.game.faults(prompts):
            yield f"prompts: {fault} ({part})"
    learners = [PlayerId(name) for name in config.learning]
    others = [PlayerId(name) for name in config.players if name not in config.learning]
    context = MatchContext(
        config.game,
        [*learners, *others],
        seed=seeds.child(config.seed, "seats", 0),
        learners=learners,
    )
    try:
        for part in split.parts[:1]:
            config.schedule.seatings(part, context)
    except UserError as error:
        yield str(error)
    if type(config.pairs).why_no_pair is PairMaker.why_no_pair:  # asks nothing of prompts
        return
    for t, prompts in enumerate(split.parts):
        yield from faults_of_single(config, prompts, t)
        why = [config.pairs.why_no_pair(prompt, t) for prompt in prompts]
        if prompts and all(why):
            reasons = "; ".join(sorted(set(why)))
            yield (
                f"pairs: '{config.pairs.kind}' finds no pair in any prompt of generation "
                f"{t}: {reasons}"
            )
            return


def faults_of_single(config: RunConfig, prompts: Sequence[Prompt], t: int) -> Iterator[str]:
    """A loss of pairs in a generation whose rows are answers alone, with labels."""
    by_pairs = [name for name in config.learning if config.learner_of(name).needs == "pairs"]
    losses = [config.loss_at(name, t) for name in by_pairs]
    needing_both = [loss for loss in losses if loss is not None and not loss.reads_single]
    if not needing_both or config.plays(t):
        return
    pairs, _ = config.pairs.data_pairs(prompts, t)
    if pairs and all(pair.only for pair in pairs):
        yield (
            f"pairs: '{config.pairs.kind}' finds {len(pairs):,} single answers with a label and no "
            f"pair in generation {t}, and loss '{needing_both[0].kind}' learns pairs; "
            "set loss: kto, which learns single answers, or give each prompt a wanted and an "
            "unwanted answer"
        )


def faults_of_room(config: RunConfig, split: PromptSplit, faults: Sequence[str]) -> Iterator[str]:
    """The learners, and endpoints, that cannot read some prompts; asked where they are there."""
    for part, prompts in () if faults else parts_of_split(split).items():
        # Of those with a text, others than `stop` have made something of the long ones already.
        read = [p for p in prompts if config.too_long == "stop" or not p.messages]
        questions = [config.game.first_question(prompt) for prompt in read]
        for name in config.learning:
            for fault in config.players[name].faults_of_prompts(questions):
                yield f"players.{name}: {fault} ({part})"
        every = [config.game.first_question(prompt) for prompt in prompts]
        for name, player in config.players.items():
            if isinstance(player, Endpoint):
                for fault in player.faults_of_prompts(every):
                    yield f"players.{name}: {fault} ({part})"


def check_judged(config: RunConfig, split: PromptSplit) -> tuple[list[str], list[str]]:
    """(faults, notes) about prompts no answer to which can be judged."""
    faults: list[str] = []
    notes: list[str] = []
    played = [t for t in range(len(split.parts)) if config.plays(t)]
    every = len(played) == len(split.parts)
    training = {"training": split.training if every else split.of_generations(played)}
    measuring = {"held-out": split.held_out, "test": split.test}
    for place, judge in training_judges(config).items():
        judge_prompts(config, place, judge, training, faults, notes)
    for place, judge in measuring_judges(config).items():
        judge_prompts(config, place, judge, measuring, faults, notes)
    return faults, notes


def faults_by_trial(config: RunConfig, split: PromptSplit) -> Iterator[str]:
    prompts = list(chain.from_iterable(parts_of_split(split).values()))
    for place, judge in {**training_judges(config), **measuring_judges(config)}.items():
        for fault in judge.faults_of_prompts(prompts):
            yield f"{place}: {fault}"


def judge_prompts(
    config: RunConfig,
    place: str,
    judge: Judge,
    parts: Mapping[str, Sequence[Prompt]],
    faults: list[str],
    notes: list[str],
) -> None:
    """Add what the judge says of these parts of the prompts."""
    for part, prompts in parts.items():
        why = [judge.why_unjudgeable(prompt) for prompt in prompts]
        reasons = Counter(reason for reason in why if reason)
        count = reasons.total()
        if not count:
            continue
        common = "; ".join(reason for reason, _ in reasons.most_common(2))
        message = (
            f"{place}: '{judge.kind}' can judge no answer to {count:,} of "
            f"{len(prompts):,} {part} prompts: {common}"
        )
        if count / len(prompts) > config.max_unjudged:
            faults.append(
                f"{message}. That is more than max_unjudged = "
                f"{config.max_unjudged:.0%}; name another judge, such as -s judge=…, "
                "or give prompts that carry what it reads"
            )
        else:
            notes.append(f"{message}; they are played and left out")


DROPPED = {  # reason of a split -> its words
    "empty": "empty",
    "duplicate": "repeated",
    "in_held_out": "also among the held-out ones",
    "in_test": "also in the test",
    "held_out_in_test": "held out, but also in the test",
    "too_long": "too long to leave room for an answer (raise max_length, or set too_long)",
}


def notes_on_rows(config: RunConfig, split: PromptSplit) -> Iterator[str]:
    """Notes on rows that are left out, repeats and overlaps that are kept, and prompts cut."""
    if split.dropped:
        yield f"prompts: rows that are left out: {counted_reasons(split.dropped)}"
    if split.kept:
        note = f"prompts: rows that are kept (prompts.repeats): {counted_reasons(split.kept)}"
        if split.kept.keys() & {"in_held_out", "in_test"}:
            note += "; scores on the held-out part or the test are in part of what was trained on"
        yield note
    if config.too_long == "cut_prompt":
        prompts = [*split.training, *split.held_out, *split.test]
        count = len(too_long(players_that_read(config), prompts))
        if count:
            yield f"prompts: {count:,} lose their first tokens (too_long: cut_prompt)"


def counted_reasons(counts: Mapping[str, int]) -> str:
    """The reasons in words, each with its number of rows."""
    return ", ".join(f"{count:,} {DROPPED.get(why, why)}" for why, count in counts.items())


def parts_of_split(split: PromptSplit) -> dict[str, Sequence[Prompt]]:
    """The parts of the prompts that have any, by name."""
    parts = {"training": split.training, "held-out": split.held_out, "test": split.test}
    return {name: prompts for name, prompts in parts.items() if prompts}
