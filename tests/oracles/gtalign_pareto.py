"""GTAlign's comparison of two runs by the points (user, model) of the same inputs (arXiv
2510.08872), by its definitions, point by point.
"""

from math import sqrt
from random import Random

CASES = ((0.0, 30), (0.05, 45))


def vectors() -> list:
    dice = Random(29)
    return [case(eps, rows, dice) for eps, rows in CASES]


def case(eps: float, rows: int, dice: Random) -> dict:
    first, second = (
        [(round(dice.random(), 3), round(dice.random(), 3)) for _ in range(rows)] for _ in range(2)
    )
    second[0] = first[0]
    second[1] = (first[1][0] + eps, first[1][1] - eps)
    wins, losses, same = 0, 0, 0
    for a, b in zip(first, second, strict=True):
        ahead, behind = dominates(a, b, eps), dominates(b, a, eps)
        wins += ahead and not behind
        losses += behind and not ahead
        same += a == b and not ahead
    both = [*first, *second]
    lows = [min(point[k] for point in both) for k in (0, 1)]
    highs = [max(point[k] for point in both) for k in (0, 1)]
    ranges = [high - low for low, high in zip(lows, highs, strict=True)]
    best = [p for p in both if not any(dominates(q, p, 0.0) for q in both)]
    found = {
        name: summary(points, best, ranges, eps)
        for name, points in (("file1", first), ("file2", second))
    }
    return {
        "eps": eps,
        "first": listed(first),
        "second": listed(second),
        "expected": {
            "basic_compare": {
                "common_count": rows,
                "file1_dominates_file2": wins,
                "file2_dominates_file1": losses,
                "equal": same,
                "incomparable": rows - wins - losses,
            },
            "ranges": dict(
                zip(
                    ("u_min", "u_max", "l_min", "l_max"),
                    (lows[0], highs[0], lows[1], highs[1]),
                    strict=True,
                )
            ),
            **{
                key: {name: numbers[key] for name, numbers in found.items()}
                for key in found["file1"]
            },
        },
    }


def listed(points: list) -> list:
    return [
        {"input": f"q{n}", "user_reward": user, "llm_reward": llm}
        for n, (user, llm) in enumerate(points)
    ]


def dominates(b: tuple, a: tuple, eps: float) -> bool:
    """b ε-dominates a."""
    more = [x - (y - eps) for x, y in zip(b, a, strict=True)]
    return min(more) >= 0 and max(more) > 0


def summary(points: list, best: list, ranges: list, eps: float) -> dict:
    covered, regret, welfare = 0, 0.0, 0.0
    for point in points:
        short = [[f[k] - point[k] for k in (0, 1)] for f in best]
        covered += any(
            all(gap <= eps * size for gap, size in zip(gaps, ranges, strict=True)) for gaps in short
        )
        regret += min(
            max(max(gap / size, 0.0) for gap, size in zip(gaps, ranges, strict=True))
            for gaps in short
        )
        user, llm = (max(x, 0.0) + 1e-9 for x in point)
        welfare += sqrt(user) * sqrt(llm)
    spreads = [(max(p[k] for p in points) - min(p[k] for p in points)) / ranges[k] for k in (0, 1)]
    count = len(points)
    return {
        "epsilon_coverage": covered / count,
        "avg_regret_Linf": regret / count,
        "NSW_avg": welfare / count,
        "CobbDouglas_avg": welfare / count,
        "coverage_spread": {"u_cov": spreads[0], "l_cov": spreads[1], "mean_cov": sum(spreads) / 2},
    }
