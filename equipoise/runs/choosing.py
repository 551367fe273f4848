"""The criterion by which a run's best player is chosen from what has been measured so far."""

from equipoise.evaluation.last_test import Criterion
from equipoise.evaluation.measures import Measures
from equipoise.runs.named_sets.results import set_criterion
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId


def chooses(run: OpenRun) -> bool:
    """True if a player is chosen at the end."""
    evaluation = run.config.evaluate
    by_rule = evaluation.select_by is not None or evaluation.chooses
    return by_rule or run.config.prompts.test > 0


def recorded_criterion(run: OpenRun) -> Criterion | None:
    """The scores by which the run chooses; None: held-out scores, which it plays for."""
    evaluation = run.config.evaluate
    if evaluation.select_by is not None:
        return set_criterion(
            run.ledger, evaluation.select_by, evaluation.sets[evaluation.select_by]
        )
    if evaluation.chooses:
        kind = evaluation.measures_in(run.config.game)
        stages = run.ledger.stages("measure")
        return evaluation.criterion([kind.read(stage.facts) for stage in stages])
    return None


def best_so_far(run: OpenRun) -> set[PlayerId]:
    """The player that would be chosen now, whose weights are needed later; none where nobody is."""
    if not chooses(run):
        return set()
    criterion = recorded_criterion(run)
    if criterion is not None:
        return {criterion.chosen} if criterion.scores else set()
    scores: dict[str, float] = {}
    for stage in run.ledger.stages("measure"):
        for name, score in Measures.read(stage.facts).scores.items():
            if score.mean is not None:
                scores[name] = score.mean
    return {PlayerId.parse(max(scores, key=scores.__getitem__))} if scores else set()
