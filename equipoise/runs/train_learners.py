"""The stage that learns: from each learner's examples to its next generation."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise import seeds
from equipoise.data.joined_pairs import joined_opponent_logprobs, joined_pair
from equipoise.data.opponent_logprobs import opponent_logprobs
from equipoise.learners.base import Learner, OtherPlayer, TrainingBatch
from equipoise.learners.fine_tuning import FineTuning
from equipoise.models.chat_encoding import Encoding
from equipoise.players.base import TokenScorer
from equipoise.players.local import Local
from equipoise.runs.choosing import best_so_far
from equipoise.runs.contexts import match_context
from equipoise.runs.executors.dispatcher import RemoteTraining
from equipoise.runs.monitor import within
from equipoise.runs.open_run import OpenRun
from equipoise.sampling.arrival_check import compare, has_probes
from equipoise.system.files import disk_errors, faults, read_json
from equipoise.types import Episode, Pair, PlayerId

Opponents = list[tuple[PlayerId, float]]  # with their weights in the loss
Log = Callable[[dict[str, Any]], None]

FACTS = "training.json"  # what sums a training up, beside the weights
LOG = "training_log.json"  # its lines of metrics, until the stage is recorded with them


class Started(NamedTuple):
    """A training that a worker was given, and the seconds that beginning it took."""

    batch: TrainingBatch
    training: RemoteTraining
    seconds: float


def learn(
    run: OpenRun, examples: Mapping[PlayerId, Sequence[Pair | Episode]], t: int
) -> list[PlayerId]:
    """Train each learner on its examples into its next generation, on workers if it can."""
    started: dict[PlayerId, Started] = {}
    for learner, of_learner in examples.items():
        trainer = run.config.learner_at(learner.name, t)
        is_done = run.ledger.has_finished(stage_key(learner, t))
        is_written = run.population.home(next_generation(learner)).is_dir()
        if not is_done and not is_written and run.dispatcher.trains(trainer):
            begun = time.perf_counter()
            batch = training_batch(run, list(of_learner), learner, t, log=ignore)
            training = run.dispatcher.learn(trainer, batch)
            started[learner] = Started(batch, training, time.perf_counter() - begun)
    return [
        train(run, of_learner, learner, t, started.get(learner))
        for learner, of_learner in examples.items()
    ]


def train(
    run: OpenRun,
    examples: Sequence[Pair | Episode],
    learner: PlayerId,
    t: int,
    started: Started | None = None,
) -> PlayerId:
    """Train `learner` into its next generation; its weights appear complete or not at all."""
    new_checkpoint = next_generation(learner)
    key = stage_key(learner, t)
    trainer = run.config.learner_of(learner.name)
    if new_checkpoint == run.newest_at_start.get(learner.name, new_checkpoint):
        set_aside_if_damaged(run, new_checkpoint)
    if run.ledger.has_finished(key):
        train_again_if_lost(run, examples, learner, t)
    else:
        with run.stage("learn", key, t, started.seconds if started else 0.0) as facts:
            if trainer.needs == "episodes":
                run.show("learn", None, t, learner.name)
                facts.update(run.live.update(new_checkpoint, logger(run, key, learner.name)))
                run.live.save_state_when_due(learner.name)
            else:
                home = run.population.home(new_checkpoint)
                if home.is_dir():  # a run that was killed had written it, and its lines beside it
                    with run.directory.files.inner("players", learner.name) as generations:
                        generations.remove(scratch(home).name)
                    for line in read_json(home / LOG):
                        run.directory.metric(key, **line)
                else:
                    log = logger(run, key, learner.name)
                    _write_weights(run, examples, learner, t, log, started)
                facts.update(read_json(home / FACTS))
                facts.update(_hand_over(run, learner, new_checkpoint, t))
            run.ledger.add_player(new_checkpoint, init_from(run, learner, t), trainer.kind, facts)
            for observer in run.observers:
                observer.saved([new_checkpoint])
    run.live.drop_old_states(learner.name)
    if run.config.keep != "all":
        run.population.forget(learner.name, run.config.keep, best_so_far(run))
    return new_checkpoint


def next_generation(learner: PlayerId) -> PlayerId:
    return PlayerId(learner.name, learner.generation + 1)


def stage_key(learner: PlayerId, t: int) -> str:
    return f"{t}/learn/{learner.name}"


def logger(run: OpenRun, key: str, name: str) -> Log:
    """Takes a learner's lines of metrics to the run, its monitor and its observers."""

    def log(line: dict[str, Any]) -> None:
        run.directory.metric(key, **line)
        for observer in run.observers:
            observer.trained(name, key, line)
        run.monitor.advance(int(line.get("steps", 0)))
        shown = ("loss", "kl", "tokens_per_second")
        run.monitor.numbers(**{n: line[n] for n in shown if n in line})

    return log


def ignore(line: dict[str, Any]) -> None:
    """Drop lines of metrics that are kept elsewhere."""


# -- weights that a damaged disk took


def set_aside_if_damaged(run: OpenRun, player: PlayerId) -> None:
    """Keep weights that are not what was written under another name."""
    weights = run.population.home(player)
    if weights.is_dir() and (damaged := faults(weights)):
        with run.directory.files.inner("players", player.name) as generations:
            aside = generations.set_aside(weights.name)
        run.monitor.numbers(set_aside=f"{damaged[0]}; it is {aside.name} now")


def train_again_if_lost(run: OpenRun, examples: Sequence[Any], learner: PlayerId, t: int) -> None:
    """Make the weights that were set aside again, from the ledger; its records stay as they are."""
    new_checkpoint = next_generation(learner)
    weights = run.population.home(new_checkpoint)
    aside = weights.with_name(f"damaged-{weights.name}")
    newest = run.newest_at_start.get(learner.name, new_checkpoint).generation
    keep = run.config.keep
    is_kept = keep == "all" or new_checkpoint.generation > newest - keep
    if weights.is_dir() or not aside.is_dir() or not is_kept:
        return
    if run.config.learner_of(learner.name).needs == "episodes":
        run.live.save([new_checkpoint])
    else:
        _write_weights(run, examples, learner, t, log=ignore)
    for observer in run.observers:
        observer.saved([new_checkpoint])


# -- training from weights on disk


def _write_weights(
    run: OpenRun,
    examples: Sequence[Any],
    learner: PlayerId,
    t: int,
    log: Log,
    started: Started | None = None,
) -> None:
    """Train the learner, and put its next generation into its place, whole."""
    home = run.population.home(next_generation(learner))
    lines: list[dict[str, Any]] = []

    def keep(line: dict[str, Any]) -> None:
        lines.append(line)
        log(line)

    trainer = run.config.learner_at(learner.name, t)
    if started is not None:
        batch = started.batch
        run.show("learn", trainer.steps(len(examples)), t, learner.name)
        with disk_errors(home):
            facts = started.training.result(keep)
    else:
        batch = training_batch(run, list(examples), learner, t, keep)
        steps = trainer.steps(len(examples))
        run.show("learn", steps, t, learner.name)
        release(run, trainer, learner.name)
        with within(run.monitor, steps, steps), disk_errors(home):
            facts = trainer.learn(batch)
    with disk_errors(home):
        (batch.output / FACTS).write_text(json.dumps(facts))
        (batch.output / LOG).write_text(json.dumps(lines))
        with run.directory.files.inner("players", learner.name) as generations:
            generations.publish(batch.output.name, home.name)
            generations.remove(batch.scratch.name)


def release(run: OpenRun, trainer: Learner, name: str) -> None:
    """Free the memory of all that the trainer of this player does not share."""
    shared = trainer.shared_key(run.config.players[name])
    run.population.release(() if shared is None else (shared,))


def _hand_over(run: OpenRun, learner: PlayerId, new_checkpoint: PlayerId, t: int) -> dict[str, Any]:
    """Compare the player that will play with what was trained, or say why `not_compared`.

    Nothing for a learner of a finite game, whose player reads the very policy that it wrote. Raises
    ConfigError where the two are too far apart.
    """
    home = run.population.home(new_checkpoint)
    trainer = run.config.learner_at(learner.name, t)
    if trainer.needs == "game":
        return {}
    if not isinstance(trainer, FineTuning) or not has_probes(home):
        return not_compared(run, new_checkpoint, t, f"the learner '{trainer.kind}' wrote no probes")
    before, after = map(run.population.actor, (init_from(run, learner, t), new_checkpoint))
    if not (isinstance(before, TokenScorer) and isinstance(after, TokenScorer)):
        kind = run.config.players[learner.name].kind
        reason = f"a '{kind}' player gives no log-probabilities of token ids"
        return not_compared(run, new_checkpoint, t, reason)
    hand_over = compare(home, before, after)
    # two generations of whole weights are one too many
    release(run, trainer, learner.name)
    most = trainer.resolve_auto(run.config.players[learner.name]).max_disagreement
    assert most is not None, "decided for a player"
    hand_over.check(new_checkpoint, most)
    facts = hand_over.facts()
    if "below_precision" in facts:
        message = f"{new_checkpoint}: {facts['below_precision']}"
        run.monitor.numbers(below_precision=message)
    return facts


def not_compared(run: OpenRun, new_checkpoint: PlayerId, t: int, reason: str) -> dict[str, Any]:
    """Note that nobody knows whether this player plays what was trained."""
    facts = {"not_compared": f"{new_checkpoint} plays uncompared with its learner: {reason}"}
    run.directory.metric(f"{t}/learn/{new_checkpoint.name}", **facts)
    run.monitor.numbers(**facts)
    return facts


# -- the training batch


def training_batch(
    run: OpenRun, pairs: Sequence[Any], learner: PlayerId, t: int, log: Log
) -> TrainingBatch:
    config = run.config
    population = run.population
    home = population.home(next_generation(learner))
    opponents = _opponents(run, learner, t)
    chosen_KB, rejected_KB = _opponent_logprobs(run, learner, opponents, pairs, t)
    with run.directory.files.inner("players", learner.name, make=True) as generations:
        draft = home.with_name(generations.begin_draft(home.name))
    past_weights = [
        population.home(old) if old.generation else None for old in run.roster.past(learner)
    ]
    return TrainingBatch(
        learner=learner,
        player=config.players[learner.name],
        weights=population.weights(init_from(run, learner, t)),
        output=draft,
        scratch=scratch(home),
        seed=seeds.child(config.seed, "learn", learner),
        game=config.game,
        loss=config.loss_at(learner.name, t),
        pairs=list(pairs),
        opponents=opponents,
        opponent_chosen_KB=chosen_KB,
        opponent_rejected_KB=rejected_KB,
        other_players=other_players(run, learner, t),
        player_of_role=dict(config.schedule.player_of_role),
        mixture_of_role=role_mixtures(run, learner, t),
        past_weights=past_weights,
        resources=population.resources,
        standing=run.standing,
        log=log,
    )


def init_from(run: OpenRun, learner: PlayerId, t: int) -> PlayerId:
    """The learner's generation whose weights it is trained from: most often the newest."""
    loss = run.config.loss_at(learner.name, t)
    if loss is None or run.config.learner_of(learner.name).needs != "pairs":
        return learner
    return loss.init_from(run.roster.opponent_pool(learner, t))


def scratch(home: Path) -> Path:
    """The folder in which the training of the weights at `home` keeps its checkpoints."""
    return home.with_name(f".{home.name}.scratch")


def _opponents(run: OpenRun, learner: PlayerId, t: int) -> Opponents:
    """The players that the loss sets against the learner."""
    loss = run.config.loss_at(learner.name, t)
    if loss is None or run.config.learner_of(learner.name).needs == "answers":
        return []
    return loss.opponents(run.roster.opponent_pool(learner, t))


def _opponent_logprobs(
    run: OpenRun, learner: PlayerId, opponents: Opponents, pairs: Sequence[Pair], t: int
) -> tuple[np.ndarray, np.ndarray]:
    """Opponents' log-probability sums of both answers, nats, [K, B]; zeros if not needed."""
    needs = run.config.learner_of(learner.name).needs
    if needs != "pairs" or not opponents:
        zeros_KB = np.zeros((len(opponents), len(pairs)))
        return zeros_KB, zeros_KB
    total = 2 * len(pairs) * len(opponents)
    run.show("opponents' log-probabilities", total, learner.generation, learner.name)
    pair_text = run.config.learner_of(learner.name).joined_pairs()
    players = [player for player, _ in opponents]
    if pair_text is not None:

        def encoding_of(player: PlayerId) -> Encoding:
            settings = run.config.playing[player.name]
            assert isinstance(settings, Local), "it gives log-probabilities of token ids"
            return settings.shared_encoding(run.resources)

        own_tokens = None
        if getattr(run.config.loss_at(learner.name, t), "length", "sum") == "mean":
            own_encoding, reading = encoding_of(learner), pair_text.learners_reading()
            read = [joined_pair(own_encoding, pair, reading) for pair in pairs]
            own_tokens = [(len(each.chosen), len(each.rejected)) for each in read]
        with within(run.monitor, total, total):
            return joined_opponent_logprobs(
                run.ledger,
                run.population.actor,
                encoding_of,
                players,
                pairs,
                pair_text.opponents_reading(),
                own_tokens,
                run.monitor.advance,
            )
    with within(run.monitor, total, total):
        return opponent_logprobs(
            run.ledger, run.population.actor, learner, players, pairs, run.monitor.advance
        )


def other_players(run: OpenRun, learner: PlayerId, t: int) -> dict[str, OtherPlayer]:
    """The other players at the start of generation t, for learners from the game itself."""
    if run.config.learner_of(learner.name).needs != "game":
        return {}
    return {
        other.name: other_player(run, other)
        for other in run.roster.players(t)
        if other.name != learner.name
    }


def role_mixtures(
    run: OpenRun, learner: PlayerId, t: int
) -> dict[str, list[tuple[OtherPlayer, float]]]:
    """role -> players in the schedule's mixture there, with their weights."""
    if run.config.learner_of(learner.name).needs != "game":
        return {}
    opponents = run.config.schedule.opponents(learner, match_context(run, t))
    return {
        role: [(other_player(run, player), weight) for player, weight in mixture]
        for role, mixture in opponents.items()
    }


def other_player(run: OpenRun, player: PlayerId) -> OtherPlayer:
    return OtherPlayer(run.config.players[player.name], run.population.weights(player))
