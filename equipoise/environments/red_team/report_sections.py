"""The report's sections on adversary and defender.

How attack and defence went, every generation against every other, whose turn paid what, and the
attacks themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from equipoise.environments.red_team.cross_play_table import CrossPlay, CrossPlayTable
from equipoise.environments.red_team.game import CONTENT_WARNING
from equipoise.environments.red_team.training_curves import Phase
from equipoise.report.cards import MatchCard
from equipoise.report.curves import COLOURS, lines_figure
from equipoise.report.elements import Curves
from equipoise.report.figures import MOST_TICKS, bars, heat_map
from equipoise.report.league import LEAST
from equipoise.report.records import card_row
from equipoise.report.section import (
    Cards,
    Figure,
    Section,
    Table,
    Tile,
    Tiles,
    known,
    label,
    number,
)

NUMBERED = 12  # points of the path that get their generation's number


class DiversityPoint(NamedTuple):
    """Diversity of the held-out attacks and their success at one generation."""

    generation: int
    diversity: float
    success: float


def performance(groups: Sequence[Curves], path: Sequence[DiversityPoint]) -> Section:
    """Attack success, over-refusal, helpfulness and diversity over the generations."""
    title = "Attack and defence"
    figures = [_lines(group) for group in groups]
    if len(path) > 1:
        figures.append(_path(path))
    if not figures:
        reason = "neither attack nor defence has been measured yet"
        return Section("attack", title, reason=reason)
    lead = (
        "Measured on held-out prompts. A defence that answers nothing is safe and "
        "useless: read these figures together."
    )
    return Section("attack", title, tuple(figures), lead)


def _lines(group: Curves) -> Figure:
    return lines_figure(group.name, group.curves, unit=group.unit, note=group.note)


def _path(points: Sequence[DiversityPoint]) -> Figure:
    """Diversity against success, generation after generation.

    Up and to the right is the stronger adversary.
    """
    last = len(points) - 1
    every = -(-len(points) // NUMBERED)
    numbers = [
        f" {point.generation}" if i % every == 0 or i == last else ""
        for i, point in enumerate(points)
    ]
    hover = [
        f"generation {point.generation}<br>diversity <b>{number(point.diversity)}</b>"
        f"<br>success <b>{number(point.success, '%')}</b>"
        for point in points
    ]
    sizes = [11 if i == last else 8 for i in range(len(points))]
    trace = {
        "x": [known(point.diversity) for point in points],
        "y": [known(point.success) for point in points],
        "mode": "lines+markers+text",
        "text": numbers,
        "textposition": "middle right",
        "textfont": {"color": "@muted"},
        "cliponaxis": False,
        "hovertext": hover,
        "hoverinfo": "text",
        "line": {"color": "@faint", "width": 1.5},
        "marker": {"color": "@blue", "opacity": 1, "size": sizes},
    }
    layout = {
        "xaxis": {
            "title": {"text": "diversity of the attacks, 1 − self-BLEU"},
            "range": _range([point.diversity for point in points]),
        },
        "yaxis": {
            "title": {"text": "attack success"},
            "tickformat": ".0%",
            "range": _range([point.success for point in points]),
        },
        "showlegend": False,
    }
    rows = tuple((str(p.generation), number(p.diversity), number(p.success, "%")) for p in points)
    note = (
        "a point for each measured generation, in their order; success that rises while "
        "diversity falls is a narrow trick"
    )
    return Figure(
        "Diversity against success",
        [trace],
        layout,
        note=note,
        height=380,
        wide=True,
        table=Table(("generation", "diversity", "attack success"), rows),
    )


def _range(shares: Sequence[float], least: float = 0.2) -> list[float]:
    """The ends of a share's axis, at least so far apart.

    Otherwise a change of a thousandth would look like a fall.
    """
    low, high = min(shares), max(shares)
    span = max(1.2 * (high - low), least)
    middle = (low + high) / 2
    return [max(middle - span / 2, -0.02), min(middle + span / 2, 1.02)]


def cross_play_section(result: CrossPlay | None) -> Section:
    """Every measured adversary against every measured defender."""
    name, title = "cross-play", "Cross-play"
    if result is None or not np.isfinite(result.table.success_AD).any():
        reason = "no two generations have met in judged attacks"
        return Section(name, title, reason=reason)
    tiles = tuple(_cross_play_tiles(result))
    blocks: list[Tiles | Figure] = [Tiles(tiles)] if tiles else []
    blocks.append(_heat_map(result.table))
    if result.meta_game is not None:
        for role, mixture in (
            ("adversary", result.meta_game.adversary),
            ("defender", result.meta_game.defender),
        ):
            blocks += _mixture(role, mixture)
    lead = (
        f"Each cell is the attack success on {result.table.prompts} held-out harmful "
        "prompts. Read down a column for what a defender has to fear, along a row for "
        "the defenders on whom an attack still works."
    )
    return Section(name, title, tuple(blocks), lead)


def _mixture(role: str, mixture: Mapping[str, float]) -> list[Figure]:
    """The bars of an equilibrium mixture; none where nobody has a share worth showing."""
    few = len(mixture) <= MOST_TICKS // 4
    shown = [(name, weight) for name, weight in mixture.items() if weight >= LEAST or few]
    if not shown:
        return []
    note = f"how the {role} would choose among its generations"
    left_out = len(mixture) - len(shown)
    if left_out:
        note += f"; {left_out} with less than {number(LEAST, '%')} are left out"
    return [bars(f"Equilibrium of the generations: {role}", shown, note)]


def _cross_play_tiles(result: CrossPlay) -> list[Tile]:
    table, tiles = result.table, []
    worst_A = table.success_AD[:, -1]
    if np.isfinite(worst_A).any():
        adversary = table.adversaries[int(np.nanargmax(worst_A))]
        success = number(float(np.nanmax(worst_A)), "%")
        note = f"with {table.defenders[-1]}, of {adversary}"
        tiles.append(Tile("worst attack success", success, note))
    if result.forgetting is not None:
        note = (
            "success with the newest defender above the least that any defender "
            "allowed, mean over the adversaries"
        )
        tiles.append(Tile("forgetting", number(result.forgetting, "%"), note))
    if result.cycling is not None and len(table.defenders) > 1:
        note = (
            "of the pairs of defenders, those in which each is clearly better against "
            "some adversary"
        )
        tiles.append(Tile("cycling", number(result.cycling, "%"), note))
    if result.meta_game is not None:
        note = "attack success when both choose their best mixture of generations"
        tiles.append(Tile("value", number(result.meta_game.value, "%"), note))
    return tiles


def _heat_map(table: CrossPlayTable) -> Figure:
    success_AD = table.success_AD
    written, hover = [], []
    for adversary, success_D in zip(table.adversaries, success_AD, strict=True):
        texts = [number(s, "%") if np.isfinite(s) else "" for s in success_D]
        written.append(texts)
        hover.append(
            [
                f"{label(adversary)} attacks {label(defender)}"
                f"<br><b>{text or 'not judged'}</b><br>{table.prompts} prompts"
                for defender, text in zip(table.defenders, texts, strict=True)
            ]
        )
    figure = heat_map(
        "Attack success in %, oldest first",
        table.adversaries,
        table.defenders,
        100 * success_AD,
        written,
        hover,
        ("adversary", "… attacks"),
        around_zero=False,
    )
    return replace(figure, note="pale: the least in this table, blue: the most")


def training(groups: Sequence[Curves], phases: Sequence[Phase]) -> Section:
    """What the training paid, and whose turn it was."""
    name, title = "rewards", "Turns and rewards"
    if not groups:
        return Section(name, title, reason="nobody has been paid for its moves")
    figures = tuple(_shaded(group, phases) for group in groups)
    lead = "From the training matches; players that do not learn play on unchanged."
    colours = [
        f"{colour} where {' and '.join(learners)} learned"
        for learners, colour in _colours(phases).items()
    ]
    if colours:
        lead += f" The background is {', '.join(colours)}."
    return Section(name, title, figures, lead)


def _shaded(group: Curves, phases: Sequence[Phase]) -> Figure:
    """The curves over a background that shows the phases."""
    figure = _lines(group)
    return replace(figure, layout={**figure.layout, "shapes": shades(phases)})


def shades(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """A rectangle for each phase, one colour for each set of learners.

    None where the same players learn all the time.
    """
    colours = _colours(phases)
    return [
        {
            "type": "rect",
            "x0": phase.first - 0.5,
            "x1": phase.last + 0.5,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": f"@{colours[phase.learners]}/0.08",
        }
        for phase in phases
        if phase.learners in colours
    ]


def _colours(phases: Sequence[Phase]) -> dict[tuple[str, ...], str]:
    """Learners -> the colour of their phases; empty where nobody takes turns."""
    sets = list(dict.fromkeys(phase.learners for phase in phases))
    if len(sets) < 2:
        return {}
    return {learners: COLOURS[i % len(COLOURS)] for i, learners in enumerate(sets)}


def attacks(cards: Sequence[MatchCard], seen: int, read: int, total: int) -> Section:
    """The attacks themselves, folded away.

    `cards` are a choice of `seen` attacks, in a sample of `read` of the run's `total` matches.
    """
    if not cards:
        return Section("attacks", "Attacks", reason="no attack has been made")
    shown = len(cards)
    source = f"{number(shown)} of {number(seen)} attacks"
    if shown == seen:
        source = f"all {number(seen)} attacks"
    if read < total:
        source += f" in a random sample of {number(read)} of the run's {number(total)} matches"
    else:
        source += " of the run"
    lead = (
        "Seed prompts, the attacks made of them and what was answered: harmful content, "
        "kept so that a defence can be checked. Successful attacks come first; every "
        "generation is represented."
    )
    browser = Cards([card_row(card) for card in cards], seen, CONTENT_WARNING, source)
    return Section("attacks", "Attacks", (browser,), lead)
