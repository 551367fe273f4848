"""Sections on a game of attack and defence: how it went, every generation against
every, whose turn paid what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.report.curves import COLOURS, lines_figure
from equipoise.report.facts import Attack, CrossPlay, Curves, Facts, Phase
from equipoise.report.figures import MOST_TICKS, bars, heat_map
from equipoise.report.population import LEAST
from equipoise.report.records import HARMFUL, row
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


def success(facts: Facts) -> Section | None:
    """Attack success, over-refusal, helpfulness and the attacks' diversity over the
    measured generations.
    """
    found = facts.attack
    if found is None:
        return None
    title = "Attack and defence"
    drawn = [_lines(group) for group in found.measured]
    if len(found.diverse) > 1:
        drawn.append(_path(found.diverse))
    if not drawn:
        return Section(
            "attack", title, reason="neither attack nor defence has been measured yet"
        )
    lead = "Measured on held-out prompts. A defence that answers nothing is safe and useless: read all of it together."
    return Section("attack", title, tuple(drawn), lead)


def _lines(group: Curves) -> Figure:
    return lines_figure(group.name, group.curves, unit=group.unit, note=group.note)


def _path(rows: Sequence[tuple[int, float, float]]) -> Figure:
    """Diversity against success, generation after generation; up and to the right is
    the stronger adversary.
    """
    last, spreads = len(rows) - 1, [spread for _, spread, _ in rows]
    every = -(
        -len(rows) // 12
    )  # of many points, so many get their number, and the last one
    trace = {
        "x": [known(spread) for spread in spreads],
        "y": [known(won) for _, _, won in rows],
        "mode": "lines+markers+text",
        "text": [
            f" {t}" if i % every == 0 or i == last else ""
            for i, (t, _, _) in enumerate(rows)
        ],
        "textposition": "middle right",
        "textfont": {"color": "@muted"},
        "cliponaxis": False,
        "hovertext": [
            f"generation {t}<br>diversity <b>{number(spread)}</b><br>success <b>{number(won, '%')}</b>"
            for t, spread, won in rows
        ],
        "hoverinfo": "text",
        "line": {"color": "@faint", "width": 1.5},
        "marker": {
            "color": "@blue",
            "opacity": 1,
            "size": [11 if i == last else 8 for i in range(len(rows))],
        },
    }
    layout = {
        "xaxis": {
            "title": {"text": "diversity of the attacks, 1 − self-BLEU"},
            "range": _wide(spreads),
        },
        "yaxis": {
            "title": {"text": "attack success"},
            "tickformat": ".0%",
            "range": _wide([won for *_, won in rows]),
        },
        "showlegend": False,
    }
    table = Table(
        ("generation", "diversity", "attack success"),
        tuple((str(t), number(spread), number(won, "%")) for t, spread, won in rows),
    )
    note = "a point each measured generation, in their order; success that rises while diversity falls is a narrow trick"
    return Figure(
        "Diversity against success",
        [trace],
        layout,
        note=note,
        height=380,
        wide=True,
        table=table,
    )


def _wide(values: Sequence[float], least: float = 0.2) -> list[float]:
    """A share's axis with some air, its ends at least so far apart: a thousandth must
    not look like a fall.
    """
    low, high = min(values), max(values)
    span = max(1.2 * (high - low), least)
    middle = (low + high) / 2
    return [max(middle - span / 2, -0.02), min(middle + span / 2, 1.02)]


def crossplay(facts: Facts) -> Section | None:
    """Every measured adversary against every measured defender."""
    if facts.attack is None:
        return None
    found = facts.attack.crossplay
    if found is None or not np.isfinite(found.success_AD).any():
        return Section(
            "cross-play",
            "Cross-play",
            reason="no two generations have met in judged attacks",
        )
    blocks: list[Tiles | Figure] = [_tiles(found)] if _tiles(found).tiles else []
    blocks.append(_table(found))
    for who, weights in (("adversary", found.adversary), ("defender", found.defender)):
        shown = [
            (name, weight)
            for name, weight in weights.items()
            if weight >= LEAST or len(weights) <= MOST_TICKS // 4
        ]
        if shown:
            note = f"how the {who} would choose among its generations" + (
                f"; {len(weights) - len(shown)} with less than {number(LEAST, '%')} are left out"
                if len(shown) < len(weights)
                else ""
            )
            blocks.append(bars(f"Equilibrium of the generations: {who}", shown, note))
    lead = (
        f"Each cell is the attack success on {found.prompts} held-out harmful prompts. Read down a column for what a "
        "defender has to fear, along a row for whom an attack still works on."
    )
    return Section("cross-play", "Cross-play", tuple(blocks), lead)


def _tiles(found: CrossPlay) -> Tiles:
    worst = found.success_AD[:, -1]
    tiles = []
    if np.isfinite(worst).any():
        note = f"with {found.defenders[-1]}, of {found.adversaries[int(np.nanargmax(worst))]}"
        tiles.append(
            Tile("worst attack success", number(float(np.nanmax(worst)), "%"), note)
        )
    if known(found.forgetting) is not None:
        note = "success with the newest defender above the least that any defender allowed, mean over the adversaries"
        tiles.append(Tile("forgetting", number(found.forgetting, "%"), note))
    if known(found.cycling) is not None and len(found.defenders) > 1:
        note = "of the pairs of defenders, those of which each is clearly better against some adversary"
        tiles.append(Tile("cycling", number(found.cycling, "%"), note))
    if known(found.value) is not None:
        tiles.append(
            Tile(
                "value",
                number(found.value, "%"),
                "attack success when both choose their best mixture of generations",
            )
        )
    return Tiles(tuple(tiles))


def _table(found: CrossPlay) -> Figure:
    written = [
        [number(cell, "%") if known(cell) is not None else "" for cell in line]
        for line in found.success_AD
    ]
    hover = [
        [
            f"{label(adversary)} attacks {label(defender)}<br><b>{written[a][d] or 'not judged'}</b>"
            f"<br>{found.prompts} prompts"
            for d, defender in enumerate(found.defenders)
        ]
        for a, adversary in enumerate(found.adversaries)
    ]
    figure = heat_map(
        "Attack success in %, oldest first",
        found.adversaries,
        found.defenders,
        100 * found.success_AD,
        written,
        hover,
        ("adversary", "… attacks"),
        around_zero=False,
    )
    return replace(figure, note="pale: the least in this table, blue: the most")


def rewards(facts: Facts) -> Section | None:
    """What the training paid, and whose turn it was."""
    if facts.attack is None:
        return None
    if not facts.attack.trained:
        return Section(
            "rewards", "Turns and rewards", reason="nobody has been paid for its moves"
        )
    drawn = tuple(_shaded(group, facts.attack) for group in facts.attack.trained)
    lead = "Of the training matches; who does not learn plays on as it is."
    ground = [
        f"{colour} where {' and '.join(names)} learned"
        for names, colour in _colours(facts.attack.phases).items()
    ]
    if ground:
        lead += f" The ground is {', '.join(ground)}."
    return Section("rewards", "Turns and rewards", drawn, lead)


def _shaded(group: Curves, found: Attack) -> Figure:
    """The curves over a ground that shows the phases."""
    figure = lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
    return replace(figure, layout={**figure.layout, "shapes": shades(found.phases)})


def shades(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """A rectangle for each phase, one colour for each set of learners; none where the
    turn never passes on.
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
            "fillcolor": f"@{colours[phase.names]}/0.08",
        }
        for phase in phases
        if phase.names in colours
    ]


def _colours(phases: Sequence[Phase]) -> dict[tuple[str, ...], str]:
    """Learners -> the colour of their phases; empty where the turn never passes on."""
    sets = list(dict.fromkeys(phase.names for phase in phases))
    return (
        {names: COLOURS[i % len(COLOURS)] for i, names in enumerate(sets)}
        if len(sets) > 1
        else {}
    )


def attacks(facts: Facts) -> Section | None:
    """The attacks themselves, folded away."""
    if facts.attack is None:
        return None
    if not facts.attack.cards:
        return Section("attacks", "Attacks", reason="no attack has been made")
    shown, seen, (read, total) = (
        len(facts.attack.cards),
        facts.attack.seen,
        facts.sample,
    )
    source = (
        f"{number(shown)} of {number(seen)} attacks"
        if shown < seen
        else f"all {number(seen)} attacks"
    )
    source += (
        f" in a random sample of {number(read)} of the run's {number(total)} matches"
        if read < total
        else " of the run"
    )
    lead = (
        "Seed prompts, the attacks made of them and what was answered: harmful content, kept so that a defence can be "
        "checked. Successful attacks come first; every generation is represented."
    )
    cards = Cards([row(card) for card in facts.attack.cards], seen, HARMFUL, source)
    return Section("attacks", "Attacks", (cards,), lead)
