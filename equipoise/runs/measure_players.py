"""The stages that measure: each generation when it is due, and the best of all at the end."""

from equipoise.evaluation.measures import Measures
from equipoise.runs.arena import RunArena
from equipoise.runs.choosing import chooses, recorded_criterion
from equipoise.runs.named_sets.measure_set import measure_set
from equipoise.runs.open_run import OpenRun


def measure(run: OpenRun, t: int) -> None:
    """Measure how strong generation t is and what can still beat it, where that is due."""
    if not run.roster.due(t):
        return
    config = run.config
    ledger = run.ledger
    learners = run.roster.learners(t)
    key = f"{t}/measure"
    run.live.begin(learners)
    if not ledger.has_finished(key):
        with run.stage("measure", key, t) as facts:
            run.live.save(learners)
            measured = learners or run.roster.others()
            arena = run.service(RunArena)
            added = {
                part.name: part.recorded(arena, t, part.sample_count(config.evaluate))
                for part in config.measures
            }
            measures = config.evaluate.measure(arena, t).with_added(added)
            items = {name: named_set.items() for name, named_set in config.evaluate.sets.items()}
            for name, named_set in config.evaluate.sets.items():
                for player in measured:
                    measure_set(run, name, named_set, items[name], player)
            facts.update(measures.facts({player.name: player.generation for player in measured}))
            run.directory.metric(key, generation=t, **measures.numbers())
            for observer in run.observers:
                observer.measured(measures, t)
        if any(config.learner_of(player.name).needs == "episodes" for player in learners):
            run.population.release()  # past generations that met; fine-tuning releases them itself
    if not ledger.has_finished(f"{t}/turn"):  # else they were written before it
        for observer in run.observers:
            observer.saved(learners)
    recorded = Measures.read(ledger.stage_facts(key) or {})
    run.monitor.numbers(**recorded.watched())


def select(run: OpenRun, t: int) -> None:
    """Choose the best player up to t, and test it once on the prompts set aside for it."""
    evaluation = run.config.evaluate
    if not chooses(run):
        return
    if not run.ledger.has_finished("select"):
        with run.stage("select", "select", t) as facts:
            criterion = recorded_criterion(run)
            facts.update(evaluation.select(run.service(RunArena), t, criterion).facts())
