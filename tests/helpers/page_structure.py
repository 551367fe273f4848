"""Structure of a report's page: what every page must hold, whatever the run, and which sections and
columns a run of one kind must show.
"""

import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser

from equipoise.blocks.html import Page, render
from equipoise.blocks.section import Cards, Figure, Section, Table, Tiles, Verbatim, clean
from equipoise.runs.directory import RunDirectory

OF_EVERY_PAGE = ("headline", "records", "cost", "matches", "configuration")
LEAGUE = ("payoffs", "equilibrium", "ratings")
AT_TABLE = ("who-judged-whom", "judges")
WELFARE = ("welfare", "plane", "moves", "written", "judges")
TRAINED = ("equilibrium", "training")
SHOWN = {
    "red_team": ("learning", "attack", "cross-play", "rewards", "attacks", "judges", "training"),
    "assistance": WELFARE,
    "pool": (
        "selection",
        "learning",
        *LEAGUE,
        "standing",
        "standing-score",
        "match-ups",
        "who-judged-whom",
        "judges",
    ),
    "people": ("who-judged-whom", "judges"),
    "rock_paper_scissors": TRAINED,
    "gpo_matrix": TRAINED,
    "gpo_contextual": TRAINED,
    "psro_matrix": ("growth", "payoffs", "equilibrium"),
    "psro_kuhn": ("growth", "payoffs", "equilibrium"),
    "attack": ("learning", "attack", "cross-play", "attacks", "who-judged-whom", "judges"),
    "pairwise": (*LEAGUE, "who-judged-whom", "judges"),
    "solvers": (*LEAGUE, "who-judged-whom", "judges"),
    "moves": ("growth", "payoffs", "equilibrium"),
    "cards": (*LEAGUE, "who-judged-whom", "judges"),
    "debate": ("learning", "roles", "judges"),
    "clerk": WELFARE,
    "desk": WELFARE,
    "challenge": AT_TABLE,
    "provers": AT_TABLE,
    "stackelberg": AT_TABLE,
}
"""A run of the tests -> sections that its page shows in this order, beside OF_EVERY_PAGE."""

UNMEASURED = {"people": {"headline", "cost"}}
"""Sections of every page that this run has no numbers for."""

COLUMNS = {
    "selection": {("player", "held-out score", "test score")},
    "ratings": {("player", "rating", "95 % interval")},
    "growth": {
        ("generation", "joined, and gained", "cells", "new", "value", "exploitability", "mixture")
    },
    "judges": {
        (
            "judge",
            "judgements",
            "unjudged",
            "unreadable",
            "first preferred",
            "inconsistent",
            "length",
            "own answers",
            "agreement",
            "calls",
            "tokens",
            "cost",
        ),
        ("column", "what it says"),
    },
    "standing-score": {
        ("player", "held-out score", "reputation"),
        ("generation", "players", "rank correlation", "by chance, 95 %"),
    },
    "cost": {("stage", "seconds", "share")},
    "welfare": {
        ("generation", "welfare", "user", "model"),
        ("generation", "right move", "well-formed", "readable"),
        ("generation", "to the user", "to the model"),
        ("scores of an answer", "Pearson", "Spearman", "Kendall"),
        ("data set", "request", "n", "precision", "recall", "F1"),
    },
    "plane": {
        ("", "prompts", "user, mean", "model, mean", "on the front", "hypervolume above (0, 0)")
    },
    "moves": {
        (
            "question",
            "answers (DA)",
            "asks back (CQ)",
            "answers and asks (AQ)",
            "no readable response",
            "answers",
        )
    },
    "written": {("", "DA", "CQ", "AQ")},
    "attack": {
        ("generation", "prompts as they are", "the adversary", "worst in cross-play"),
        ("generation", "refusals", "diversity"),
    },
}
"""A section -> headers of tables that it has wherever it is shown."""

SUMMARISED = {"plane"}
"""Sections whose tables sum up what their figures draw point by point."""

NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def check_section(section: Section) -> None:
    """A section is named, and has either blocks that hold something or a reason why not."""
    where = f"section {section.name!r}"
    assert re.fullmatch(r"[\w-]+", section.name), where
    assert section.title.strip(), f"{where} has no title"
    if not section.blocks:
        assert section.reason, f"{where} is empty and does not say why"
    for block in section.blocks:
        if isinstance(block, Table):
            check_table(block, where)
        elif isinstance(block, Figure):
            check_figure(block, where)
        elif isinstance(block, Tiles):
            assert block.tiles, f"{where}: no tile"
            for tile in block.tiles:
                assert tile.label, f"{where}: a number without a label"
                assert tile.value, f"{where}: {tile.label} has no number"
        elif isinstance(block, Cards):
            assert 0 < len(block.rows) <= block.total, where
        elif isinstance(block, Verbatim):
            assert block.title, where
            assert block.text.strip(), where


def check_table(table: Table, where: str) -> None:
    """Each row has a cell for each column, and no two columns have one name."""
    where = f"{where}, table {table.title!r} {table.columns}"
    assert table.rows, f"{where} is empty"
    assert len(set(table.columns)) == len(table.columns), where
    assert all(table.columns[1:]), f"{where}: a column without a header"
    for row in table.rows:
        assert len(row) == len(table.columns), f"{where}: {row}"
        assert all(isinstance(cell, str) for cell in row), f"{where}: {row}"


def check_figure(figure: Figure, where: str) -> None:
    """A caption, something drawn, and a table of the numbers unless it draws optimizer steps."""
    where = f"{where}, figure {figure.title!r}"
    assert figure.title.strip(), f"{where} has no caption"
    assert figure.data, f"{where} draws nothing"
    assert any(map(drawn_numbers, figure.data)), f"{where} draws no number"
    if where.startswith("section 'training'"):
        return
    assert figure.table is not None, f"{where} has no table of its numbers"
    check_table(figure.table, where)
    if any(f"section '{name}'" in where for name in SUMMARISED):
        return
    shown = [*shown_numbers(figure.table)]
    for trace in figure.data:
        if trace.get("name") is None and trace.get("type") is None:
            continue  # the band of an interval
        for value in drawn_numbers(trace):
            near = any(abs(value - other) <= rounding for other, rounding in shown)
            assert near, f"{where}: {value} is drawn and not in its table"


def drawn_numbers(trace) -> list[float]:
    """The numbers that a trace draws: a heat map's cells, the length of bars, the height of lines."""
    kind = trace.get("type")
    if kind == "heatmap":
        values = [value for row in trace["z"] for value in row]
    elif kind == "bar" or "error_x" in trace:
        values = trace["x"]
    else:
        values = trace["y"]
    return [value for value in values if isinstance(value, int | float) and math.isfinite(value)]


def shown_numbers(table: Table) -> Iterator[tuple[float, float]]:
    """(number, half of its last digit) of each number in a table; shares from percent, too."""
    for row in table.rows:
        for cell in row:
            for text in NUMBER.findall(cell):
                plain = text.replace(",", "").replace("−", "-")
                digits = len(plain.partition("e")[0].partition(".")[2])
                value = float(plain)
                rounding = max(0.51 * 10**-digits, 0.00051 * abs(value))
                yield value, rounding
                yield value / 100, rounding / 100


def check_sections_shown(name: str, page: Page) -> None:
    """The sections of this run are on the page in their order, with the headers of their tables."""
    names = [section.name for section in page.sections]
    assert len(set(names)) == len(names), names
    with_blocks = [section.name for section in page.sections if section.blocks]
    first, *last = OF_EVERY_PAGE
    wanted = [first, *SHOWN[name], *last]
    wanted = [each for each in wanted if each not in UNMEASURED.get(name, ())]
    in_order = [each for each in with_blocks if each in wanted]
    assert in_order == wanted, f"shown: {with_blocks}"
    for section in page.sections:
        if section.blocks:
            missing = COLUMNS.get(section.name, set()) - headers(section)
            assert not missing, (section.name, headers(section))


def headers(section: Section) -> set[tuple[str, ...]]:
    """The headers of a section's tables, those of figures among them."""
    tables = [block for block in section.blocks if isinstance(block, Table)]
    tables += [block.table for block in section.blocks if isinstance(block, Figure) and block.table]
    return {table.columns for table in tables}


def check_numbers_of_ledger(run: RunDirectory, page: Page) -> None:
    """Counts, matches and judgements on the page are the ledger's."""
    sections = {section.name: section for section in page.sections}
    [tiles] = [block for block in sections["records"].blocks if isinstance(block, Tiles)]
    shown = {tile.label: tile.value for tile in tiles.tiles}
    counted = run.ledger.counts()
    for label in ("prompts", "judgements", "pairs"):
        if label == "pairs" and label not in shown:  # where nobody learns
            assert counted["pairs"] == 0
            continue
        assert shown[label] == f"{counted[label]:,}", label
    beside = int(shown.get("answers set side by side", "0").replace(",", "")) // 2
    assert shown["matches"] == f"{counted['matches'] - beside:,}"

    [cards] = [block for block in sections["matches"].blocks if isinstance(block, Cards)]
    assert cards.total == counted["matches"] - beside
    ids = [row["id"] for row in cards.rows]
    assert len(set(ids)) == len(ids)
    matches = {}
    for (part,) in run.ledger.rows("SELECT DISTINCT split FROM matches"):
        matches |= {match.id: match for match in run.ledger.matches(part)}
    judged: dict[str, list] = {}
    for judgement in run.ledger.every_judgement_of(ids):
        judged.setdefault(judgement.match, []).append(judgement)
    for row in cards.rows:
        match = matches[row["id"]]
        assert (row["generation"], row["split"]) == (match.generation, match.split)
        players = {str(player) for player in match.seats.values()}
        scores = set()
        for judgement in judged.get(match.id, ()):
            for of_seat in (judgement.scores or {}).values():
                scores |= {*of_seat.values(), None}
        texts = {clean(turn.move.text) for turn in match.turns}
        texts |= {clean(turn.move.error or "") for turn in match.turns}
        for answer in row["answers"]:
            assert answer["player"] in players
            assert answer["score"] is None or answer["score"] in scores, row["id"]
            if answer["text"] and not answer["more"]:
                assert any(answer["text"] in text for text in texts), answer["text"]


def check_ratings(page: Page, ratings) -> None:
    """The table of ratings holds the league's ratings, `ratings` the data frame of all."""
    sections = {section.name: section for section in page.sections}
    section = sections.get("ratings")
    if section is None or not section.blocks:
        return
    last = ratings[(ratings["by"] == "league")]
    last = last[last["generation"] == last["generation"].max()]
    recorded = {row.player: row.rating for row in last.itertuples()}
    [figure] = [block for block in section.blocks if isinstance(block, Figure)]
    shown = {row[0]: float(row[1].replace(",", "")) for row in figure.table.rows}
    if not any("@" in name for name in shown):  # nobody learns, so everybody is of generation 0
        recorded = {name.partition("@")[0]: rating for name, rating in recorded.items()}
    assert shown.keys() == recorded.keys()
    for player, rating in recorded.items():
        assert abs(shown[player] - rating) <= 0.051, player


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its headings and captions."""

    TEXT_OF = ("h2", "figcaption", "caption", "th")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {tag: [] for tag in self.TEXT_OF}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        if tag in self.TEXT_OF:
            self.open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data


def check_html(page: Page) -> None:
    """What the sections hold is in the file: headings, links that lead somewhere, captions."""
    shown = [section for section in page.sections if section.blocks]
    elements = Elements(render(page))
    anchors = {attributes["id"] for _, attributes in elements.all if attributes.get("id")}
    links = [attributes["href"] for tag, attributes in elements.all if tag == "a"]
    assert links, "no link to a section"
    dead = [link for link in links if not link or link.removeprefix("#") not in anchors]
    assert dead == []
    left_out = ["Not shown"] * (len(shown) < len(page.sections))
    headings = [section.title for section in shown]
    assert elements.texts["h2"] == headings + left_out
    figures = [block for section in shown for block in section.blocks if isinstance(block, Figure)]
    captions = [figure.title + figure.note for figure in figures]
    assert [text.strip() for text in elements.texts["figcaption"]] == captions
    columns = [text for text in elements.texts["th"] if text.strip()]
    for section in shown:
        for header in headers(section):
            assert set(filter(None, header)) <= set(columns), section.name
