"""One number has one interval: `status`, report, leaderboard, frames, `evaluate` and comparison of
one run, line by line.
"""

import pytest

import equipoise
from equipoise.blocks.section import Table, Tiles
from equipoise.cli.evaluate import results_table
from equipoise.report.comparison_page import comparison_page
from equipoise.report.leaderboard import leaderboard
from equipoise.report.page import page
from equipoise.runs.directory import RunDirectory

PLAYERS = {
    "ann": ["It is 7.", "Seven it is, I think"],
    "bob": ["No idea at all, sorry", "No."],
    "cem": ["Seven", "Eight or nine it may be", "a e i o u a e"],
}
PROMPTS = [f"What is {n} plus 6?" for n in range(9)]


def longest(prompt, text):
    return float(len(text))


def vowels(prompt, text):
    return sum(text.count(letter) for letter in "aeiou") / 10


def right(prompt, text):
    return float("7" in text or "Seven" in text)


def blocks(shown, kind):
    return [block for section in shown.sections for block in section.blocks if type(block) is kind]


def cells(shown, section, column):
    """Row -> a cell of the first table of a section that has the column."""
    for each in shown.sections:
        if each.name != section:
            continue
        for table in each.blocks:
            if isinstance(table, Table) and column in table.columns:
                place = table.columns.index(column)
                return {row[0]: row[place] for row in table.rows}
    raise AssertionError(f"no {column} in {section}")


def tiles(shown):
    return {tile.label: tile.value for block in blocks(shown, Tiles) for tile in block.tiles}


@pytest.fixture
def make(tmp_path):
    def run(judge):
        settings = {
            "players": {
                name: {"kind": "scripted", "texts": texts} for name, texts in PLAYERS.items()
            },
            "prompts": PROMPTS,
            "judge": judge,
            "evaluate.samples": 2,
        }
        return equipoise.run("arena", settings, tmp_path / "run", progress=False)

    return run


def shown_of(run):
    with RunDirectory.read(run.path, trust=True) as opened:
        return page(opened)


PANEL = {
    "kind": "panel",
    "how": "majority",
    "judges": {"l": longest, "v": vowels, "r": "repetition"},
}


@pytest.mark.long
@pytest.mark.parametrize("judge", [PANEL, right], ids=["compared", "scored"])
def test_exploitability_and_win_rates_are_the_same_everywhere(make, judge, monkeypatch):
    run = make(judge)
    boards = []
    monkeypatch.setattr(
        "equipoise.report.leaderboard.leaderboard",
        lambda *args: boards.append(leaderboard(*args)) or boards[-1],
    )
    run.leaderboard()
    [board] = boards
    report = shown_of(run)
    comparison = comparison_page(equipoise.compare(run).numbers)
    status = {line["label"]: line["value"] for line in run.status()["headlines"]}
    of_report = tiles(report)
    of_board = cells(board, "leaderboard", "exploitability")
    of_comparison = cells(comparison, "win-rates-0", "exploitability")
    for name in PLAYERS:
        gap = status[f"exploitability of {name}"]
        assert of_report[f"exploitability of {name}"] == gap
        assert of_board[name] == of_comparison[name]
        if gap == "0.000":  # 0 by every interval
            assert of_board[name] == "0.00 (nobody beats it)"
        else:
            assert of_board[name] == gap
            assert "to" in gap
        over = f"over {name}"
        rates = cells(report, "payoffs", over)
        assert rates == cells(board, "payoffs", over) == cells(comparison, "win-rates-0", over)
        assert all("to" in rate for other, rate in rates.items() if other != name)


@pytest.mark.long
def test_scores_are_the_same_everywhere(make):
    run = make(right)
    comparison = equipoise.compare(run)
    standings = cells(comparison_page(comparison.numbers), "standings", "score")
    frame = {row["name"]: row for row in run.measures().to_dict("records")}
    of_report = tiles(shown_of(run))
    status = {line["label"]: line["value"] for line in run.status()["headlines"]}
    text = repr(run)
    for row in comparison.standings().itertuples():
        name = row.target
        assert (
            status[f"held-out score of {name}"]
            == of_report[f"held-out score of {name}"]
            == standings[name]
        )
        assert f"{name} scores {standings[name]}" in text
        measured = frame[name]
        assert (measured["score"], measured["score_low"], measured["score_high"]) == (
            row.score,
            row.low,
            row.high,
        )


@pytest.mark.long
def test_a_named_sets_score_is_the_same_everywhere(make):
    run = make("shorter")
    results = run.evaluate({"mine": PROMPTS}, list(PLAYERS), right, progress=False)
    comparison = equipoise.compare(run, on={"mine": PROMPTS}, judge=right, progress=False)
    table = results_table([(run.path, row) for row in run.beside_start(results)])
    printed = [str(cell) for cell in table.columns[3].cells]
    benchmarks = {row["name"]: row for row in run.benchmarks().to_dict("records")}
    of_report = [
        cell for table in blocks(shown_of(run), Table) for row in table.rows for cell in row
    ]
    for row, cell in zip(comparison.standings().itertuples(), printed, strict=True):
        recorded = benchmarks[row.target]
        assert (recorded["mean"], recorded["low"], recorded["high"]) == (
            row.score,
            row.low,
            row.high,
        )
        shown = cells(comparison_page(comparison.numbers), "standings", "score")
        assert shown[row.target] in printed
        assert shown[row.target] in of_report
        assert cell in shown.values()
