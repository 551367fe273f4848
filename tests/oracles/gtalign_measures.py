"""GTAlign's other measures (arXiv 2510.08872), point by point: its ε-indicator, scalarisation regret
and constrained AUC beside the plain ones, its hypervolume, and precision, recall and F1 by class.
"""

from random import Random


def weighted(points, weight):
    return max(weight * u + (1 - weight) * l for u, l in points)


def lack(a, b):
    return max(b[0] - a[0], b[1] - a[1])


def area(points, everything, held, levels, released):
    shares = []
    for level in levels:
        own = [p[1 - held] for p in points if p[held] >= level]
        best = [p[1 - held] for p in everything if p[held] >= level]
        if best and max(best) > 0:
            shares.append(max(own) / max(best) if own else 0.0)
        elif released:
            shares.append(0.0)
    return sum(shares) / len(shares)


def classes(true, predicted):
    found = {}
    for name in sorted({*true, *predicted}):
        pairs = [(t == name, p == name) for t, p in zip(true, predicted, strict=True)]
        right = pairs.count((True, True))
        precision = right / max(1, sum(p for _, p in pairs))
        recall = right / max(1, sum(t for t, _ in pairs))
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        found[name] = [precision, recall, f1, sum(t for t, _ in pairs)]
    return found


def vectors():
    dice = Random(31)
    cases = []
    for n in (1, 6, 15):
        first, second = (
            [[round(dice.random(), 3), round(dice.random() * 0.8, 3)] for _ in range(n)]
            for _ in range(2)
        )
        weights = [round(dice.random(), 3) for _ in range(9)]
        both, levels = [*first, *second], [k / 19 for k in range(20)]
        regrets = [weighted(both, w) - weighted(first, w) for w in weights]
        best_to_user = max(first)
        expected = {
            "epsilon": max(min(lack(a, b) for a in first) for b in second),
            "epsilon released": max(min(lack(a, b) for b in second) for a in first),
            "regret": sum(regrets) / len(regrets),
            "regret, median": sorted(regrets)[4],
            "hypervolume released": best_to_user[0] * best_to_user[1],
        }
        for held, side in ((0, "user"), (1, "llm")):
            expected[f"{side} held"] = area(first, both, held, levels, False)
            expected[f"{side} held, released"] = area(first, both, held, levels, True)
        cases.append({"first": first, "second": second, "weights": weights, "expected": expected})
    true, predicted = ([dice.choice(["harmful", "harmless"]) for _ in range(20)] for _ in "tp")
    return {
        "points": cases,
        "classes": {"true": true, "predicted": predicted, "expected": classes(true, predicted)},
    }
