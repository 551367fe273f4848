"""START HERE: one generation of the game, and the league that generations make.

Prompts are dealt, players meet, judges score, the scores become ratings and training examples, the
players whose turn it is come out one generation older, and the new generation is measured. Each
step is a stage of the run: done once, recorded, and skipped when the run is resumed.
"""

from __future__ import annotations

from equipoise.runs.stages import RunStages


def generation(run: RunStages, t: int) -> None:
    """Generation t plays and learns; what comes of it is measured."""
    prompts = run.deal(t)
    matches = run.play(prompts, t)
    judgements = run.rate(matches, run.judge(matches, t), t)
    examples = {who: run.examples(matches, judgements, who, t) for who in run.turn(t)}
    run.learn(examples, t)
    run.measure(t + 1)


def league(run: RunStages, generations: int) -> None:
    """All generations, from the players as they were given."""
    run.measure(0)
    for t in range(generations):
        generation(run, t)
    run.select(generations)
