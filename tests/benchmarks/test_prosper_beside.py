"""The benchmark of PROSPER beside other ways to make one score of several."""

import numpy as np
import pytest

from benchmarks import prosper_beside
from equipoise.judges.panel import Panel
from equipoise.runs import recipe_loader


def test_the_share_preferred_to_the_start_is_by_each_criterion():
    last_NC = np.array([[1.0, 0.2], [1.0, 0.2], [0.0, 0.9], [1.0, 0.5]])
    start_NC = np.array([[0.0, 0.5], [0.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
    assert prosper_beside.shares(last_NC, start_NC).tolist() == [0.625, 0.375]


@pytest.mark.parametrize(("words", "score"), [(1, 11 / 12), (3, 0.75), (12, 0.0), (30, 0.0)])
def test_brief_falls_with_words(words, score):
    assert prosper_beside.brief("", "a " * words) == pytest.approx(score)


def test_every_arm_is_the_same_criteria_put_together_otherwise():
    hows = {}
    for arm, settings in prosper_beside.ARMS.items():
        judge = recipe_loader.load_announced("prosper_clerks", settings, lambda _: None).judge
        assert isinstance(judge, Panel) and set(judge.judges) == {"right", "brief"}
        hows[arm] = (judge.how, judge.standardise)
    assert hows == {
        "prosper": ("prosper", False),
        "sum": ("mean", True),
        "minimum": ("least", False),
        "product": ("product", False),
    }
