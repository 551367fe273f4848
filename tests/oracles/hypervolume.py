"""The area that points dominate above a reference, both coordinates maximised, by adding up the
cells of the grid that their coordinates make.
"""

from itertools import pairwise
from random import Random


def area(points: list, reference: tuple) -> float:
    xs = sorted({reference[0], *(x for x, _ in points if x > reference[0])})
    ys = sorted({reference[1], *(y for _, y in points if y > reference[1])})
    return sum(
        (right - left) * (top - bottom)
        for left, right in pairwise(xs)
        for bottom, top in pairwise(ys)
        if any(x >= right and y >= top for x, y in points)
    )


def vectors() -> list:
    dice = Random(31)
    cases = []
    for count, reference in ((3, (0, 0)), (1, (0, 0)), (12, (0.2, 0.3)), (6, (2, 2))):
        points = [(round(dice.random(), 3), round(dice.random(), 3)) for _ in range(count)]
        cases.append(
            {
                "points": points,
                "reference": reference,
                "hypervolume": float(area(points, reference)),
            }
        )
    return cases
