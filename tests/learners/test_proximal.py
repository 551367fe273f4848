"""A tabular player's proximal steps against another, held against the solver that takes them for
both.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.learners.base import Learner, OtherPlayer, TrainingBatch
from equipoise.learners.process_group import read_batch, write_batch
from equipoise.learners.proximal import Proximal
from equipoise.models.resources import Resources
from equipoise.players.scripted import Scripted
from equipoise.players.tabular import Tabular, log_softmax, read_policy, write_policy
from equipoise.solvers.base import Profile
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.gpo import StepSizes, contextual, contextual_nash_conv, gpo, step_sizes
from equipoise.types import PlayerId

PAYOFF_AM = np.array([[0.9, -0.4, 0.2, -0.8], [-0.5, 0.7, -0.6, 0.1], [0.0, 0.3, -0.2, 0.6]])
GAME = Matrix(
    name="custom",
    payoffs=tuple(map(tuple, PAYOFF_AM.tolist())),
    row_actions=tuple("abc"),
    column_actions=tuple("wxyz"),
)
STARTS = {"defender": (0.3, -0.2, 0.0), "adversary": (0.0, 0.4, -0.1, 0.2)}
ROUNDS = 12


def training_batch(
    folder, name="defender", weights=None, other_weights=None, game=GAME, generation=0
) -> TrainingBatch:
    other = "adversary" if name == "defender" else "defender"
    home = Path(folder) / f"{name}-{generation}"
    home.mkdir(parents=True)
    return TrainingBatch(
        learner=PlayerId(name, generation),
        player=Tabular(logits=STARTS[name]),
        weights=weights,
        output=home,
        scratch=Path(folder),
        seed=0,
        game=game,
        other_players={other: OtherPlayer(Tabular(logits=STARTS[other]), other_weights)},
        player_of_role={"row": "defender", "column": "adversary"},
    )


def run(
    folder, learner, rounds=ROUNDS, in_turn=False, game=GAME
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Every policy of defender and adversary when both learn for `rounds` generations."""
    weights: dict[str, Path | None] = {"defender": None, "adversary": None}
    policies = {name: [np.exp(log_softmax(np.array(start)))] for name, start in STARTS.items()}
    for t in range(rounds):
        known = dict(weights)
        for name, other in (("defender", "adversary"), ("adversary", "defender")):
            met = weights if in_turn else known
            now = training_batch(folder, name, known[name], met[other], game, generation=t)
            learner.learn(now)
            weights[name] = now.output
            policies[name].append(np.exp(log_softmax(read_policy(now.output))))
    return policies["defender"], policies["adversary"]


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("entropy", [False, True])
def test_both_players_take_the_solvers_steps(tmp_path, entropy, in_turn):
    defender, adversary = run(tmp_path, Proximal(rounds=ROUNDS, entropy=entropy), in_turn=in_turn)
    start = Profile(defender[0], adversary[0])
    step = step_sizes(PAYOFF_AM, ROUNDS, entropy=entropy)
    played = gpo(PAYOFF_AM, rounds=ROUNDS, step=step, start=start, alternate=in_turn)
    np.testing.assert_allclose(defender[-1], played.last.row_A, atol=1e-12)
    np.testing.assert_allclose(adversary[-1], played.last.column_M, atol=1e-12)
    np.testing.assert_allclose(np.mean(defender[:-1], axis=0), played.average.row_A, atol=1e-12)
    np.testing.assert_allclose(np.mean(adversary[:-1], axis=0), played.average.column_M, atol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "played"])
def test_a_defender_that_sees_the_prompt_takes_the_contextual_solvers_steps(
    tmp_path, monkeypatch, weights
):
    sees = Matrix.model_validate(GAME.settings() | {"row_sees": True})
    monkeypatch.setitem(STARTS, "defender", (0.0,) * 3**4)
    monkeypatch.setitem(STARTS, "adversary", (0.0,) * 4)
    learner = Proximal(rounds=ROUNDS, weights=weights)
    defender, adversary = run(tmp_path, learner, game=sees)
    played = contextual(PAYOFF_AM, rounds=ROUNDS, weights=weights)
    plans = np.indices((3,) * 4).reshape(4, -1)  # plans[x]: each plan's answer to prompt x
    for policy_P, policies in (
        (defender[-1], played.last),
        (np.mean(defender[:-1], axis=0), played.average),
    ):
        answer_MA = [np.bincount(plans[x], policy_P) for x in range(4)]
        np.testing.assert_allclose(answer_MA, policies.answer_MA, atol=1e-12)
    np.testing.assert_allclose(adversary[-1], played.last.prompt_M, atol=1e-12)
    gap = nash_conv(sees.payoff_AM(), defender[-1], adversary[-1])
    assert gap == pytest.approx(contextual_nash_conv(PAYOFF_AM, *played.last))


def test_prompts_are_weighed_as_played_only_where_they_are_seen():
    learner, player = Proximal(rounds=1, weights="played"), Tabular(logits=STARTS["defender"])
    assert "weights: played is of games in which the first seat sees" in str(
        list(learner.faults(player, GAME))
    )
    sees = Matrix.model_validate(GAME.settings() | {"row_sees": True})
    assert not list(learner.faults(player, sees))


def test_c_sets_both_regularisers(tmp_path):
    defender, adversary = run(tmp_path, Proximal(rounds=4, c=0.5), rounds=3)
    start = Profile(defender[0], adversary[0])
    played = gpo(PAYOFF_AM, rounds=3, step=StepSizes(1.0, 1.0), start=start)
    np.testing.assert_allclose(defender[-1], played.last.row_A, atol=1e-12)
    np.testing.assert_allclose(adversary[-1], played.last.column_M, atol=1e-12)


def test_each_seat_is_paid_by_its_own_table(tmp_path):
    column_AM = np.array([[1.0, 0, 0, 0], [0, 0, 2, 0], [0, 3, 0, 0]])
    settings = GAME.settings() | {"column_payoffs": column_AM.tolist()}
    lines = []
    now = replace(
        training_batch(tmp_path, "adversary", game=Matrix.model_validate(settings)),
        log=lines.append,
    )
    facts = Proximal(rounds=1, c=2.0).learn(now)
    before_M, met_A = (
        np.exp(log_softmax(np.array(STARTS[name]))) for name in ("adversary", "defender")
    )
    after_M = before_M * np.exp(met_A @ column_AM / 2.0)
    after_M /= after_M.sum()
    np.testing.assert_allclose(np.exp(log_softmax(read_policy(now.output))), after_M, atol=1e-12)
    assert facts == {
        "value": pytest.approx(met_A @ column_AM @ before_M),
        "entropy": pytest.approx(-(after_M * np.log(after_M)).sum()),
        "kl": pytest.approx((after_M * np.log(after_M / before_M)).sum()),
    }
    assert lines == [{"steps": 1, **facts}]


def test_a_batch_with_other_players_can_be_sent_to_other_processes(tmp_path):
    weights = tmp_path / "weights"
    weights.mkdir()
    write_policy(weights, np.array([0.0, 1.0, 2.0, 3.0]))
    now = training_batch(tmp_path, other_weights=weights)
    learner = Proximal(rounds=9, entropy=True)
    write_batch(tmp_path, learner, now)
    learner_again, again = read_batch(tmp_path, lambda line: None, Resources())
    assert learner_again == learner
    assert again.other_players == now.other_players
    again_home = tmp_path / "again"
    again_home.mkdir()
    learner.learn(now)
    learner_again.learn(replace(again, output=again_home))
    assert json.loads((again_home / "policy.json").read_text()) == json.loads(
        (now.output / "policy.json").read_text()
    )


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"seats": {"row": "defender"}}, {}, "learner.seats: "),
        ({"seats": {"row": "x", "column": "y"}}, {}, "x and y are seated; needs 'defender'"),
        ({"seats": {"row": "defender", "column": "defender"}}, {}, "and another"),
        ({"seats": {"row": "defender", "column": "y"}}, {}, "'y' for 'defender'"),
        ({}, {"other_players": {}}, "there is nobody"),
        ({}, {"game": Answers(samples=2)}, r"learner.seats: needs a player.*1, 2"),
        (
            {"seats": {"1": "defender", "2": "adversary"}},
            {"game": Answers(samples=2)},
            "'answers' is none",
        ),
        (
            {},
            {"player": Scripted(texts=("a",))},
            "players.defender: learner 'proximal' trains tabular players",
        ),
        ({}, {"player": Tabular(logits=(0.0, 1.0))}, " 2 moves.* 3"),
        (
            {},
            {"player": Tabular(probabilities=(1.0, 0.0, 0.0))},
            "cannot start from probabilities of 0",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path, settings, change, message):
    with pytest.raises(ConfigError, match=message):
        Proximal(rounds=3, **settings).learn(replace(training_batch(tmp_path), **change))


def test_the_kind_is_known_and_its_rounds_are_asked_for():
    found = Learner.build({"kind": "proximal", "rounds": 5})
    assert isinstance(found, Proximal)
    assert found.needs == "game"
    assert not found.by_loss
    with pytest.raises(ValidationError, match="rounds"):
        Learner.build("proximal")
