"""The league on held-out prompts, by hand: whose answers are scored, who is compared with whom, and
which way round.
"""

from types import SimpleNamespace

import pytest
from recorded_run import planned_and_played

from equipoise.errors import ConfigError
from equipoise.evaluation.held_out_measures import HeldOut
from equipoise.evaluation.last_test import Criterion
from equipoise.evaluation.league_measures import (
    LeagueMeasures,
    best_of,
    mean_of,
    mean_score,
    meetings,
)
from equipoise.evaluation.measures import History, Measurement, changes_told
from equipoise.games.answers import Answers
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval, over_seeds
from equipoise.payoffs.table import Meeting
from equipoise.planning.new_run import new_run
from equipoise.ratings.nash_average import NashAverage
from equipoise.runs import recipe_loader
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.solvers.zero_sum import ZeroSum
from equipoise.types import PlayerId

PROMPTS = ["p0", "p1", "p2", "p3"]


def player(name, generation):
    return PlayerId(name, generation)


class Table:
    """An arena of players whose scores are given, by name the oldest first; a score is that of each
    answer to each prompt, raised by the prompt's number.
    """

    game, utility = Answers(), "score"
    solver, ratings = ZeroSum(), NashAverage(resamples=40)

    def __init__(self, compares=False, test=(), **levels):
        self.judge = SimpleNamespace(compares=compares, name="judge", kind="judge")
        self.levels, self.test = levels, test

    def judge_of(self, learner):
        return self.judge

    def learners(self, t):
        return [PlayerId(name, t) for name in self.levels]

    def others(self):
        return []

    def opponent_weights(self, learner, t):
        return {}

    def past(self, learner):
        return [PlayerId(learner.name, g) for g in range(learner.generation, -1, -1)]

    def scores(self, learner, samples, judge, part="held_out"):
        level = self.levels[learner.name][learner.generation]
        shift = 100 if part == "test" else 0
        return {p: [level + n + shift] * samples for n, p in enumerate(PROMPTS)}

    def meetings(self, first, second, samples, judge):
        """Who stands higher wins every meeting; on the last prompt both are equal."""
        a, b = (self.levels[p.name][p.generation] for p in (first, second))
        won = float((a > b) - (a < b))
        values = [won] * (len(PROMPTS) - 1) + [0.0]
        pairs = zip(PROMPTS, values, strict=True)
        return [Meeting(str(first), str(second), value, p) for p, value in pairs]


def test_the_league_is_every_generation_and_scores_are_the_newests():
    measured = HeldOut(samples=2).measure(Table(policy=[1.0, 5.0, 3.0]), 2)
    assert measured.players == ["policy@0", "policy@1", "policy@2"]
    score = measured.scores["policy@2"]
    # Four prompts of two equal answers each are four values, not eight.
    expected = over_seeds([3.0, 4.0, 5.0, 6.0])
    assert (score.mean, score.n) == (expected.mean, 8)
    assert (score.low, score.high) == pytest.approx((expected.low, expected.high))


def test_a_win_rate_is_over_the_start():
    """Generation 2 is above the start and below generation 1."""
    rates = HeldOut().measure(Table(policy=[1.0, 5.0, 3.0]), 2).win_rates
    assert rates["policy@2"].mean > 0.7  # it beats the start, not what came before it


def test_the_win_rate_of_a_judge_that_compares_is_the_learners():
    """Of four prompts it wins three, and the fourth is a tie."""
    rates = HeldOut().measure(Table(True, policy=[1.0, 5.0, 3.0]), 2).win_rates
    assert rates["policy@2"].mean == pytest.approx(3.5 / 4)
    worse = HeldOut().measure(Table(True, policy=[5.0, 1.0]), 1).win_rates
    assert worse["policy@1"].mean == pytest.approx(0.5 / 4)
    for rate in (rates["policy@2"], worse["policy@1"]):
        assert 0 <= rate.low < rate.mean < rate.high <= 1


def test_a_payoff_of_the_league_stays_within_what_can_be_won():
    measured = HeldOut().measure(Table(True, policy=[1.0, 5.0]), 1)
    gets = measured.gets("policy@1", "policy@0")
    assert gets is not None
    assert gets.mean == 0.75
    assert -1 <= gets.low < 0.75 < gets.high <= 1


def test_a_gap_is_each_learners_own_and_exploitability_the_largest():
    """Nobody stands above `strong`; everybody but its own start above `weak`."""
    arena = Table(True, weak=[0.0, 1.0], strong=[8.0, 9.0])
    measured = HeldOut().measure(arena, 1)
    assert measured.gap == pytest.approx({"weak@1": 0.75, "strong@1": 0.0})
    assert measured.exploitability == pytest.approx(0.75)


def test_the_chosen_is_tested_once_beside_the_best_start():
    arena = Table(test=["something"], policy=[1.0, 9.0, 3.0])
    record = HeldOut().select(arena, 2)
    assert (record.chosen, record.start) == ("policy@1", "policy@0")
    assert record.test["policy@1"].mean == pytest.approx(9 + 1.5 + 100)
    assert record.win_rate is not None
    assert record.win_rate.mean == 1.0


@pytest.mark.parametrize("test", [(), ["something"]], ids=["no test", "a test"])
@pytest.mark.parametrize("given", [False, True], ids=["held out", "a criterion"])
def test_a_judge_that_only_compares_scores_nobody_for_a_choice(test, given):
    """A criterion of the caller's needs no score, a test does."""
    arena = Table(compares=True, test=test, policy=[1.0, 9.0, 3.0])
    scores = {PlayerId("policy", t): mean_score({"p0": [float(t)]}) for t in range(2)}
    criterion = Criterion(scores, "a set") if given else None
    if given and not test:
        assert HeldOut().select(arena, 2, criterion).chosen == "policy@1"
    else:
        with pytest.raises(ConfigError, match="judge 'judge' only compares"):
            HeldOut().select(arena, 2, criterion)


def test_meetings_are_seen_from_the_first_and_leave_out_what_is_unjudged():
    first, second = {"a": [3.0, None], "b": [1.0]}, {"a": [1.0, 3.0], "b": [2.0]}
    assert meetings(first, second) == ([1.0, 0.0, -1.0], ["a", "a", "b"])


def test_unjudged_answers_are_no_zeros():
    assert mean_score({"a": [1.0, None], "b": [0.5], "c": [None]}).mean == 0.75


def test_of_several_players():
    known = {name: Estimate.of(Interval(m, m, m, 3)) for name, m in (("a", 1), ("b", 2))}
    unknown = Estimate.of(Interval(float("nan"), float("nan"), float("nan"), 0))
    assert (mean_of(known), best_of(known)) == (1.5, 2)
    assert mean_of({**known, "c": unknown}) is None
    assert mean_of({}) is None
    assert best_of({**known, "c": unknown}) == 2
    assert best_of({}) is None


def learned(**measures) -> LeagueMeasures:
    bare: dict = {name: {} for name in ("judges", "scores", "win_rates", "gap", "mixture")}
    bare |= {name: [] for name in ("players", "payoff", "se", "count", "ratings")}
    bare |= dict.fromkeys(("exploitability", "cycle_share", "cyclic_triples"), 0.0)
    return LeagueMeasures(**bare | measures)


def compared(before: float, after: float, won: float, half: float = 0.05) -> list[bool]:
    """Whether the changes of a score and of a win rate are told from none."""

    def estimate(mean: float) -> Estimate:
        return Estimate(mean, mean - half, mean + half, 100)

    start = learned(
        ages={"a": 0}, players=["a@0"], payoff=[[0.0]], scores={"a@0": estimate(before)}
    )
    end = learned(
        ages={"a": 1},
        players=["a@1"],
        payoff=[[0.0]],
        scores={"a@1": estimate(after)},
        win_rates={"a@1": estimate(won)},
    )
    history = History(("a",), (Measurement(0, start), Measurement(1, end)), Answers(samples=1))
    return changes_told(history, LeagueMeasures.quantities)


def test_a_change_is_told_where_its_interval_leaves_out_zero():
    assert compared(0.5, 0.5, 0.5) == [False, False]
    # the intervals of both meet, that of their difference leaves out 0
    assert compared(0.5, 0.58, 0.54) == [True, False]
    assert compared(0.5, 0.45, 0.44) == [False, True]


def test_equal_headlines_of_exploitability_and_deviation_are_one():
    gain = Estimate(0.1, 0.0, 0.2, 8)
    other = Estimate(0.3, 0.2, 0.4, 8)

    def labels(deviation: Estimate) -> list[str]:
        measures = learned(
            ages={"a": 1},
            players=["a@0"],
            payoff=[[0.0]],
            gap={"a@1": 0.1},
            best_reply_gains={"a@1": gain},
            deviation_gains={"a@1": deviation},
        )
        history = History(("a",), (Measurement(1, measures),), Answers(samples=1))
        lines = list(LeagueMeasures.headlines(history))
        assert ("the best deviation is the same" in lines[0].note) == (len(lines) == 1)
        return [line.label for line in lines]

    assert labels(gain) == ["exploitability of a@1"]
    assert labels(other) == ["exploitability of a@1", "best deviation of a@1"]


def test_who_is_compared_is_compared_answer_by_answer(tmp_path):
    """By a judge that prefers the longer answer: the i-th of one player beside the i-th of the
    other.
    """
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "q{n}"}}\n' for n in range(6)))
    texts = {"terse": ["a", "aaa", "aaaaaa"], "wordy": ["bb", "bbb", "bbbb", "bbbbb"]}
    comparer = {"kind": "scripted", "call": "scripted_models:prefers_longer"}
    config = {
        "generations": 0,
        "players": {name: {"kind": "scripted", "texts": own} for name, own in texts.items()},
        "prompts": {"kind": "files", "path": str(tmp_path / "p.jsonl"), "held_out": 5},
        "game": {"kind": "answers", "samples": 2},
        "judge": {"kind": "pairwise", "model": comparer},
        "evaluate": {"kind": "held_out", "samples": 3},
    }
    with new_run(recipe_loader.build(config, "test"), tmp_path / "run") as run:
        league(OpenRun(run), 0)
        facts = run.ledger.stage_facts("0/measure")
        planned, played = planned_and_played(run)
        matches = [m for m in run.ledger.matches("held_out", 0) if m.game == "answers"]
    assert planned["judgements"] == played["judgements"] == 5 * 3
    assert planned["answers"] == sum(len(match.turns) for match in matches) == 2 * 5 * 4
    answers: dict[tuple[str, str], list[int]] = {}
    for match in matches:
        for turn in match.turns:
            key = match.prompt, match.seats[turn.seat].name
            answers.setdefault(key, []).append(len(turn.move.text))
    signs = [
        (a > b) - (a < b)
        for prompt in {prompt for prompt, _ in answers}
        for a, b in zip(answers[prompt, "terse"][:3], answers[prompt, "wordy"], strict=False)
    ]
    ahead = sum(signs) / 15
    assert len(signs) == 15
    assert -1 < ahead < 1 != abs(ahead)
    assert facts["players"] == ["terse@0", "wordy@0"]
    assert facts["count"] == [[0, 15], [15, 0]]
    assert facts["payoff"] == [[0, pytest.approx(ahead)], [pytest.approx(-ahead), 0]]
