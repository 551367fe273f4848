"""Every rating, on populations whose strengths are known, and against other implementations."""

from typing import cast

import evalica
import numpy as np
import pytest
from openskill.models import PlackettLuce
from pydantic import ValidationError
from scipy.optimize import minimize
from scipy.special import log_expit

from equipoise.errors import ConfigError, DataError
from equipoise.payoffs.table import cross_play
from equipoise.ratings.base import (
    Duel,
    Outcome,
    Ratings,
    by_results,
    count_outcomes,
    duel_result,
    outcome_cells,
)
from equipoise.ratings.base import table_outcomes as table_outcomes
from equipoise.ratings.elo import Elo, _cells
from equipoise.ratings.openskill import OpenSkill
from equipoise.seeds import generator

POINTS = 400 / np.log(10)
# Ratings that measure Bradley–Terry strength: kind -> (the average player's rating, rating units
# per nat of strength).
STRENGTHS = {
    "elo": (1000, POINTS),
    "bradley_terry": (1000, POINTS),
    "openskill": (25, 2**0.5 * 25 / 6),
}
OF_OUTCOMES = [*STRENGTHS, "nash_average"]
KINDS = sorted(Ratings.KINDS)
QUICK = {"nash_average": {"resamples": 40}, "reputation": {"resamples": 40}}


def build(kind, **settings):
    return Ratings.build({"kind": kind, **QUICK.get(kind, {}), **settings})


def simulated(strength_N, games, seed, ties=0.0):
    """`games` between random pairs of players with Bradley–Terry `strength_N` in nats; some made
    ties.
    """
    rng = np.random.default_rng(seed)
    n = len(strength_N)
    i = rng.integers(0, n, games)
    j = (i + rng.integers(1, n, games)) % n
    won = rng.random(games) < 1 / (1 + np.exp(strength_N[j] - strength_N[i]))
    tied = rng.random(games) < ties
    return [
        Outcome(f"p{a}", f"p{b}", 0.5 if t else float(w))
        for a, b, w, t in zip(i, j, won, tied, strict=True)
    ]


def by_name(ratings):
    return {rating.name: rating for rating in ratings}


def bradley_terry(**settings):
    return Ratings.build({"kind": "bradley_terry", **settings})


@pytest.fixture(params=OF_OUTCOMES)
def rating(request):
    return build(request.param)


@pytest.fixture(params=STRENGTHS)
def strength(request):
    """(a rating of strength, its average player's rating, its units per nat)."""
    return (Ratings.build(request.param), *STRENGTHS[request.param])


def test_every_kind_is_listed():
    assert {*OF_OUTCOMES, "reputation"} == set(KINDS)


@pytest.mark.long
def test_a_transitive_population_is_put_in_order(rating):
    rated = rating.rate(simulated(np.arange(6) * 0.8, 3000, seed=0))
    assert [r.name for r in rated] == [f"p{i}" for i in reversed(range(6))]
    if rating.kind == "nash_average":
        assert (rated[0].low, rated[0].value, rated[0].high) == (0, 0, 0), (
            "no one gains against the best"
        )
        rated = rated[1:]
    assert all(r.low < r.value < r.high for r in rated)


@pytest.mark.long
def test_strengths_have_their_mean_and_unit(strength):
    rating, mean, unit = strength
    rated = rating.rate(simulated(np.arange(4) * 0.5, 2000, seed=0))
    assert np.mean([r.value for r in rated]) == pytest.approx(mean, abs=unit / 30)
    assert rated[0].value - rated[-1].value == pytest.approx(1.5 * unit, rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize("games", [60, 600])
def test_the_interval_covers_the_truth(strength, games):
    rating, mean, unit = strength
    covered = []
    for seed in range(50 if rating.kind == "bradley_terry" else 5):
        strength_N = np.random.default_rng(100 + seed).normal(0, 0.8, 4)
        truth_N = mean + unit * (strength_N - strength_N.mean())
        rated = by_name(rating.rate(simulated(strength_N, games, seed), seed=seed))
        covered += [
            rated[f"p{i}"].low <= truth <= rated[f"p{i}"].high for i, truth in enumerate(truth_N)
        ]
    assert np.mean(covered) >= 0.9


@pytest.mark.long
def test_names_order_and_sides_change_nothing(rating):
    played = simulated(np.array([0.0, 0.5, 1.5]), 400, seed=1, ties=0.2)
    renamed = {"p0": "z", "p1": "m", "p2": "a"}
    turned = [Outcome(renamed[o.second], renamed[o.first], 1 - o.value) for o in reversed(played)]
    first, second = (by_name(rating.rate(played, seed=3)), by_name(rating.rate(turned, seed=3)))
    exact = rating.kind in ("bradley_terry", "nash_average")
    for old, new in renamed.items():
        width = first[old].high - first[old].low
        # where names order the dice, they fall otherwise: within a fraction of the interval
        assert first[old].value == pytest.approx(
            second[new].value, abs=1e-6 if exact else width / 8
        )
        assert width == pytest.approx(second[new].high - second[new].low, rel=0.3)


@pytest.mark.long
def test_the_order_of_the_outcomes_and_a_repeated_call_change_nothing_at_all(rating):
    played = simulated(np.array([0.0, 0.5, 1.5]), 200, seed=2)
    assert rating.rate(played, seed=3) == rating.rate(played[::-1], seed=3)


@pytest.mark.long
def test_a_weight_is_that_many_outcomes(rating):
    one_by_one = (
        [Outcome("a", "b", 1)] * 7 + [Outcome("b", "a", 1)] * 3 + [Outcome("a", "b", 0.5)] * 2
    )
    weighted = [Outcome("a", "b", 1, 7), Outcome("b", "a", 1, 3), Outcome("a", "b", 0.5, 2)]
    assert rating.rate(one_by_one) == rating.rate(weighted)


@pytest.mark.long
def test_equals_have_equal_ratings(rating):
    mean, unit = STRENGTHS.get(rating.kind, (0, 1))
    ties = by_name(
        rating.rate([Outcome("a", "b", 0.5), Outcome("b", "c", 0.5), Outcome("c", "a", 0.5)] * 50)
    )
    traded = by_name(
        rating.rate([Outcome("a", "b", 1), Outcome("b", "c", 1), Outcome("c", "a", 1)] * 50)
    )
    for rated in (ties, traded):
        assert (
            max(r.value for r in rated.values()) - min(r.value for r in rated.values()) < unit / 8
        )
        assert all(r.low <= mean + 1e-9 and mean - 1e-9 <= r.high for r in rated.values())


def test_who_never_lost_is_first_and_finite(strength):
    rating, mean, unit = strength
    played = simulated(np.array([0.0, 0.3]), 40, seed=4) + [
        Outcome("best", f"p{i % 2}", 1) for i in range(40)
    ]
    best = rating.rate(played)[0]
    assert best.name == "best"
    assert np.isfinite([best.value, best.low, best.high]).all()
    assert best.low + unit / 4 < best.high
    assert best.low > mean


def test_groups_that_never_met_are_rated_each(strength):
    rating, *_ = strength
    rated = by_name(
        rating.rate(
            [Outcome("a", "b", 1)] * 9 + [Outcome("c", "d", 1)] * 9 + [Outcome("b", "a", 1)]
        )
    )
    assert rated["a"].value > rated["b"].value
    assert rated["c"].value > rated["d"].value
    assert np.isfinite([(r.low, r.high) for r in rated.values()]).all()


def test_one_player_and_none(rating):
    assert rating.rate([]) == []
    (alone,) = rating.rate([Outcome("a", "a", 1)])
    assert (alone.name, alone.value) == ("a", STRENGTHS.get(rating.kind, (0,))[0])


def test_without_a_game_nothing_is_claimed(strength):
    rating, mean, unit = strength
    rated = by_name(rating.rate([Outcome("a", "b", 1), Outcome("b", "a", 1), Outcome("c", "c", 1)]))
    assert rated["c"].value == pytest.approx(mean, abs=unit / 2)
    width = rated["c"].high - rated["c"].low
    assert np.isnan(width) or width > 3 * unit


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome("a", "b", 0.7), "is 0.7; it must be 1"),
        (Outcome("a", "b", float("nan")), "is nan; it must be 1"),
        (Outcome("a", "b", 1, -1.0), "weight -1.0"),
        (Outcome("a", "b", 1, float("inf")), "weight inf"),
    ],
)
def test_impossible_outcomes_name_the_players(rating, outcome, message):
    with pytest.raises(DataError, match=f"'a' and 'b'.*{message}"):
        rating.rate([Outcome("c", "d", 1), outcome])


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="did you mean 'resamples'"):
        Ratings.build({"kind": "elo", "resample": 100})


def test_counts_by_hand():
    counts = count_outcomes(
        [
            Outcome("b", "a", 1, 2),
            Outcome("b", "a", 0),
            Outcome("a", "c", 0.5, 3),
            Outcome("a", "a", 1),
        ]
    )
    assert counts.names == ["a", "b", "c"]
    assert counts.win_NN.tolist() == [[0, 1, 0], [2, 0, 0], [0, 0, 0]]
    assert counts.tie_NN.tolist() == [[0, 0, 3], [0, 0, 0], [3, 0, 0]]
    assert counts.games_N.tolist() == [6, 3, 3]


def test_bradley_terry_without_prior_is_evalicas():
    played = simulated(np.array([0.0, 0.5, 1.0, 2.0]), 500, seed=5, ties=0.1)
    winner = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    fitted = evalica.bradley_terry(
        [o.first for o in played],
        [o.second for o in played],
        [winner[o.value] for o in played],
        tolerance=1e-10,
    )
    expected = POINTS * np.log(fitted.scores)
    for r in bradley_terry(prior=0).rate(played):
        assert r.value == pytest.approx(1000 + expected[r.name] - expected.mean(), abs=1e-3)


@pytest.mark.parametrize("prior", [0.5, 1.0, 4.0])
def test_bradley_terry_maximises_its_posterior_and_reads_the_error_off_its_curvature(prior):
    played = [
        *simulated(np.array([0.0, 0.5, 1.0, 2.0]), 80, seed=6, ties=0.1),
        Outcome("never lost", "p0", 1, 5),
    ]
    counts = count_outcomes(played)
    wins_NN = counts.win_NN + counts.tie_NN / 2
    n = len(counts.names)

    def loss(strength_N):
        ahead_NN = strength_N[:, None] - strength_N
        return (
            -(wins_NN * log_expit(ahead_NN)).sum()
            - prior / 2 * (log_expit(strength_N) + log_expit(-strength_N)).sum()
        )

    best_N = minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-8}).x
    step = 1e-3 * np.eye(n)
    curvature_NN = np.array(
        [
            [
                (
                    loss(best_N + a + b)
                    - loss(best_N + a - b)
                    - loss(best_N - a + b)
                    + loss(best_N - a - b)
                )
                / 4e-6
                for a in step
            ]
            for b in step
        ]
    )
    centre_NN = np.eye(n) - 1 / n
    se_N = np.sqrt(np.diag(centre_NN @ np.linalg.inv(curvature_NN) @ centre_NN))
    rated = by_name(bradley_terry(prior=prior).rate(played))
    for i, name in enumerate(counts.names):
        assert rated[name].value == pytest.approx(
            1000 + POINTS * (best_N[i] - best_N.mean()), abs=0.05
        )
        assert rated[name].high - rated[name].value == pytest.approx(
            1.959964 * POINTS * se_N[i], rel=1e-3
        )


@pytest.mark.long
def test_bradley_terry_intervals_are_as_wide_as_evalicas_bootstrap():
    played = simulated(np.array([0.0, 0.4, 0.9]), 300, seed=7)
    drawn = evalica.bootstrap(
        cast("evalica.RankingMethod[str]", evalica.bradley_terry),
        [o.first for o in played],
        [o.second for o in played],
        [evalica.Winner.X if o.value else evalica.Winner.Y for o in played],
        n_resamples=300,
        bootstrap_method="percentile",
        random_state=0,
    )
    log_RN = np.log(drawn.distribution.to_numpy())
    spread = dict(
        zip(
            drawn.distribution,
            (POINTS * (log_RN - log_RN.mean(1, keepdims=True))).std(0),
            strict=True,
        )
    )
    for r in bradley_terry(prior=0).rate(played):
        assert r.high - r.low == pytest.approx(2 * 1.96 * spread[r.name], rel=0.2)


@pytest.mark.parametrize(
    "played",
    [
        [Outcome("a", "b", 1)] * 3,
        [Outcome("a", "b", 0.5), Outcome("c", "d", 0.5)],
        [Outcome("a", "b", 1, 0)],
    ],
)
def test_bradley_terry_without_prior_says_when_no_finite_rating_exists(played):
    with pytest.raises(ConfigError, match=r"prior 0 .*'a'.*Set prior above 0"):
        bradley_terry(prior=0).rate(played)


@pytest.mark.long
def test_elo_agrees_with_bradley_terry_within_its_jitter():
    played = simulated(np.arange(5) * 0.5, 4000, seed=8)
    exact = by_name(bradley_terry().rate(played))
    for r in Ratings.build({"kind": "elo", "resamples": 400}).rate(played):
        assert r.value == pytest.approx(exact[r.name].value, abs=12)
        assert r.low < exact[r.name].low
        assert exact[r.name].high < r.high
        assert r.high - r.low == pytest.approx(2 * 1.96 * np.sqrt(87 * 16 * 4 / 5), rel=0.25)


def test_elos_prior_is_as_many_games_a_player_as_it_says():
    counts = count_outcomes(simulated(np.arange(4) * 0.5, 300, seed=9, ties=0.2))
    first_C, second_C, weight_C, tie_C = _cells(counts, 3.0)
    without = _cells(counts, 0.0)[2]
    assert weight_C.sum() - without.sum() == pytest.approx(3.0 * 4 / 2)
    assert (weight_C[tie_C] == counts.tie_NN[first_C[tie_C], second_C[tie_C]]).all()


def test_the_interval_from_a_table_is_as_wide_as_its_clustered_error():
    rng = np.random.default_rng(10)
    luck = rng.normal(size=(2, 300))
    scores = {
        name: {str(p): (luck[i, p] + shift + 0.3 * rng.normal(size=4)).tolist() for p in range(300)}
        for i, (name, shift) in enumerate((("a", 0.4), ("b", 0.0)))
    }
    table = cross_play(scores)
    assert 300 < table.effective_NN[0, 1] < 600 < table.count_NN[0, 1]
    best, _ = bradley_terry(prior=1e-6).rate(table_outcomes(table))
    payoff, se = table.payoff_NN[0, 1], table.se_NN[0, 1]
    assert best.value == pytest.approx(1000 + POINTS * np.arctanh(payoff), rel=1e-4)
    assert best.high - best.value == pytest.approx(1.96 * POINTS * se / (1 - payoff**2), rel=0.01)


def test_openskill_is_the_packages_own_on_matches_whose_order_is_nothing():
    model = PlackettLuce(tau=0.0)
    a, b = model.rating(), model.rating()
    for _ in range(6):
        (a,), (b,) = model.rate([[a], [b]], ranks=[1, 2])
    first, second = Ratings.build("openskill").rate([Outcome("b", "a", 0, 6)])
    assert (first.name, first.value, second.value) == (
        "a",
        pytest.approx(a.mu),
        pytest.approx(b.mu),
    )
    assert first.high - first.value == pytest.approx(1.96 * a.sigma, rel=1e-4)


def test_openskills_interval_holds_the_chance_of_the_passes_too():
    """By the package itself, in the orders that the rating draws: 1.96 times the root of the mean
    variance and the variance of the means.
    """
    played = [Outcome(first, second, 1.0) for first, second in ("ab", "bc", "ca", "ab")]
    played += [Outcome("a", "c", 0.5)] * 3
    rated = OpenSkill(passes=4, beta=2.0).rate(played, seed=3)
    counts, _ = by_results(count_outcomes(played))
    first_C, second_C, weight_C, tie_C = outcome_cells(counts)
    dice, model = generator(3, "openskill"), PlackettLuce(beta=2.0, tau=0.0)
    means, variances = [], []
    for _ in range(4):
        times_C = np.floor(weight_C + dice.random(len(weight_C))).astype(int)
        order = dice.permutation(np.repeat(np.arange(len(weight_C)), times_C))
        beliefs = [model.rating() for _ in counts.names]
        for cell in order:
            i, j = int(first_C[cell]), int(second_C[cell])
            ranks = [1, 1] if tie_C[cell] else [1, 2]
            (beliefs[i],), (beliefs[j],) = model.rate([[beliefs[i]], [beliefs[j]]], ranks=ranks)
        means.append([belief.mu for belief in beliefs])
        variances.append([belief.sigma**2 for belief in beliefs])
    spread_N = np.mean(variances, 0) + np.var(means, 0, ddof=1)
    assert (np.var(means, 0, ddof=1) > 1e-4).all(), "the order matters here"
    half = dict(zip(counts.names, 1.959964 * np.sqrt(spread_N), strict=True))
    assert {r.name: r.value for r in rated} == pytest.approx(
        dict(zip(counts.names, np.mean(means, 0), strict=True))
    )
    assert {r.name: r.high - r.value for r in rated} == pytest.approx(half)
    assert {r.name: r.value - r.low for r in rated} == pytest.approx(half)


def test_elos_interval_is_the_middle_95_percent_of_its_walks():
    played = [Outcome("a", "b", 1.0)] * 30 + [Outcome("b", "a", 1.0)] * 20
    elo = Elo(length=60)
    counts, _ = by_results(count_outcomes(played))
    ends_RN = elo._walks(counts, 5)
    low_N, middle_N, high_N = np.quantile(ends_RN, [0.025, 0.5, 0.975], axis=0)
    rated = {r.name: r for r in elo.rate(played, seed=5)}
    for n, name in enumerate(counts.names):
        found = (rated[name].low, rated[name].value, rated[name].high)
        assert found == pytest.approx((low_N[n], middle_N[n], high_N[n]))


RENAMED = {"a": "zoe", "b": "ann", "c": "mia", "d": "Bob", "e": "kim"}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["elo", "openskill", "nash_average", "bradley_terry"])
def test_renaming_players_moves_no_rating(kind):
    """Nor does the order of the outcomes."""
    dice = generator(1, "renaming")
    chances = {"ab": 0.7, "ac": 0.4, "ad": 0.9, "ae": 0.5, "bc": 0.6, "bd": 0.5, "be": 0.2}
    chances |= {"cd": 0.8, "ce": 0.3, "de": 0.6}
    played = [
        Outcome(*pair, float(dice.random() < chance))
        for pair, chance in chances.items()
        for _ in range(9)
    ]
    renamed = [Outcome(RENAMED[o.second], RENAMED[o.first], 1 - o.value) for o in played[::-1]]
    rated = {RENAMED[r.name]: (r.value, r.low, r.high) for r in Ratings.build(kind).rate(played)}
    again = {r.name: (r.value, r.low, r.high) for r in Ratings.build(kind).rate(renamed)}
    for name, values in rated.items():
        assert again[name] == pytest.approx(values)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["elo", "openskill"])
def test_players_who_did_alike_have_one_rating(kind):
    circle = [Outcome(first, second, 1.0) for first, second in ("ab", "bc", "ca")]
    values = {rating.value for rating in Ratings.build(kind).rate(circle)}
    assert len(values) == 1
    pairs = [Outcome(f"p{i}", f"p{j}", 0.5) for i in range(4) for j in range(i)]
    _, class_N = by_results(count_outcomes(pairs))
    assert class_N.tolist() == [0] * 4


def test_openskill_counts_a_fraction_of_an_outcome_on_average():
    half = Ratings.build({"kind": "openskill", "passes": 200}).rate([Outcome("a", "b", 1, 0.5)])
    once = Ratings.build("openskill").rate([Outcome("a", "b", 1)])
    assert half[0].value - 25 == pytest.approx((once[0].value - 25) / 2, rel=0.2)
    assert half[0].high - half[0].low > once[0].high - once[0].low


# --- training ratings: those of the players of a population, from duels with judges' scores
# -------------------------------


def duels(pairs, seed):
    """Duels of a, b, c, d, of which later ones answer better; the other two judge."""
    rng = np.random.default_rng(seed)
    for i, j in pairs:
        judges = [name for k, name in enumerate("abcd") if k not in (i, j)]
        scores = {judge: (5 + i + 2 * rng.normal(), 5 + j + 2 * rng.normal()) for judge in judges}
        yield Duel("abcd"[i], "abcd"[j], scores)


ALL_PAIRS = [(i, j) for i in range(4) for j in range(4) if i != j]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_training_ratings_puts_a_population_in_order(kind):
    rating = build(kind)
    generations = [list(duels(ALL_PAIRS * 20, seed)) for seed in (0, 1)]
    rated = rating.training_ratings("abcd", generations, seed=2)
    told = 2 if kind == "nash_average" else 4  # how a and b fare against the best differs by little
    assert [r.name for r in rated][:told] == list("dcba")[:told]
    assert all(r.low <= r.value <= r.high for r in rated)
    assert rated == rating.training_ratings("abcd", generations, seed=2)
    unjudged = [*generations[:1], [*generations[1], Duel("a", "d", {})]]
    assert rated == rating.training_ratings("abcd", unjudged, seed=2), "an unjudged duel is no duel"


@pytest.mark.long
@pytest.mark.parametrize("kind", OF_OUTCOMES)
def test_training_ratings_of_outcomes_looks_at_the_last_generation_alone(kind):
    rating = build(kind)
    last = list(duels(ALL_PAIRS[:9], 3))
    assert rating.training_ratings(
        "abcd", [list(duels(ALL_PAIRS, 4)), last], 5
    ) == rating.training_ratings("abcd", [last], 5)
    assert (
        rating.training_ratings("abcd", [last, []], 5)
        == []
        == rating.training_ratings("abcd", [], 5)
    )
    met = rating.training_ratings("abcd", [[Duel("a", "b", {"c": (3, 4)})]], 5)
    assert {r.name for r in met} == {"a", "b"}, "who met nobody is not listed"


def test_training_ratings_decides_by_the_mean_of_the_scores():
    assert duel_result(Duel("a", "b", {"c": (9, 1), "d": (2, 3)})) == 1
    assert duel_result(Duel("a", "b", {"c": (5, 5), "d": (2, 3)})) == 0
    assert (
        duel_result(Duel("a", "b", {"c": (0.1, 0.3), "d": (0.5, 0.3)}))
        == duel_result(Duel("a", "b", {"c": (2, 2)}))
        == 0.5
    )
    best, _ = Ratings.build("bradley_terry").training_ratings(
        "ab", [[Duel("a", "b", {"c": (1, 2)})]]
    )
    assert best == Ratings.build("bradley_terry").rate([Outcome("b", "a", 1)])[0]
