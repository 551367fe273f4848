"""The sections on the assistant's game: what they draw, what they leave out, and that answers stay
text.
"""

import assistance_run
import numpy as np
import plotly.graph_objects as go
import pytest

from equipoise.blocks.section import Figure, Table
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.environments.assistance.moves import choices_figure, moves_section, written_section
from equipoise.environments.assistance.record import WrittenGames
from equipoise.environments.assistance.welfare_section import (
    UtilityPoints,
    plane_figure,
    plane_section,
    welfare_section,
)
from equipoise.evaluation.measures import History, Measurement, Records

SECTIONS = (welfare_section, plane_section, moves_section, written_section)


def measurement(t, **more):
    return Measurement(t, AssistanceMeasures.read(assistance_run.measured(t, **more)))


def history(*measurements, **more):
    return History(("policy",), measurements, Assistance(), **more)


@pytest.fixture(scope="module")
def collected():
    sources = ("clerk", "wildguard")
    measurements = [measurement(t, sources=sources) for t in (0, 2, 4)]
    beside = {"<b>other</b>@2": measurement(2, ahead=0.1)}
    return history(*measurements, beside=beside)


def blocks(section, kind):
    return [block for block in section.blocks if isinstance(block, kind)]


def test_an_unmeasured_run_says_so():
    sections = AssistanceMeasures.sections(history(), Records())
    assert all(section.reason and not section.blocks for section in sections)


def test_the_plane_has_points_front_and_mean_of_each(collected):
    [figure] = blocks(plane_section(collected), Figure)
    assert len(figure.data) == 9
    points, steps, mean = figure.data[3:6]
    assert points["name"] == "generation 4"
    assert len(points["x"]) == 6
    # The front of generation 4 is p4 (more for the user) and p5 (more for the model); steps reach
    # both axes' ends.
    assert steps["x"] == [0.0, 0.5, 0.55, 0.55]
    assert steps["y"] == [0.53, 0.53, 0.52, 0.0]
    assert steps["line"]["shape"] == "vh"
    assert mean["x"] == [pytest.approx(0.525)]
    assert mean["y"] == [pytest.approx(0.505)]
    assert {trace["legendgroup"] for trace in figure.data[6:]} == {"2"}
    assert "&lt;b&gt;" in figure.data[6]["name"]
    assert [row[0] for row in figure.table.rows] == [
        "generation 0",
        "generation 4",
        "<b>other</b>@2",
    ]
    assert figure.table.rows[1][1:] == ("6", "0.525", "0.505", "2", "0.24")


def test_negative_points_and_many_points():
    many = UtilityPoints("many", np.linspace([-1.0, 2.0], [1.0, 0.5], 5000), np.array([0, 4999]))
    figure = plane_figure([many])
    points, steps, _ = figure.data
    assert len(points["x"]) <= 1200
    assert "evenly" in figure.note
    assert figure.layout["showlegend"] is False
    assert steps["x"] == [-1.0, -1.0, 1.0, 1.0]
    assert steps["y"][-1] == 0.0


def test_moves_add_up_and_keep_their_counts(collected):
    [figure] = blocks(moves_section(collected), Figure)
    assert figure.layout["barmode"] == "stack"
    totals = np.sum([trace["x"] for trace in figure.data], axis=0)
    assert totals == pytest.approx([1.0] * 4)
    assert figure.table.rows[1] == (
        "vague, generation 4",
        "10.0 %",
        "80.0 %",
        "5.0 %",
        "5.0 %",
        "4",
    )


def test_matrices_share_one_scale_and_choices_are_shares(collected):
    user, model, chosen, follow, _ = blocks(written_section(collected), Figure)
    assert user.data[0]["z"] == [[1.0, 0.5, 0.0], [2.5, 2.0, 1.5]]
    assert user.title.endswith("vague questions")
    assert model.data[0]["text"][1] == ["−0.50", "−0.10", "0.30"]
    assert user.data[0]["zmax"] == model.data[0]["zmax"] == 2.5 == -user.data[0]["zmin"]
    assert chosen.data[0]["z"] == [[0.0, 0.0, 0.0], [0.0, 0.6, 0.0]]
    assert "40.0 % of the choices" in chosen.note
    assert [trace["name"] for trace in follow.data] == ["sum", "nash"]
    bare = choices_figure(WrittenGames(2, {}, {"none": 2}))
    assert "100.0 % of the choices name no cell" in bare.note
    assert (bare.data[0]["zmin"], bare.data[0]["zmax"]) == (0.0, 1e-6)  # a scale all the same
    assert (chosen.data[0]["zmin"], chosen.data[0]["zmax"]) == (0.0, 0.6)


def test_sources_have_a_table_where_there_are_several(collected):
    [table, pairs, requests] = blocks(welfare_section(collected), Table)
    assert pairs.rows == (("welfare, user", "0.50", "0.40", "0.30"),)
    assert ("clerk", "clear", "4", "50.0 %", "25.0 %", "33.3 %") in requests.rows
    assert ("clerk", "mean of the classes", "", "", "", "33.3 %") in requests.rows
    assert [row[:2] for row in table.rows] == [
        ("clerk", "0"),
        ("clerk", "4"),
        ("wildguard", "0"),
        ("wildguard", "4"),
    ]
    titles = [figure.title for figure in blocks(welfare_section(collected), Figure)]
    assert titles[0] == "Welfare and both utilities"
    assert titles[-1] == "Earlier generations that dominate the last"


def test_plotly_accepts_every_figure(collected):
    def filled(value, key=""):
        if isinstance(value, dict):
            return {k: filled(v, k) for k, v in value.items()}
        if key == "colorscale":
            return [[at, "#123456"] for at, _ in value]
        if isinstance(value, list | tuple):
            return [filled(item) for item in value]
        return "#123456" if key.endswith("color") and isinstance(value, str) else value

    figures = [figure for make in SECTIONS for figure in blocks(make(collected), Figure)]
    assert len(figures) > 10
    for figure in figures:
        go.Figure(data=filled(list(figure.data)), layout=filled(dict(figure.layout)))
