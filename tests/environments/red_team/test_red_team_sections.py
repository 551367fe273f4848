"""The sections on adversary and defender: what they draw, and that attacks stay folded away."""

import plotly.graph_objects as go
import pytest
import red_team_run

from equipoise.blocks.recorded_sections import CardAnswer, MatchCard
from equipoise.blocks.section import Cards, Curve, Curves, Figure, Tiles
from equipoise.environments.red_team import report_sections as sections
from equipoise.environments.red_team.cross_play_table import CrossPlay, CrossPlayTable, MetaGame
from equipoise.environments.red_team.game import CONTENT_WARNING
from equipoise.environments.red_team.measures import RedTeamMeasures
from equipoise.environments.red_team.report_sections import Phase
from equipoise.report.history import history, records
from equipoise.runs.directory import RunDirectory
from equipoise.types import Message

NAN = float("nan")
CARD = MatchCard(
    "m1",
    3,
    "train",
    (Message("seed prompt", "s"),),
    (CardAnswer("red@1", red_team_run.ATTACK, 1.0, "attack"),),
)
TABLE = CrossPlayTable(["red@0", "red@1"], ["<b>@0", "blue@1"], [[0.5, 0.25], [None, 0.75]], 10)
REWARD = Curves("Reward", "", (Curve("blue", "", (0.0, 1.0, 2.0), (0.5, 0.6, NAN)),))
SUCCESS = Curves("Attack success", "%", (Curve("raw", "%", (0.0, 2.0), (0.5, 0.25)),))
PHASES = [Phase(("blue",), 0, 1), Phase(("red",), 2, 2), Phase(("blue",), 3, 4)]


def blocks(section, kind):
    return [block for block in section.blocks if isinstance(block, kind)]


def test_what_there_is_not_is_left_out_with_a_reason():
    empty = (
        sections.performance([]),
        sections.cross_play_section(None),
        sections.training([], []),
        sections.attacks([], 0, 0, 0),
    )
    assert all(section.reason and not section.blocks for section in empty)
    unjudged = CrossPlayTable(["red@0"], ["blue@0"], [[None]], 10)
    assert sections.cross_play_section(CrossPlay(unjudged)).reason


def test_cross_play_is_in_percent_with_its_counts():
    section = sections.cross_play_section(CrossPlay(TABLE, 0.125))
    [figure] = blocks(section, Figure)
    [trace] = figure.data
    assert trace["z"] == [[50.0, 25.0], [None, 75.0]]
    assert trace["text"][1] == ["", "75.0 %"]
    assert trace["hovertext"][0][0] == "red@0 attacks &lt;b&gt;@0<br><b>50.0 %</b><br>10 prompts"
    assert "not judged" in trace["hovertext"][1][0]
    assert "on 10 held-out harmful prompts" in section.lead
    [tiles] = blocks(section, Tiles)
    assert [(tile.label, tile.value) for tile in tiles.tiles] == [
        ("worst attack success", "75.0 %"),
        ("forgetting", "12.5 %"),
    ]


def test_mixtures_are_bars_of_those_who_have_a_share():
    weights = {f"red@{i}": 0.5 if i < 2 else 0.0 for i in range(30)}
    result = CrossPlay(TABLE, meta_game=MetaGame(0.5, weights, {}))
    figure = blocks(sections.cross_play_section(result), Figure)[1]
    assert len(figure.data[0]["x"]) == 2
    assert "28 with less than 0.1 % are left out" in figure.note


def test_the_background_shows_whose_turn_it_was():
    section = sections.training([REWARD], PHASES)
    [figure] = blocks(section, Figure)
    shapes = figure.layout["shapes"]
    assert [(shape["x0"], shape["x1"]) for shape in shapes] == [(-0.5, 1.5), (1.5, 2.5), (2.5, 4.5)]
    assert shapes[0]["fillcolor"] == shapes[2]["fillcolor"] != shapes[1]["fillcolor"]
    assert "blue where blue learned, orange where red learned" in section.lead
    assert sections.shades((Phase(("blue", "red"), 0, 9),)) == []


def test_attacks_are_folded_away_and_say_what_they_are_a_choice_of():
    [cards] = blocks(sections.attacks([CARD], 9, 12, 12), Cards)
    assert cards.folded == CONTENT_WARNING
    assert cards.source == "1 of 9 attacks of the run"
    [cards] = blocks(sections.attacks([CARD], 9, 12, 4000), Cards)
    assert cards.source == "1 of 9 attacks in a random sample of 12 of the run's 4,000 matches"


@pytest.fixture(scope="module")
def collected(recorded_folder):
    with RunDirectory.read(recorded_folder("red_team")) as run:
        return list(RedTeamMeasures.sections(history(run), records(run)))


@pytest.mark.long
def test_a_run_has_every_section(collected):
    assert [section.title for section in collected if section.blocks] == [
        "Learning",
        "Attack and defence",
        "Cross-play",
        "Turns and rewards",
        "Attacks",
    ]


def filled(value, key=""):
    """A figure's data with its theme tokens replaced by a colour."""
    if isinstance(value, dict):
        return {k: filled(v, k) for k, v in value.items()}
    if key == "colorscale":
        return [[at, "#123456"] for at, _ in value]
    if isinstance(value, list | tuple):
        return [filled(item) for item in value]
    return "#123456" if key.endswith("color") and isinstance(value, str) else value


def test_plotly_accepts_every_figure(collected):
    made = (
        sections.performance([SUCCESS]),
        sections.cross_play_section(CrossPlay(TABLE, 0.125)),
        sections.training([REWARD], PHASES),
    )
    for section in (*collected, *made):
        for figure in blocks(section, Figure):
            go.Figure(data=filled(list(figure.data)), layout=filled(dict(figure.layout)))
