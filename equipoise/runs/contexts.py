"""The facts of a generation that judges and schedules are given."""

from equipoise import seeds
from equipoise.evaluation.measures import Measures
from equipoise.judges.base import JudgeContext
from equipoise.matches.base import MatchContext
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId


def judge_context(run: OpenRun, t: int) -> JudgeContext:
    """Everything that the judges of generation t may know and ask."""
    return JudgeContext(
        game=run.config.game,
        seed=seeds.child(run.config.seed, "bench", t),
        pool=run.roster.players(t),
        ratings=training_ratings(run, t),
        resources=run.population.resources,
        actor=run.population.actor,
        act=run.dispatcher.act,
        read_words=run.dispatcher.read_words,
    )


def match_context(run: OpenRun, t: int) -> MatchContext:
    """Everything that the schedule may know in generation t."""
    config = run.config
    roster = run.roster
    learners = roster.learners(t)
    facts = run.ledger.stage_facts(f"{roster.last_measured(t)}/measure")
    measures = Measures.read(facts) if facts else None
    remembers = config.schedule.replays_texts
    history = []
    for learner in learners:
        # Earlier generations that can play: of a learner in memory only the measured ones are left.
        if config.learner_of(learner.name).needs == "episodes":
            history += roster.measured(learner)[1:]
        else:
            history += roster.past(learner)[1:]
    return MatchContext(
        game=config.game,
        players=roster.players(t),
        history=history,
        seed=seeds.child(config.seed, "seats", t),
        ratings=training_ratings(run, t),
        mixture={} if measures is None else _mixture(measures),
        win_rate={} if measures is None else win_rates(measures),
        learners=learners,
        successful_texts=run.earlier_texts.successful_texts(t) if remembers else (),
        turn=[player.name for player in roster.turn(t)],
    )


def training_ratings(run: OpenRun, t: int) -> dict[str, float]:
    """Ratings before generation t's matches, by name; empty where all start alike."""
    if t == 0:
        return run.config.training_ratings.initial_ratings(list(run.config.players))
    rated = run.ledger.stage_facts(f"{t - 1}/rate")
    if rated is None:
        return {}
    return {rating["name"]: rating["value"] for rating in rated["ratings"]}


def _mixture(measures: Measures) -> dict[PlayerId, float]:
    """The equilibrium of one league, or of each role's, whose players have different names."""
    weights = dict(measures.mixture)
    for mixture in measures.role_mixtures.values():
        weights |= mixture
    return {PlayerId.parse(name): weight for name, weight in weights.items()}


def win_rates(measures: Measures) -> dict[tuple[PlayerId, PlayerId], float]:
    """(first, second) -> P(first beats second), from pay-offs in [−1, 1]."""
    players = [PlayerId.parse(name) for name in measures.players]
    rates = {}
    # A game with roles has players without a pay-off table.
    for first, row in zip(players, measures.payoff, strict=False):
        for second, payoff in zip(players, row, strict=True):
            rates[first, second] = (1 + payoff) / 2
    return rates
