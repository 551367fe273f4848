"""The sections on attack and defence: what they draw, and that harmful texts stay
folded away, and text.
"""

import dataclasses
import math

import numpy as np
import plotly.graph_objects as go
import pytest
import siege_run
from test_html import Page

from equipoise.environments.red_team import page as attack
from equipoise.report import records
from equipoise.report.facts import (
    Answer,
    Attack,
    CrossPlay,
    Curve,
    Curves,
    Facts,
    MatchCard,
    Phase,
)
from equipoise.report.html import SECTIONS, render
from equipoise.report.section import Cards, Figure, Tiles
from equipoise.run.collect import facts
from equipoise.run.directory import Run
from equipoise.types import Message

NAN = math.nan
CARD = MatchCard(
    "m1",
    3,
    "train",
    (Message("seed prompt", "s"),),
    (Answer("red@1", siege_run.ATTACK, 1.0, "attack"),),
)


def made() -> Facts:
    table = CrossPlay(
        ("red@0", "red@1"),
        ("<b>@0", "blue@1"),
        np.array([[0.5, 0.25], [NAN, 0.75]]),
        64,
        0.125,
    )
    reward = Curves(
        "Reward", "", (Curve("blue", "", (0.0, 1.0, 2.0), (0.5, 0.6, NAN)),)
    )
    phases = (Phase(("blue",), 0, 1), Phase(("red",), 2, 2), Phase(("blue",), 3, 4))
    success = Curves(
        "Attack success", "%", (Curve("raw", "%", (0.0, 2.0), (0.5, 0.25)),)
    )
    found = Attack(
        (reward,),
        phases,
        (success,),
        ((0, 0.9, 0.5), (2, 0.899, 0.25)),
        table,
        (CARD,),
        9,
    )
    return Facts(
        "siege", attack=found, matches=(CARD,), counts={"matches": 12}, sample=(12, 12)
    )


def blocks(section, kind):
    assert section is not None
    return [block for block in section.blocks if isinstance(block, kind)]


def test_a_run_without_attacks_has_none_of_this():
    plain = Facts("plain", matches=(CARD,), counts={"matches": 1})
    sections = (attack.success, attack.crossplay, attack.rewards, attack.attacks)
    assert [make(plain) for make in sections] == [None] * 4
    assert '<details class="wide folded-away"' not in render(plain)
    empty = dataclasses.replace(plain, attack=Attack())
    assert all(
        section is not None and section.reason
        for section in (make(empty) for make in sections)
    )


def test_cross_play_is_in_percent_with_its_counts():
    section = attack.crossplay(made())
    [figure] = blocks(section, Figure)
    [trace] = figure.data
    assert trace["z"] == [[50.0, 25.0], [None, 75.0]] and trace["text"][1] == [
        "",
        "75.0 %",
    ]
    assert (
        trace["hovertext"][0][0]
        == "red@0 attacks &lt;b&gt;@0<br><b>50.0 %</b><br>64 prompts"
    )
    assert "not judged" in trace["hovertext"][1][0]
    [tiles] = blocks(section, Tiles)
    assert [(tile.label, tile.value) for tile in tiles.tiles] == [
        ("worst attack success", "75.0 %"),
        ("forgetting", "12.5 %"),
    ]


def test_mixtures_are_bars_of_those_who_have_a_share():
    weights = {f"red@{i}": 0.5 if i < 2 else 0.0 for i in range(30)}
    found = made().attack
    assert found is not None and found.crossplay is not None
    found = dataclasses.replace(
        found,
        crossplay=dataclasses.replace(found.crossplay, value=0.5, adversary=weights),
    )
    figure = blocks(attack.crossplay(Facts("t", attack=found)), Figure)[1]
    assert (
        len(figure.data[0]["x"]) == 2
        and "28 with less than 0.1 % are left out" in figure.note
    )


def test_the_ground_shows_whose_turn_it_was():
    section = attack.rewards(made())
    [figure] = blocks(section, Figure)
    shapes = figure.layout["shapes"]
    assert [(shape["x0"], shape["x1"]) for shape in shapes] == [
        (-0.5, 1.5),
        (1.5, 2.5),
        (2.5, 4.5),
    ]
    assert shapes[0]["fillcolor"] == shapes[2]["fillcolor"] != shapes[1]["fillcolor"]
    assert (
        section is not None
        and "blue where blue learned, orange where red learned" in section.lead
    )
    assert attack.shades((Phase(("blue", "red"), 0, 9),)) == []


def test_a_thousandth_does_not_look_like_a_fall():
    figure = blocks(attack.success(made()), Figure)[-1]
    low, high = figure.layout["xaxis"]["range"]
    assert high <= 1.02 and high - low > 0.1
    assert (
        figure.data[0]["x"] == [0.9, 0.899]
        and figure.table is not None
        and figure.table.rows[1][2] == "25.0 %"
    )


def test_attacks_are_folded_away_and_say_what_they_are_a_choice_of():
    [cards] = blocks(attack.attacks(made()), Cards)
    assert (
        cards.folded == records.HARMFUL and cards.source == "1 of 9 attacks of the run"
    )
    [matches] = blocks(records.matches(made()), Cards)
    assert matches.folded == records.HARMFUL and matches.source == ""
    part = dataclasses.replace(made(), sample=(12, 4000))
    [cards] = blocks(attack.attacks(part), Cards)
    assert (
        cards.source
        == "1 of 9 attacks in a random sample of 12 of the run's 4,000 matches"
    )


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    with Run.read(siege_run.write(tmp_path_factory.mktemp("siege") / "run")) as run:
        return facts(run)


def test_an_attack_is_text_and_nothing_opens_by_itself(collected):
    page = Page(render(collected))
    folded = [
        attributes
        for tag, attributes in page.elements
        if tag == "details" and "folded-away" in str(attributes)
    ]
    assert len(folded) == 2 and all("open" not in attributes for attributes in folded)
    assert siege_run.ATTACK not in "".join(
        page.words
    )  # it is in the browsers' data only
    shown = [row for block in page.data() if "rows" in block for row in block["rows"]]
    assert any(
        answer["text"] == siege_run.ATTACK for row in shown for answer in row["answers"]
    )
    assert len(page.scripts) == 6 and "<b>bold" not in render(
        collected
    )  # style, two browsers, figures, two programs
    assert "Who beats whom" not in " ".join(page.words) and "Match-ups" not in " ".join(
        page.words
    )


def test_plotly_accepts_every_figure(collected):
    def filled(value, key=""):
        if isinstance(value, dict):
            return {k: filled(v, k) for k, v in value.items()}
        if key == "colorscale":
            return [[at, "#123456"] for at, _ in value]
        if isinstance(value, list | tuple):
            return [filled(item) for item in value]
        return "#123456" if key.endswith("color") and isinstance(value, str) else value

    for content in (collected, made()):
        for section in filter(None, (make(content) for make in SECTIONS)):
            for figure in section.blocks:
                if isinstance(figure, Figure):
                    go.Figure(
                        data=filled(list(figure.data)),
                        layout=filled(dict(figure.layout)),
                    )
