"""The sections on the assistant's game: what they draw, what they leave out, and that
answers stay text.
"""

import assistance_run
import numpy as np
import plotly.graph_objects as go
import pytest
from test_html import Page

from equipoise.environments.assistance import page as assistance
from equipoise.environments.assistance import page_facts as assisted
from equipoise.report import learning
from equipoise.report.facts import Assistance, Facts, Plane, Written
from equipoise.report.html import render
from equipoise.report.section import Figure, Table
from equipoise.run.collect import facts
from equipoise.run.directory import Run

SECTIONS = (assistance.welfare, assistance.plane, assistance.moves, assistance.written)
OTHER = assisted.plane("<b>other</b>@2", assistance_run.measured(2, ahead=0.1))


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    folder = assistance_run.write_run(
        tmp_path_factory.mktemp("assistance") / "run", sources=("clerk", "wildguard")
    )
    with Run.read(folder) as run:
        return facts(run, beside=[OTHER])


def blocks(section, kind):
    assert section is not None
    return [block for block in section.blocks if isinstance(block, kind)]


def test_other_runs_have_none_of_this_and_an_unmeasured_one_says_so():
    assert [make(Facts("plain")) for make in SECTIONS] == [None] * 4
    sections = [make(Facts("empty", assistance=Assistance())) for make in SECTIONS]
    assert all(
        section is not None and section.reason and not section.blocks
        for section in sections
    )
    assert learning.curves(Facts("empty", assistance=Assistance())).reason


def test_the_plane_has_points_front_and_mean_of_each(collected):
    [figure] = blocks(assistance.plane(collected), Figure)
    assert len(figure.data) == 9
    points, steps, mean = figure.data[3:6]
    assert points["name"] == "generation 4" and len(points["x"]) == 6
    # The front of generation 4 is p4 (more for the user) and p5 (more for the model);
    # steps reach both axes' ends.
    assert steps["x"] == [0.0, 0.5, 0.55, 0.55] and steps["y"] == [
        0.53,
        0.53,
        0.52,
        0.0,
    ]
    assert steps["line"]["shape"] == "vh"
    assert mean["x"] == [pytest.approx(0.525)] and mean["y"] == [pytest.approx(0.505)]
    assert {trace["legendgroup"] for trace in figure.data[6:]} == {
        "2"
    } and "&lt;b&gt;" in figure.data[6]["name"]
    assert [row[0] for row in figure.table.rows] == [
        "generation 0",
        "generation 4",
        "<b>other</b>@2",
    ]
    assert figure.table.rows[1][1:] == ("6", "0.525", "0.505", "2", "0.24")


def test_negative_points_and_many_points():
    many = Plane(
        "many", np.linspace([-1.0, 2.0], [1.0, 0.5], 5000), np.array([0, 4999])
    )
    [figure] = blocks(
        assistance.plane(Facts("t", assistance=Assistance(planes=(many,)))), Figure
    )
    points, steps, _ = figure.data
    assert (
        len(points["x"]) <= 1200
        and "evenly" in figure.note
        and figure.layout["showlegend"] is False
    )
    assert steps["x"] == [-1.0, -1.0, 1.0, 1.0] and steps["y"][-1] == 0.0


def test_moves_add_up_and_keep_their_counts(collected):
    [figure] = blocks(assistance.moves(collected), Figure)
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
    user, model, chosen, follow, _ = blocks(assistance.written(collected), Figure)
    assert user.data[0]["z"] == [
        [1.0, 0.5, 0.0],
        [2.5, 2.0, 1.5],
    ] and user.title.endswith("vague questions")
    assert model.data[0]["text"][1] == ["−0.50", "−0.10", "0.30"]
    assert user.data[0]["zmax"] == model.data[0]["zmax"] == 2.5 == -user.data[0]["zmin"]
    assert (
        chosen.data[0]["z"] == [[0.0, 0.0, 0.0], [0.0, 0.6, 0.0]]
        and "40.0 % of the choices" in chosen.note
    )
    assert [trace["name"] for trace in follow.data] == ["sum", "nash"]
    nobody = Written(2, {}, {"none": 2})
    [bare] = blocks(
        assistance.written(Facts("t", assistance=Assistance(written=nobody))), Figure
    )
    assert "100.0 % of the choices name no cell" in bare.note


def test_sources_have_a_table_where_there_are_several(collected):
    [table] = blocks(assistance.welfare(collected), Table)
    assert [row[:2] for row in table.rows] == [
        ("clerk", "0"),
        ("clerk", "4"),
        ("wildguard", "0"),
        ("wildguard", "4"),
    ]
    titles = [figure.title for figure in blocks(assistance.welfare(collected), Figure)]
    assert (
        titles[0] == "Welfare and both utilities"
        and titles[-1] == "Earlier generations that dominate the last"
    )


def test_answers_are_text_in_their_parts(collected):
    page = Page(render(collected))
    words = " ".join(" ".join(page.words).split())
    for title in ("Welfare", "User and model", "Moves", "The written game"):
        assert title in words
    assert (
        "Who beats whom" not in words
        and "no generation has been evaluated" not in words
    )
    assert "<b>bold" not in render(collected) and assistance_run.HOSTILE not in words
    [rows] = [block["rows"] for block in page.data() if "rows" in block]
    parts = rows[0]["answers"][0]["parts"]
    assert [part["name"] for part in parts] == [
        "thinking",
        "payoff",
        "analyze: VQ_CQ",
        "response",
    ]
    assert parts[0]["text"] == assistance_run.HOSTILE and parts[1]["rows"][3] == [
        "VQ user",
        "2.5",
        "[2]",
        "1.5",
    ]
    assert rows[0]["answers"][0]["text"] == "" and "parts" not in rows[2]["answers"][0]


def test_plotly_accepts_every_figure(collected):
    def filled(value, key=""):
        if isinstance(value, dict):
            return {k: filled(v, k) for k, v in value.items()}
        if key == "colorscale":
            return [[at, "#123456"] for at, _ in value]
        if isinstance(value, list | tuple):
            return [filled(item) for item in value]
        return "#123456" if key.endswith("color") and isinstance(value, str) else value

    figures = [
        figure for make in SECTIONS for figure in blocks(make(collected), Figure)
    ]
    assert len(figures) > 10
    for figure in figures:
        go.Figure(data=filled(list(figure.data)), layout=filled(dict(figure.layout)))
