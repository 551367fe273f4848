"""A comparison of arms: signs, what is counted, what is corrected, who beats whom."""

import math

import numpy as np
import pytest

from equipoise.evaluation.compared_arms import Arm, Measured, Sheet, compare
from equipoise.payoffs.intervals import mean_interval, paired_difference
from equipoise.payoffs.table import Meeting

SET = "held: score"


def arm(name, scores, *, seed="", missing=0, measure=SET, **more):
    """One arm of one run: scores by item, a number or a list of samples."""
    by_item = {
        item: value if isinstance(value, list) else [value] for item, value in scores.items()
    }
    return Arm(name, (Sheet(name, {measure: Measured(by_item, missing, **more)}, seed),))


def drawn(seed, items=40, chance=0.5):
    dice = np.random.default_rng(seed)
    return {f"p{i}": float(dice.random() < chance) for i in range(items)}


def test_the_difference_is_that_of_the_reports_numbers():
    first, second = drawn(1, chance=0.9), drawn(2, chance=0.3)
    numbers = compare([arm("a", first), arm("b", second)])
    [each] = numbers.differences
    assert each.interval == paired_difference(
        [first[item] - second[item] for item in first], share=True
    )
    assert each.together == each.interval  # a single comparison needs no correction
    assert each.items == 40 and each.differs and each.word == "a is ahead"
    rows = {row.arm: row for row in numbers.standings[SET]}
    assert rows["a"].score == mean_interval(list(first.values()), list(first))
    assert (rows["a"].first, rows["a"].last, rows["b"].first) == (1, 1, 2)


def test_exchanged_targets_turn_the_sign():
    sides = [arm("a", drawn(1)), arm("b", drawn(2))]
    [there] = compare(sides).differences
    [back] = compare(sides[::-1]).differences
    assert there.interval.mean == -back.interval.mean
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.adjusted == back.adjusted and there.smallest == pytest.approx(back.smallest)


def test_items_of_one_alone_and_missing_scores_are_counted_and_count_nowhere():
    first = {"p1": 1.0, "p2": 0.0, "only": 1.0, "silent": []}
    second = {"p1": 0.0, "p2": 0.0, "p9": 0.0, "p8": 1.0}
    numbers = compare([arm("a", first, missing=3), arm("b", second)])
    [each] = numbers.differences
    assert (each.items, each.only_first, each.only_second) == (2, 1, 2)
    assert each.interval.mean == 0.5
    assert {row.arm: (row.prompts, row.missing) for row in numbers.standings[SET]} == {
        "a": (3, 3),
        "b": (4, 0),
    }


def test_samples_of_a_prompt_are_one_item():
    first = {"p1": [1.0, 1.0, 0.0], "p2": [0.0], "p3": [1.0]}
    second = {"p1": [0.0, 0.0], "p2": [0.0, 0.0], "p3": [1.0]}
    [each] = compare([arm("a", first), arm("b", second)]).differences
    assert each.items == 3 and each.interval.mean == pytest.approx((2 / 3 + 0 + 0) / 3)


def test_where_lower_is_better_the_lower_one_is_ahead():
    first, second = dict.fromkeys(drawn(1), 5.0), dict.fromkeys(drawn(1), 7.0)
    first["p1"] = 5.5
    numbers = compare(
        [arm("a", first, higher_is_better=False), arm("b", second, higher_is_better=False)]
    )
    [each] = numbers.differences
    assert each.interval.mean < 0 and each.word == "a is ahead"
    assert numbers.standings[SET][0].arm == "a" and numbers.standings[SET][0].last == 1
    assert numbers.win_rates[0].rates["a", "b"].mean == 1.0


def test_a_set_that_one_has_and_one_measured_otherwise_are_said():
    sides = [
        arm("a", drawn(1), settings={"temperature": 0}),
        arm("b", drawn(2), settings={"temperature": 1}),
        arm("c", drawn(3), measure="other: score"),
    ]
    notes = compare(sides).notes
    assert "other: score: only c has it, so it is not compared" in notes
    assert f"{SET}: c has no score on it" in notes
    assert f"{SET}: was not measured alike everywhere (temperature differ)" in notes


def test_more_comparisons_need_wider_intervals():
    sides = [arm(f"m{i}", drawn(i)) for i in range(6)]
    alone = compare(sides[:2]).differences[0]
    among = compare(sides).differences[0]
    assert among.interval == alone.interval
    assert among.together.low < alone.together.low and among.adjusted >= alone.adjusted
    assert among.smallest > alone.smallest


def test_a_circle_is_shown_with_its_nash_mass():
    circle = {"a": [3, 2, 1], "b": [2, 1, 3], "c": [1, 3, 2]}
    sides = []
    for name, ranks in circle.items():
        sides.append(arm(name, {f"p{i}": float(ranks[i % 3]) for i in range(60)}))
    [rates] = compare(sides).win_rates
    assert rates.rates["a", "b"].mean == pytest.approx(2 / 3)
    assert rates.rates["a", "b"].n == 60
    assert rates.mixture == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, abs=1e-6)
    assert rates.circles[0][0] == ("a", "b", "c") and rates.cyclic_triples == 1.0
    assert rates.gaps["b"][1] == "a" and rates.gaps["b"][0].low > 0


def replicates(name, gap, seeds, items=30, spread=0.02):
    sheets = []
    for seed in seeds:
        dice = np.random.default_rng([int(seed), ord(name)])
        level = gap + dice.normal(0, spread)
        scores = {f"p{i}": [0.1 * i + level + dice.normal(0, 0.05)] for i in range(items)}
        sheets.append(Sheet(f"{name}{seed}", {SET: Measured(scores)}, seed))
    return Arm(name, tuple(sheets))


def test_replicates_have_intervals_over_seeds_and_an_exact_test():
    [each] = compare([replicates("a", 0.5, "123456"), replicates("b", 0.0, "123456")]).differences
    assert each.seeds == (6, 6) and each.items == 30
    assert each.seed_p == 2 / 2**6 and each.differs
    [unpaired] = compare([replicates("a", 0.5, "123"), replicates("b", 0.0, "789")]).differences
    assert unpaired.seed_p == 2 / 20 and unpaired.seeds == (3, 3)
    [single] = compare([replicates("a", 0.5, "123"), replicates("b", 0.0, "9")]).differences
    assert single.seeds == (3, 1) and math.isfinite(single.interval.low)


def test_what_hangs_on_one_seed_is_not_shown():
    sides = [replicates("a", 0.0, "123"), replicates("b", 0.0, "123")]
    first, *others = sides[0].sheets
    high = {item: [value[0] + 50] for item, value in first.measures[SET].scores.items()}
    low = {
        sheet.seed: {item: [value[0] - 0.5] for item, value in sheet.measures[SET].scores.items()}
        for sheet in others
    }
    sheets = [Sheet("x", {SET: Measured(high)}, first.seed)]
    sheets += [Sheet(f"y{seed}", {SET: Measured(scores)}, seed) for seed, scores in low.items()]
    [each] = compare([Arm("a", tuple(sheets)), sides[1]]).differences
    assert each.one_seed and not each.differs


def test_matches_between_targets_are_counted_by_prompt():
    met = [Meeting("a", "b", 1.0, f"p{i % 20}") for i in range(60)]
    sheets = [Sheet("a", meetings={"people": met}), Sheet("b")]
    numbers = compare([Arm(sheet.key, (sheet,)) for sheet in sheets])
    [each] = numbers.differences
    assert each.items == 20 and each.interval.mean == 1.0 and each.interval.low < 0.95
    [rates] = numbers.win_rates
    assert rates.table.count_NN[0, 1] == 60  # of one value or not
    assert rates.rates["a", "b"].n == 20 and 0.6 < rates.rates["a", "b"].low < 0.95
    assert numbers.standings["wins less losses by people"][0].arm == "a"


@pytest.mark.slow
def test_equal_players_are_said_to_differ_in_one_comparison_of_twenty_at_most():
    """In 1,000 comparisons of five equal players no pair of ten is, but in 5 % of them."""
    dice = np.random.default_rng(11)
    claims = 0
    for _ in range(1_000):
        chance_P = dice.beta(2, 2, 40)
        sides = []
        for i in range(5):
            right_PK = dice.random((40, 2)) < chance_P[:, None]
            scores = {f"p{p}": right_PK[p].astype(float).tolist() for p in range(40)}
            sides.append(arm(f"m{i}", scores))
        claims += any(each.differs for each in compare(sides).differences)
    assert claims <= 70  # 50 in expectation, 7 a standard error


def test_shares_of_two_runs_a_side_differ_by_one_at_most():
    sides = []
    for name, chances in (("a", (0.9, 0.5)), ("b", (0.4, 0.6))):
        sheets = []
        for seed, chance in enumerate(chances):
            dice = np.random.default_rng([seed, ord(name)])
            scores = {f"p{i}": [float(dice.random() < chance)] for i in range(30)}
            sheets.append(Sheet(f"{name}{seed}", {SET: Measured(scores)}, str(seed)))
        sides.append(Arm(name, tuple(sheets)))
    [each] = compare(sides).differences
    assert (each.interval.low, each.interval.high) == (-1.0, 1.0)
    assert each.smallest > 1
