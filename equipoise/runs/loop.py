"""START HERE: one generation of the game, and the league that generations make.

Prompts are dealt, players meet, judges score, the scores become ratings and training examples, the
players whose turn it is come out one generation older, and the new generation is measured. Each
step is a stage of the run: done once, recorded, and skipped when the run is resumed.
"""

from equipoise.runs.judge_matches import judge
from equipoise.runs.make_examples import make_examples
from equipoise.runs.measure_players import measure, select
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import play
from equipoise.runs.rate_players import rate
from equipoise.runs.train_learners import learn


def generation(run: OpenRun, t: int) -> None:
    """Play generation t, learn from it, and measure the players that come of it."""
    prompts = run.prompts.train(t)
    matches = play(run, prompts, t)
    judgements = rate(run, matches, judge(run, matches, t), t)
    examples = {
        learner: make_examples(run, matches, judgements, learner, t)
        for learner in run.roster.turn(t)
    }
    learn(run, examples, t)
    measure(run, t + 1)


def league(run: OpenRun, generations: int) -> None:
    """Play all generations, from the players as they were given."""
    measure(run, 0)
    for t in range(generations):
        generation(run, t)
    select(run, generations)
