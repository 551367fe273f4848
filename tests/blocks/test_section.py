"""Numbers and names as pages and the terminal show them."""

from math import inf, nan

import numpy as np
import pytest

from equipoise.blocks.figures import bars, bin_series
from equipoise.blocks.section import finite_or_none, label, number


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.861, "%", "86.1 %"),
        (None, "", "–"),
        (nan, "%", "–"),
        (inf, "nats", "–"),
        (0.0, "", "0"),
        (12.3456, "nats", "12.35 nats"),
        (1234567.8, "", "1,234,568"),
    ],
)
def test_a_number_to_read(value, unit, shown):
    assert number(value, unit) == shown


def test_what_is_missing_or_infinite_is_null():
    assert [finite_or_none(value) for value in (None, nan, inf, -inf, 2)] == [
        *(None, None, None, None, 2.0)
    ]


def test_a_label_has_no_markup_and_keeps_its_end():
    assert label("<b>$x</b>\n y") == "&lt;b&gt;&#36;x&lt;/b&gt; y"
    shown = label(f"{'long' * 20}@12")
    assert shown.endswith("@12")
    assert len(shown) == 48
    assert "…" in shown


def test_points_of_a_long_series_are_means():
    x, y, size = bin_series(np.arange(7.0), np.array([0, 2, 4, 6, 8, 10, 30.0]), most=4)
    assert size == 2
    assert (x.tolist(), y.tolist()) == ([0.5, 2.5, 4.5, 6.0], [1, 5, 9, 30])


def test_the_first_of_several_names_is_on_top():
    figure = bars("shares", [("a", 0.75), ("b", 0.25)])
    assert figure.layout["yaxis"]["range"] == [1.5, -0.5]
    assert figure.layout["yaxis"]["ticktext"] == ["a", "b"]
