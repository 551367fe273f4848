"""Every solver, on games whose equilibrium is known, and against other ways of computing it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import linprog

from equipoise.errors import ConfigError, DataError
from equipoise.solvers.base import Profile, Solver, span
from equipoise.solvers.dynamics import (
    fictitious_play,
    mirror_descent,
    multiplicative_weights,
    replicator,
)
from equipoise.solvers.exploitability import exploitability, nash_conv
from equipoise.solvers.gpo import gpo, step_sizes
from equipoise.solvers.zero_sum import nash

# Each row: the solver on a two-player matrix, and the share of the pay-off span that it may leave
# unsolved.
FUNCTIONS = {
    "zero_sum": (lambda payoff_AM: Profile(*nash(payoff_AM)[:2]), 1e-9),
    "multiplicative": (
        lambda payoff_AM: multiplicative_weights(payoff_AM, steps=2000).average,
        0.04,
    ),
    "replicator": (
        lambda payoff_AM: replicator(payoff_AM, time=300 / span(payoff_AM)).average,
        0.02,
    ),
    "fictitious": (lambda payoff_AM: fictitious_play(payoff_AM, steps=4000).average, 0.03),
    "mirror": (
        lambda payoff_AM: mirror_descent(payoff_AM, tau=0.02 * span(payoff_AM), steps=4000).last,
        0.08,
    ),
    "gpo": (lambda payoff_AM: gpo(payoff_AM, rounds=2000, alternate=True).average, 0.04),
    "gpo with entropy": (lambda payoff_AM: gpo_with_entropy(payoff_AM, 4000), 0.06),
}
RANKINGS = {"alpha_rank"}  # no equilibria; tests/solvers/test_role_solvers.py
COMPONENTS = {
    kind: 1e-9 if kind == "zero_sum" else 0.025 for kind in Solver.KINDS if kind not in RANKINGS
}

SHORT = {  # enough where a result is only compared with itself
    "multiplicative": {"steps": 500},
    "replicator": {"time": 50.0},
    "mirror": {"steps": 500},
    "gpo": {"rounds": 500},
    "projected_replicator": {"steps": 500},
}

ROCK_PAPER_SCISSORS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
BIASED = np.array([[0.0, -1, 3], [1, 0, -1], [-3, 1, 0]])  # equilibrium (1, 3, 1)/5
DOMINATED = np.pad(BIASED, ((0, 1), (0, 1)))
DOMINATED[3, :3], DOMINATED[:3, 3] = BIASED[0] - 1, 1 - BIASED[0]


def random_game(seed, rows, columns):
    return np.random.default_rng(seed).normal(size=(rows, columns))


def gpo_with_entropy(payoff_AM, rounds):
    return gpo(payoff_AM, rounds=rounds, step=step_sizes(payoff_AM, rounds, entropy=True)).average


def random_symmetric(seed, n):
    return (lambda a: a - a.T)(random_game(seed, n, n))


GAMES = {
    "one cell": np.array([[2.0]]),
    "constant": np.full((3, 2), -1.0),
    "matching pennies": np.array([[1.0, -1], [-1, 1]]),
    "rock paper scissors": ROCK_PAPER_SCISSORS,
    "biased": BIASED,
    "dominated": DOMINATED,
    "saddle point": np.array([[3.0, 1, 4], [2, 0, -5]]),
    "large pay-offs": 1e6 + 1e3 * random_game(1, 3, 4),
    "small pay-offs": 1e-6 * random_game(2, 4, 3),
    **{f"random {r}x{c}": random_game(r + c, r, c) for r, c in ((1, 4), (12, 8), (20, 15))},
}
SYMMETRIC = {
    "one player": np.zeros((1, 1)),
    "all tie": np.zeros((4, 4)),
    "biased": BIASED,
    "transitive": np.subtract.outer(np.arange(5.0), np.arange(5.0)),
    "tiny": 1e-6 * random_symmetric(3, 6),
    **{f"random {n}": random_symmetric(n, n) for n in (2, 20)},
}


def on_games(solvers, exact, games, few):
    """(solver, game): the exact solver on each game; the others on `few` of them, and on the rest,
    which add other shapes and units, among the slow tests.
    """
    return [
        (solver, game)
        if solver == exact or game in few
        else pytest.param(solver, game, marks=pytest.mark.slow)
        for solver in solvers
        for game in games
    ]


def assert_distribution(mixture_A):
    assert (mixture_A >= 0).all()
    assert mixture_A.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("solver", "game"),
    on_games(
        FUNCTIONS, "zero_sum", GAMES, {"dominated", "saddle point", "large pay-offs", "random 12x8"}
    ),
)
def test_equilibrium_and_value_of_a_matrix_game(solver, game):
    payoff_AM = GAMES[game]
    solve, tolerance = FUNCTIONS[solver]
    row_A, column_M = solve(payoff_AM)
    assert_distribution(row_A)
    assert_distribution(column_M)
    allowed = tolerance * span(payoff_AM) + 1e-12 * np.abs(payoff_AM).max()
    assert nash_conv(payoff_AM, row_A, column_M) <= allowed
    assert row_A @ payoff_AM @ column_M == pytest.approx(
        column_player_value(payoff_AM), abs=allowed
    )


def column_player_value(payoff_AM):
    """The value from the column player's linear program, min v with payoff·column ≤ v; `nash`
    solves the other.
    """
    rows, columns = payoff_AM.shape
    middle, unit = payoff_AM.mean(), span(payoff_AM)
    solved = linprog(
        [*np.zeros(columns), 1.0],
        np.c_[(payoff_AM - middle) / unit, -np.ones(rows)],
        np.zeros(rows),
        np.array([[*np.ones(columns), 0.0]]),
        [1.0],
        [(0, None)] * columns + [(None, None)],
        method="highs-ipm",
    )
    return middle + unit * solved.fun


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "game"),
    on_games(COMPONENTS, "zero_sum", SYMMETRIC, {"one player", "tiny", "random 20"}),
)
def test_population_mixture_of_a_symmetric_game(kind, game):
    payoff_NN = SYMMETRIC[game]
    mixture_N = Solver.build(kind).solve(payoff_NN)
    assert_distribution(mixture_N)
    assert exploitability(payoff_NN, mixture_N) <= COMPONENTS[kind] * span(payoff_NN)


@pytest.mark.long
@pytest.mark.parametrize("kind", COMPONENTS)
def test_known_mixtures(kind):
    solve = Solver.build(kind).solve
    np.testing.assert_allclose(solve(ROCK_PAPER_SCISSORS), np.full(3, 1 / 3), atol=0.02)
    np.testing.assert_allclose(solve(BIASED), [0.2, 0.6, 0.2], atol=0.06)
    np.testing.assert_allclose(solve(SYMMETRIC["transitive"]), [0, 0, 0, 0, 1], atol=0.03)
    assert solve(DOMINATED)[3] < 0.01


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.long if kind == "fictitious" else ())
        for kind in COMPONENTS
    ],
)
def test_names_and_units_of_the_population_change_nothing(kind):
    payoff_NN, order = random_symmetric(5, 6), [3, 0, 5, 1, 4, 2]
    solve = Solver.build({"kind": kind, **SHORT.get(kind, {})}).solve
    mixture_N = solve(payoff_NN)
    atol = 0.02 if kind == "fictitious" else 1e-6  # its first replies break ties by index
    np.testing.assert_allclose(solve(payoff_NN[np.ix_(order, order)]), mixture_N[order], atol=atol)
    np.testing.assert_allclose(solve(1024 * payoff_NN), mixture_N, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in COMPONENTS if kind != "zero_sum"])
def test_games_that_are_not_constant_sum(kind):
    solve = Solver.build(kind).solve
    np.testing.assert_allclose(
        solve(np.array([[3, 0], [5, 1]])), [0, 1], atol=0.02
    )  # prisoner's dilemma
    np.testing.assert_allclose(
        solve(np.array([[4, 0], [3, 3]])), [0, 1], atol=0.02
    )  # stag hunt: safe from uniform
    chicken = np.array([[0.0, -1], [1, -2]])  # swerve or straight, half and half
    np.testing.assert_allclose(solve(chicken), [0.5, 0.5], atol=0.02)


def test_zero_sum_takes_win_rates_and_refuses_a_dilemma():
    zero_sum = Solver.build("zero_sum")
    np.testing.assert_allclose(zero_sum.solve((BIASED + 3) / 6), [0.2, 0.6, 0.2], atol=1e-9)
    with pytest.raises(ConfigError, match=r"needs a constant-sum game.*choose 'replicator'"):
        zero_sum.solve(np.array([[3, 0], [5, 1]]))


@pytest.mark.parametrize("kind", COMPONENTS)
@pytest.mark.parametrize(
    ("payoff_NN", "error", "message"),
    [
        (np.zeros((2, 3)), ValueError, "must be square"),
        (np.zeros(3), ValueError, "must be square"),
        (np.array([[0, np.nan], [np.nan, 0]]), DataError, r"payoff_NN\[0, 1\] is nan"),
    ],
)
def test_what_is_no_population_game_is_refused(kind, payoff_NN, error, message):
    with pytest.raises(error, match=message):
        Solver.build(kind).solve(payoff_NN)


@pytest.mark.parametrize("solver", FUNCTIONS)
def test_what_is_no_matrix_game_is_refused(solver):
    solve, _ = FUNCTIONS[solver]
    with pytest.raises(ValueError, match="at least one row and column"):
        solve(np.zeros(3))
    with pytest.raises(DataError, match=r"payoff_AM\[1, 0\] is inf"):
        solve(np.array([[0.0, 1], [np.inf, 0]]))


def test_starts_and_sides_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"^start "):
        multiplicative_weights(
            ROCK_PAPER_SCISSORS, steps=1, start=Profile(np.array([1.0, 0, 0]), np.full(3, 1 / 3))
        )
    with pytest.raises(ValueError, match=r"^anchor "):
        uniform, pure = np.full(3, 1 / 3), np.array([0.0, 0, 1])
        mirror_descent(ROCK_PAPER_SCISSORS, tau=1, steps=1, anchor=Profile(uniform, pure))
    with pytest.raises(ValueError, match=r"column_payoff_AM has shape \(3, 2\)"):
        replicator(np.zeros((2, 3)), np.zeros((3, 2)), time=1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: multiplicative_weights(BIASED, steps=0), "steps"),
        (lambda: multiplicative_weights(BIASED, steps=1, eta=-1.0), "eta"),
        (lambda: fictitious_play(BIASED, steps=0), "steps"),
        (lambda: replicator(BIASED, time=float("inf")), "time"),
        (lambda: mirror_descent(BIASED, tau=0.0, steps=1), "tau"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(call, name):
    with pytest.raises(ValueError, match=f"{name} must be a number above zero"):
        call()


def test_golden_values(golden):
    games = golden("zero_sum_games.json")
    for game in games["zero_sum"]:
        row_A, column_M, value = nash(game["row_payoff"])
        assert value == pytest.approx(game["value"], abs=1e-8)
        assert nash_conv(game["row_payoff"], row_A, column_M) < 1e-8
    for game in games["symmetric"]:
        assert nash(game["row_payoff"])[2] == pytest.approx(game["value"], abs=1e-8)


@pytest.mark.long
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.integers(-6, 6))
def test_the_value_follows_shifts_units_and_changing_sides(seed, rows, columns, power):
    payoff_AM, unit = random_game(seed, rows, columns), 10.0**power
    row_A, column_M, value = nash(payoff_AM)
    assert row_A @ payoff_AM @ column_M == pytest.approx(value, abs=1e-8)
    assert nash(unit * payoff_AM + 5)[2] == pytest.approx(
        unit * value + 5, abs=1e-7 * (unit + 5e-3)
    )
    assert nash(-payoff_AM.T)[2] == pytest.approx(-value, abs=1e-8)


def test_multiplicative_weights_is_its_closed_form():
    payoff_AM, start = (
        random_game(0, 3, 4),
        Profile(np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])),
    )
    rows, columns = [start.row_A], [start.column_M]
    for _ in range(5):
        row_A = rows[-1] * np.exp(0.3 * payoff_AM @ columns[-1])
        column_M = columns[-1] * np.exp(-0.3 * rows[-1] @ payoff_AM)
        rows.append(row_A / row_A.sum())
        columns.append(column_M / column_M.sum())
    played = multiplicative_weights(payoff_AM, steps=5, eta=0.3, start=start)
    np.testing.assert_allclose(played.last.row_A, rows[-1])
    np.testing.assert_allclose(played.last.column_M, columns[-1])
    np.testing.assert_allclose(played.average.row_A, np.mean(rows[:-1], axis=0))
    np.testing.assert_allclose(played.average.column_M, np.mean(columns[:-1], axis=0))


def weights_by_hand(payoff_AM, start, steps, eta, follow):
    """Both sides' mixtures, step by step; `follow(gain, last gain, gain a plain step ahead)`."""

    def gain(log_A, log_M):
        row_A, column_M = np.exp(log_A) / np.exp(log_A).sum(), np.exp(log_M) / np.exp(log_M).sum()
        return np.concatenate([payoff_AM @ column_M, -row_A @ payoff_AM])

    rows = len(payoff_AM)
    logit, last = np.log(np.concatenate(start)), None
    for _ in range(steps):
        now = gain(logit[:rows], logit[rows:])
        ahead = logit + eta * now
        logit = logit + eta * follow(
            now, now if last is None else last, gain(ahead[:rows], ahead[rows:])
        )
        last = now
    weight = np.exp(logit)
    return weight[:rows] / weight[:rows].sum(), weight[rows:] / weight[rows:].sum()


@pytest.mark.parametrize(
    ("update", "follow"),
    [
        ("optimistic", lambda now, last, ahead: 2 * now - last),
        ("extragradient", lambda now, last, ahead: ahead),
    ],
)
def test_updates_that_look_ahead_are_their_closed_forms_and_come_to_rest(update, follow):
    payoff_AM = random_game(0, 3, 4)
    start = Profile(np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4]))
    played = multiplicative_weights(payoff_AM, steps=6, eta=0.3, start=start, update=update)
    row_A, column_M = weights_by_hand(payoff_AM, start, 6, 0.3, follow)
    np.testing.assert_allclose(played.last.row_A, row_A)
    np.testing.assert_allclose(played.last.column_M, column_M)
    unit = multiplicative_weights(BIASED, steps=9, eta=1 / span(BIASED), update=update)
    own = multiplicative_weights(BIASED, steps=9, update=update)
    np.testing.assert_array_equal(own.last.row_A, unit.last.row_A)
    settings = {"kind": "multiplicative", "update": update, "eta": 0.5, "iterate": "last"}
    assert exploitability(BIASED, Solver.build({**settings, "steps": 300}).solve(BIASED)) < 1e-4
    plain = multiplicative_weights(BIASED, steps=300, eta=1 / span(BIASED))
    assert nash_conv(BIASED, *plain.last) > 1
    with pytest.raises(ValueError, match="update must be one of plain, optimistic"):
        multiplicative_weights(BIASED, steps=1, update="fast")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("steps", [10, 100, 1000])
@pytest.mark.parametrize("game", ["biased", "matching pennies", "random 12x8", "random 20x15"])
def test_multiplicative_weights_keeps_its_regret_bound(game, steps):
    payoff_AM = GAMES[game]
    bound = span(payoff_AM) * np.sqrt(2 * np.log(max(payoff_AM.shape)) / steps)
    assert nash_conv(payoff_AM, *multiplicative_weights(payoff_AM, steps=steps).average) <= bound


@pytest.mark.long
def test_in_a_cyclic_game_only_the_average_of_multiplicative_weights_converges():
    played = multiplicative_weights(BIASED, steps=20_000, eta=0.05)
    assert nash_conv(BIASED, *played.average) < 0.02 < 1 < nash_conv(BIASED, *played.last)


def test_replicator_is_its_differential_equation():
    payoff_AM, other_AM = random_game(1, 3, 2), random_game(2, 3, 2)
    start = Profile(np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.8]))

    def change(_, both):
        row_A, column_M = both[:3], both[3:]
        got_A, got_M = payoff_AM @ column_M, row_A @ other_AM
        return np.concatenate(
            [row_A * (got_A - row_A @ got_A), column_M * (got_M - column_M @ got_M)]
        )

    path = solve_ivp(
        change, (0, 4), np.concatenate(start), rtol=1e-10, atol=1e-12, dense_output=True
    )
    assert path.sol is not None
    played = replicator(payoff_AM, other_AM, time=4, start=start)
    np.testing.assert_allclose(np.concatenate(played.last), path.y[:, -1], atol=1e-6)
    mean = np.trapezoid(path.sol(np.linspace(0, 4, 4001)), dx=1e-3) / 4
    np.testing.assert_allclose(np.concatenate(played.average), mean, atol=1e-6)


@pytest.mark.parametrize("game", ["biased", "random 12x8"])
def test_replicator_keeps_its_regret_bound_and_is_the_limit_of_small_steps(game):
    payoff_AM = GAMES[game]
    played = replicator(payoff_AM, time=20)
    assert nash_conv(payoff_AM, *played.average) <= 2 * np.log(max(payoff_AM.shape)) / 20
    small = multiplicative_weights(payoff_AM, steps=4000, eta=5e-3)
    np.testing.assert_allclose(small.average.row_A, played.average.row_A, atol=1e-2)


def test_fictitious_play_by_hand():
    # Against a uniform guess both pennies are as good: the lowest. Then the column player switches,
    # and so on.
    played = fictitious_play(np.array([[1.0, -1], [-1, 1]]), steps=3)
    assert played.last.row_A.tolist() == [1, 0]
    assert played.last.column_M.tolist() == [0, 1]
    np.testing.assert_allclose(played.average.row_A, [1, 0])
    np.testing.assert_allclose(played.average.column_M, [1 / 3, 2 / 3])


@pytest.mark.parametrize("tau", [0.1, 0.3, 2.0])
def test_mirror_descent_ends_at_the_regularised_equilibrium(tau):
    payoff_AM = random_game(3, 4, 3)
    anchor = Profile(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.25, 0.25]))
    steps = round(10 * span(payoff_AM) ** 2 / (2 * tau) ** 2)  # 10/(eta·tau)
    row_A, column_M = mirror_descent(payoff_AM, tau=tau, steps=steps + 50, anchor=anchor).last
    for side, base, got in (
        (row_A, anchor.row_A, payoff_AM @ column_M),
        (column_M, anchor.column_M, -row_A @ payoff_AM),
    ):
        reply = base * np.exp(got / tau)
        np.testing.assert_allclose(side, reply / reply.sum(), atol=1e-3)


def test_mirror_descent_shrinks_its_distance_at_the_rate_it_promises():
    tau, steps = 0.3, 60
    eta = 4 * tau / span(BIASED) ** 2
    start = Profile(np.array([0.8, 0.1, 0.1]), np.array([0.1, 0.1, 0.8]))
    goal = mirror_descent(BIASED, tau=tau, steps=5000).last
    distances = [
        sum((g * np.log(g / m)).sum() for g, m in zip(goal, mirror, strict=True))
        for mirror in (
            mirror_descent(BIASED, tau=tau, steps=t, start=start).last for t in (1, steps)
        )
    ]
    assert distances[1] <= distances[0] / (1 + eta * tau) ** (steps - 1)


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 3), st.floats(0.01, 3))
def test_a_step_of_mirror_descent_minimises_its_objective(seed, eta, tau):
    rng = np.random.default_rng(seed)
    payoff_AM = rng.normal(size=(3, 3))
    start, anchor = (Profile(*rng.dirichlet(np.full(3, 2.0), 2)) for _ in range(2))
    step_A = mirror_descent(
        payoff_AM, tau=tau, eta=eta, steps=1, start=start, anchor=anchor
    ).last.row_A

    def objective(row_A):
        def divergence(base_A):
            return (row_A * np.log(row_A / base_A)).sum()

        gain = row_A @ payoff_AM @ start.column_M
        return -eta * gain + eta * tau * divergence(anchor.row_A) + divergence(start.row_A)

    others = [0.9 * step_A + 0.1 * other for other in rng.dirichlet(np.ones(3), 30)]
    assert objective(step_A) <= min(map(objective, others)) + 1e-12


def test_mirror_descents_own_step_is_the_largest_that_is_proved():
    """4·tau over the square of the span, which is 2 here; the last mixture is given."""
    payoff_AM = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -0.5], [-1.0, 0.5, 0.0]])
    own = mirror_descent(payoff_AM, tau=0.25, steps=7)
    given = mirror_descent(payoff_AM, tau=0.25, steps=7, eta=4 * 0.25 / 2**2)
    np.testing.assert_allclose(own.last.row_A, given.last.row_A)
    assert Solver.build("mirror").settings()["iterate"] == "last"


def test_multiplicative_weights_choose_the_step_of_their_bound():
    for steps in (20, 80):
        bound = span(BIASED) * np.sqrt(2 * np.log(3) / steps)
        eta = np.sqrt(8 * np.log(3) / steps) / span(BIASED)
        chosen, given = (
            multiplicative_weights(BIASED, steps=steps, eta=step) for step in (None, eta)
        )
        np.testing.assert_allclose(chosen.last.row_A, given.last.row_A)
        assert nash_conv(BIASED, *chosen.average) <= bound
