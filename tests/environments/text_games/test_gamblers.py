"""Kuhn poker by gamblers whose policies are written down: exploitability, pay-offs and the league
computed a second time.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from recorded_run import planned_and_played, user_prompt
from teachable_players import Gambler, bets

from equipoise.blocks.section import Table
from equipoise.environments.text_games.measures import NashConvMeasures
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.planning.new_run import new_run
from equipoise.report.history import history, records
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun

pyspiel = pytest.importorskip("pyspiel")
BETS = {"timid": 0.125, "bold": 0.75}
TALK = {"timid": 0.0, "bold": 0.25}
CARDS = ("jack", "queen", "king")


def measured(folder, evaluate, players=2):
    gamblers = {
        name: {"kind": "teachable_players:Gambler", "bets": BETS[name], "talk": TALK[name]}
        for name in BETS
    }
    values = {
        "generations": 0,
        "players": gamblers,
        "prompts": {"kind": "deals", "count": 5, "per_generation": 1, "held_out": 4},
        "game": {"kind": "open_spiel", "name": "kuhn_poker", "players": players},
        "schedule": "round_robin",
        "judge": "game_outcome",
        "evaluate": evaluate,
    }
    with new_run(recipe_loader.build(values, "test"), folder) as run:
        league(OpenRun(run), 0)
    return folder


def chances(name, state):
    """OpenSpiel's moves (0: pass, 1: bet) with their probabilities."""
    card = CARDS[int(state.information_state_string(state.current_player())[0])]
    bet = bets(Gambler(kind="teachable_players:Gambler", bets=BETS[name]), card)
    return [1 - bet, bet]


def expected(state, names):
    """The first seat's pay-off when the seats play as `names`."""
    if state.is_terminal():
        return state.returns()[0]
    if state.is_chance_node():
        moves = state.chance_outcomes()
    else:
        moves = list(enumerate(chances(names[state.current_player()], state)))
    return sum(chance * expected(state.child(move), names) for move, chance in moves)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("exact") / "run", "nash_conv")


def test_exploitability_and_payoffs_are_those_of_the_written_policies(exact):
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import tabular_policy_from_callable

    game = OpenSpiel().spiel
    with RunDirectory.read(exact) as run:
        facts = run.ledger.stage_facts("0/measure")
    assert facts["players"] == ["timid@0", "bold@0"]
    for name in BETS:
        policy = tabular_policy_from_callable(
            game, lambda s, name=name: enumerate(chances(name, s))
        )
        gain = nash_conv(game, policy)
        assert facts["nash_conv"][f"{name}@0"] == facts["average"][f"{name}@0"]
        assert facts["nash_conv"][f"{name}@0"] == pytest.approx(gain)
        for which in ("illegal", "worst_illegal"):
            assert facts[which][f"{name}@0"] == pytest.approx(TALK[name])
    assert facts["exploitability"] == max(facts["nash_conv"].values())
    assert facts["uniform"] == pytest.approx(11 / 12)
    start = game.new_initial_state()
    ahead = (expected(start, ("bold", "timid")) - expected(start, ("timid", "bold"))) / 2
    share = ahead / game.max_utility()
    assert facts["payoff"] == pytest.approx(np.array([[0, -share], [share, 0]]))
    best = "bold" if share > 0 else "timid"
    assert facts["mixture"] == pytest.approx({f"{name}@0": float(name == best) for name in BETS})
    assert facts["mixture_nash_conv"] == pytest.approx(facts["nash_conv"][f"{best}@0"])


def test_the_page_shows_each_policy_by_state(exact):
    with RunDirectory.read(exact) as run:
        section, *_ = NashConvMeasures.sections(history(run), records(run))
    tables = [part for part in section.blocks if isinstance(part, Table)]
    assert [table.title for table in tables] == ["Policy of timid@0", "Policy of bold@0"]
    for table, name in zip(tables, BETS, strict=True):
        assert len(table.rows) == 12
        for state, moves in table.rows:
            bet = bets(
                Gambler(kind="teachable_players:Gambler", bets=BETS[name]), CARDS[int(state[0])]
            )
            assert moves == f"pass {100 * (1 - bet):.1f} %, bet {100 * bet:.1f} %"


@pytest.mark.parametrize("players", [2, 3])
def test_a_league_counts_who_was_paid_more(players, tmp_path):
    """Of several seats on one side their mean counts; every deal is played in every seating."""
    with RunDirectory.read(measured(tmp_path / "run", "game_league", players)) as run:
        facts = run.ledger.stage_facts("0/measure")
        matches = run.ledger.matches("held_out", 0)
        [judge] = {name for name, *_ in run.ledger.judges()}
        judgements = run.ledger.judgements_of([match.id for match in matches], judge)
        planned, played = planned_and_played(run)
    signs = []
    for match in matches:
        paid = judgements[match.id].by_seat("score")
        best = [seat for seat in paid if paid[seat] == max(paid.values())]
        shares = {seat: (seat in best) / len(best) for seat in paid}
        assert judgements[match.id].by_seat("win") == shares
        sides = {
            name: np.mean([paid[seat] for seat, who in match.seats.items() if who.name == name])
            for name in BETS
        }
        signs.append(np.sign(sides["bold"] - sides["timid"]))
    assert facts["players"] == ["timid@0", "bold@0"]
    assert len(signs) == facts["count"][0][1] == 4 * (2 if players == 2 else 6)
    assert facts["payoff"][1][0] == pytest.approx(np.mean(signs)) == -facts["payoff"][0][1]
    assert len({tuple(map(str, match.seats.values())) for match in matches}) == len(signs) // 4
    longest = sum(run.config.game.moves(user_prompt("p", "deal")).values())
    assert planned.pop("answers") == len(signs) * longest > played.pop("answers")
    assert planned == played
    for a, b in combinations(matches, 2):
        assert a.id != b.id
        assert a.seed != b.seed
