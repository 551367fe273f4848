"""Does a text name an action of the true frontier? The published rule's cases."""

import pytest

from equipoise.environments.assistance import named_on_frontier

DA, CQ, AQ = ("DQ_DA",), ("VQ_CQ",), ("DQ_AQ",)


@pytest.mark.parametrize(
    ("analyze", "front"),
    [
        ("On the frontier: DQ_DA. Choose DQ_DA.", DA),
        ("Choose DA.", DA),
        ("**da**", DA),
        ("The best is DQ-DA", ("DA",)),
        ("VQ_DA", DA),  # the action, whatever the question
        ("DA, CQ and AQ are all on the frontier.", CQ),  # others besides
        ("Choose DA.", (*DA, *CQ, *AQ)),  # others missing
        ("DA and AQ are non-dominated, but DA is slightly better.", AQ),
        ("DA beats CQ and AQ.", DA),
        ("CQ is dominated by DA.", DA),
        ("Not CQ: choose AQ.", AQ),
    ],
)
def test_clearly_named(analyze, front):
    assert named_on_frontier(analyze, front) == 1.0


@pytest.mark.parametrize(
    ("analyze", "front"),
    [
        ("I would ask the user for clarification first.", CQ),
        ("Answer directly, since nothing is unclear.", DA),
        ("Answer, and then ask one more question.", AQ),
        ("DA is possible, but CQ is clearly the best. Choose CQ.", DA),
        ("DQ_AQ is on the frontier, but I choose VQ_CQ.", AQ),
    ],
)
def test_implied_or_overshadowed(analyze, front):
    assert named_on_frontier(analyze, front) == 0.5


@pytest.mark.parametrize(
    ("analyze", "front"),
    [
        (None, DA),
        ("", DA),
        ("Nothing stands out.", DA),
        ("The data show nothing.", DA),
        ("CQ is best.", DA),
        ("Choose DA over CQ.", CQ),
        ("CQ and AQ are dominated by DA.", (*CQ, *AQ)),
        ("AQ is not on the frontier.", AQ),
        ("DA beats CQ and AQ.", (*CQ, *AQ)),
        ("It is better to answer than to ask.", CQ),
        ("Choose DA.", ()),
    ],
)
def test_not_named(analyze, front):
    assert named_on_frontier(analyze, front) == 0.0
