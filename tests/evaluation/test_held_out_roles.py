"""`held_out` in a game of two roles, where the right numbers are known by hand."""

import sys
from pathlib import Path

import pytest
from small_runs import settings

from equipoise.blocks.section import Figure
from equipoise.environments.red_team.game import RedTeam
from equipoise.errors import ConfigError
from equipoise.evaluation.base import EvaluationPlan
from equipoise.evaluation.held_out_measures import HeldOut
from equipoise.evaluation.measures import History, Measurement, Records
from equipoise.evaluation.role_cross_play import RoleMeasures
from equipoise.games.base import Ask, Game
from equipoise.judges.base import Judge
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, PlayerId, Prompt, View, user

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROMPTS = [Prompt(f"p{i}", (user(str(i)),)) for i in range(4)]
ROLES = {"describer": "d", "guesser": "g"}


class Charades(Game):
    """A describer and a guesser."""

    kind: str = "charades"

    @property
    def seats(self):
        return ("describer", "guesser")

    def referee(self, prompt):
        text = yield Ask("describer", View(prompt.messages))
        yield Ask("guesser", View((user(text.text),)))


class Trio(Charades):
    """With one role too many."""

    @property
    def seats(self):
        return ("describer", "guesser", "umpire")


class Rule(Judge):
    """A judge by its name only."""

    kind: str = "rule"
    against: bool = False

    @property
    def compares(self):
        return self.against

    def judge(self, matches, prompts, context):
        raise AssertionError("the arena judges")


class Arena:
    """An arena whose players' skill is given: a describer at generation 0 is clear on the first
    prompt, at 1 on the first three; a guesser at generation 0 needs it clear and an even prompt, at
    1 only clear. The describer is paid twice the guesser's 1.

    `unjudged` names (players, prompt) that the judge says nothing of.
    """

    game, utility = Charades(), "score"
    held_out = PROMPTS

    def __init__(self, ages=None, learns=("d", "g"), unjudged=()):
        self.ages = ages or {"d": 1, "g": 1}
        self.learns, self.unjudged, self.played = learns, unjudged, []

    def players_by_role(self, t):
        return {role: PlayerId(name, self.ages[name]) for role, name in ROLES.items()}

    def learners(self, t):
        return [PlayerId(name, self.ages[name]) for name in self.learns]

    def past(self, player):
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def judge_of(self, player):
        return Rule()

    def play(self, roles, prompts, judge, t, label):
        self.played.append((tuple(map(str, roles.values())), len(prompts), label))
        return [self._judged(dict(roles), prompt) for prompt in prompts]

    def _judged(self, seats, prompt):
        number = int(prompt.id[1])
        clear = number < (1 if seats["describer"].generation == 0 else 3)
        able = seats["guesser"].generation == 1 or number % 2 == 0
        right = float(clear and able)
        names = "+".join(map(str, seats.values()))
        match = Match(f"{names}/{prompt.id}", 1, "held_out", "", prompt.id, seats, 0)
        scores = {"describer": {"score": 2 * right}, "guesser": {"score": right}}
        silent = (names, prompt.id) in self.unjudged
        return match, Judgement("", match.id, "rule", None if silent else scores)


def means(rows):
    return [[cell.mean for cell in row] for row in rows]


def test_each_role_is_scored_with_every_player_of_the_other():
    measures = HeldOut(samples=1).measure(Arena(), 1)
    describer, guesser = measures.roles["describer"], measures.roles["guesser"]
    assert describer.players == guesser.others == ["d@0", "d@1"]
    assert means(describer.cells) == [[0.5, 0.5], [1.0, 1.5]]
    assert means(guesser.cells) == [[0.25, 0.5], [0.25, 0.75]]
    assert {name: e.mean for name, e in describer.scores.items()} == {"d@0": 0.5, "d@1": 1.25}
    assert guesser.scores["g@0"].mean == 0.375
    assert guesser.scores["g@1"].mean == 0.5
    assert guesser.scores["g@1"].n == 8
    assert guesser.cells[0][0].n == 4
    assert describer.win_rates["d@1"].mean == 5.5 / 8
    assert guesser.win_rates["g@1"].mean == 4.5 / 8
    assert measures.scores["d@1"].mean == 1.25
    assert measures.score == 0.875
    assert measures.win_rate == pytest.approx(0.625)
    assert measures.best_score == 1.25


def test_nothing_is_said_that_would_mean_nothing():
    facts = HeldOut().measure(Arena(), 1).facts({"d": 1, "g": 1})
    assert not {"exploitability", "mixture", "payoff", "ratings", "gap"} & set(facts)
    assert RoleMeasures.read(facts).facts({"d": 1, "g": 1}) == facts


def test_two_generations_meet_two_and_nobody_sits_in_both_roles():
    arena = Arena()
    HeldOut(samples=3).measure(arena, 1)
    lineups = {players for players, _, _ in arena.played}
    assert lineups == {(f"d@{i}", f"g@{j}") for i in (0, 1) for j in (0, 1)}
    assert {(n, label) for _, n, label in arena.played} == {(12, "all ×3/4")}


def test_what_is_unjudged_counts_nowhere():
    arena = Arena(unjudged={("d@1+g@0", "p0"), ("d@0+g@0", "p1")})
    measures = HeldOut(samples=1).measure(arena, 1)
    guesser = measures.roles["guesser"]
    assert guesser.cells[0][0].n == guesser.cells[0][1].n == 3
    assert guesser.cells[0][1].mean == pytest.approx(1 / 3)
    # Of p0 and p1 with d@1 and d@0 there is no pair.
    assert measures.roles["describer"].win_rates["d@1"].n == 6


def test_a_player_that_does_not_learn_has_no_win_rate_and_no_score_of_its_own():
    arena = Arena({"d": 1, "g": 0}, learns=("d",))
    measures = HeldOut(samples=1).measure(arena, 1)
    assert list(measures.scores) == ["d@1"]
    assert measures.score == 1.0
    assert measures.roles["guesser"].players == ["g@0"]
    assert measures.roles["guesser"].win_rates == {}
    first = HeldOut(samples=1).measure(Arena({"d": 0, "g": 0}), 0)
    assert first.win_rate is None
    assert first.roles["describer"].win_rates == {}


def test_the_page_compares_within_a_role_with_the_same_others():
    measurements = tuple(
        Measurement(t, HeldOut(samples=1).measure(Arena({"d": t, "g": t}), t)) for t in (0, 1)
    )
    history = History(("d", "g"), measurements, Charades(), roles=ROLES)
    lines = list(RoleMeasures.headlines(history))
    assert [line.label for line in lines] == [
        "held-out score of d@1 as describer",
        "win rate of d@1 over d@0 as describer",
        "held-out score of g@1 as guesser",
        "win rate of g@1 over g@0 as guesser",
    ]
    assert lines[2].value.startswith("50.0 %")
    assert "g@0: 37.5 %" in lines[2].note
    assert "with d@0 to d@1" in lines[2].note
    changes = list(RoleMeasures.changes(history))
    assert [change.name for change in changes] == [
        "held-out score as describer",
        "held-out score as guesser",
    ]
    assert [change.before.mean for change in changes] == [0.5, 0.375]
    learning, cross_play = RoleMeasures.sections(history, Records())
    scores = next(block for block in learning.blocks if isinstance(block, Figure))
    lines = {trace["name"]: trace for trace in scores.data if trace.get("name")}
    assert lines["g as guesser"]["y"] == [0.375, 0.5]
    figures = [block for block in cross_play.blocks if isinstance(block, Figure)]
    assert [figure.data[0]["z"] for figure in figures] == [
        [[0.5, 0.5], [1.0, 1.5]],
        [[0.25, 0.5], [0.25, 0.75]],
    ]
    empty = History(("d", "g"), (), Charades(), roles=ROLES)
    assert all(section.reason for section in RoleMeasures.sections(empty, Records()))


@pytest.mark.parametrize(
    ("game", "roles", "judge", "message"),
    [
        (Charades(), {}, Rule(), "names no player for describer, guesser"),
        (Charades(), {"guesser": "g"}, Rule(), "names no player for describer,"),
        (RedTeam(), {"defender": "d"}, Rule(), "names no player for adversary"),
        (Charades(), ROLES, Rule(against=True), "use a judge that scores"),
        (Trio(), {**ROLES, "umpire": "u"}, Rule(), "at most two roles; 'charades'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_run(game, roles, judge, message):
    with pytest.raises(ConfigError, match=message):
        HeldOut().check(game, roles, [judge], tests=False)


def test_a_last_test_is_refused():
    with pytest.raises(ConfigError, match="chooses no player to test"):
        HeldOut().check(Charades(), ROLES, [Rule()], tests=True)


def test_the_plan_counts_every_meeting():
    rosters = [
        [PlayerId("d", 0), PlayerId("g", 0)],
        [PlayerId("d", 1), PlayerId("g", 0)],
        [PlayerId("d", 1), PlayerId("g", 1)],
    ]
    run_plan = EvaluationPlan(Charades(), rosters, [], ROLES, PROMPTS, [], lambda name: Rule())
    workload = HeldOut(samples=3).planned(run_plan)
    assert (workload.matches, workload.moves) == (4 * 4 * 3, 4 * 4 * 3 * 2)
    [(_, matches, seats)] = workload.judged
    assert (matches, seats) == (48, 2)


FEW = settings(
    generations=2,
    evaluate={"kind": "held_out", "samples": 2},
    prompts__cards=16,
    prompts__per_generation=8,
    prompts__held_out=5,
    schedule__samples=2,
    learner__batch_size=16,
)


@pytest.fixture(scope="module")
def examples():
    sys.path.insert(0, str(EXAMPLES))
    sys.modules.pop("describe_and_guess", None)
    yield str(EXAMPLES / "describe_and_guess.yaml")
    sys.path.remove(str(EXAMPLES))
    sys.modules.pop("describe_and_guess", None)


@pytest.mark.long
def test_a_run_plays_what_was_planned_and_reports_what_was_played(command, tmp_path, examples):
    planned = command("plan", examples, *FEW, "--json")
    assert planned.code == 0, planned.err
    done = command("run", examples, *FEW, "--out", "run", "--json")
    assert done.code == 0, done.err
    with RunDirectory.read(tmp_path / "run") as run:
        matches = run.ledger.matches("held_out")
        judgements = run.ledger.judgements_of(match.id for match in matches)
    assert planned.facts["counts"]["held_out_matches"] == len(matches) == 3 * 5 * 2
    last = done.facts["measured"][-1]["roles"]["guesser"]
    for own, row in zip(last["players"], last["cells"], strict=True):
        for other, cell in zip(last["others"], row, strict=True):
            seats = {"describer": other, "guesser": own}
            scores = [
                judgements[match.id].score("guesser", "score")
                for match in matches
                if {seat: str(p) for seat, p in match.seats.items()} == seats
            ]
            assert cell["n"] == len(scores) == 10
            assert cell["mean"] == pytest.approx(sum(scores) / 10)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Cross-play of the roles" in page
    assert "Equilibrium mixture" not in page
    assert "Who beats whom" not in page


def test_without_roles_the_plan_refuses(command, examples):
    refused = command("plan", examples, *FEW, "-s", "schedule={kind: self_play}", "--json")
    assert refused.code == 2
    assert "describer, guesser" in " ".join(refused.err.split())
