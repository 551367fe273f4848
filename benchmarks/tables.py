"""The tables of docs/results.md, docs/games.md, docs/tunnel.md and the README, made from the raw
results.

    python -m benchmarks.tables            write them
    python -m benchmarks.tables --check    exit with 1 where a page differs, or says another
                                           verdict or difference than its raw result does, or
                                           none on a claim of its method, and where a raw result
                                           differs from its items, names no commit of the history,
                                           or one that was changed

A row comes from the file of its benchmark in `benchmarks/results/`; what has no raw result there
has no row.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import origins, table_rows, table_speeds, tunnel_board, verdicts
from benchmarks.kuhn_table import COLUMNS, kuhn_rows
from benchmarks.method_tables import TABLES
from benchmarks.table_rows import RESULTS, ROOT, Results, Row

CLAIMS = ROOT / "docs" / "claims"
ALL_CLAIMS = ROOT / "docs" / "lab" / "all_claims.md"
# Everything between a page's two marks is this command's.
MARKS = re.compile(
    r"(?<=<!-- made by python -m benchmarks\.tables -->\n).*?(?=<!-- end -->)", re.DOTALL
)
# … or under the name of a table of a method.
NAMED = re.compile(
    r"(<!-- (\w+), made by python -m benchmarks\.tables -->\n).*?(<!-- end -->)", re.DOTALL
)
# Benchmarks whose figures the methods' pages hold.
ON_PAGES = ("trial_instructions", "trial_gpo")


# Benchmark -> what makes a row of its raw results, in the order of the rows.
MADE: dict[str, Callable[[Results], Row]] = {
    "trial_instructions": table_rows.instructions,
    "quickstart": table_rows.quickstart,
    "trial_gpo": table_rows.gpo,
    "gtalign_oracle": table_speeds.gtalign_oracle,
    "optimism": table_rows.optimism,
    "kuhn": table_rows.kuhn,
    "steering": table_speeds.steering,
    "serving": table_speeds.serving,
    "policy_gradient": table_speeds.policy_gradient,
    "diversity": table_speeds.diversity,
    "preference_training": table_speeds.preference_training,
    "limit": table_speeds.limit,
    "sampling": table_speeds.sampling,
    "ledger": table_speeds.ledger,
}


def all_rows() -> dict[str, Row]:
    """Every benchmark's row."""
    return {
        name: make(json.loads((RESULTS / f"{name}.json").read_text()))
        for name, make in MADE.items()
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as the pages hold it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def pages() -> dict[Path, str]:
    """Page -> what it should say, from the results as they are.

    Raises ValueError for a page without the two marks.
    """
    rows = all_rows()
    columns = ("what", "figure", "what could refute it", "measured", "command")
    long = [row.cells() for name, row in rows.items() if name not in ON_PAGES]
    poker, _ = verdicts.raw("kuhn")
    tables = {
        ROOT / "docs" / "results.md": markdown(columns, long),
        ROOT / "docs" / "games.md": markdown(COLUMNS, kuhn_rows(poker)),
        CLAIMS / "index.md": markdown(("question", "tested on", "verdict"), verdicts.asked_rows()),
        ALL_CLAIMS: markdown(("claim", "tested on", "verdict"), verdicts.rows()),
    }
    made = {}
    for page, table in tables.items():
        text = page.read_text()
        if not MARKS.search(text):
            raise ValueError(f"{page.name}: has no place for the table of results")
        text = MARKS.sub(lambda match, table=table: table, text)
        made[page] = NAMED.sub(_of_method, text)
    named = (ROOT / "README.md", ROOT / "docs" / "tunnel.md")
    for page in (*named, *sorted(CLAIMS.glob("[!i]*.md"))):
        made[page] = NAMED.sub(_of_method, page.read_text())
    return made


def _of_method(marks: re.Match[str]) -> str:
    table = (TABLES | tunnel_board.TABLES)[marks[2]]
    return f"{marks[1]}{markdown(table.head(), table.rows())}{marks[3]}"


def judging() -> list[Path]:
    """The pages whose bold words are verdicts; the tables of claims are made whole."""
    made = (CLAIMS / "index.md", ALL_CLAIMS)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page not in made]


def wrong_on(page: Path) -> list[str]:
    """The verdicts that a page says and should not, and those that a method's page leaves out."""
    text = page.read_text()
    left = verdicts.unsaid(page.stem, text) if page.parent == CLAIMS else ()
    wrong = verdicts.wrong_words(text) + verdicts.wrong_figures(text)
    return wrong + [f"{name}: has no verdict" for name in left]


def main() -> None:
    """Write the pages, or say which are not what the results say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for page, text in pages().items():
        if page.read_text() != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(text)
    wrong = {page.name: said for page in judging() if (said := wrong_on(page))}
    for name, said in wrong.items():
        print(f"{name}: {'; '.join(said)}")
    torn = {file.name: why for file in RESULTS.glob("*.json") if (why := verdicts.torn(file))}
    for name, why in torn.items():
        print(f"{name}: {why}")
    print(f"{'differ' if check else 'written'}: {', '.join(stale) or 'none'}")
    if check:
        refused, again = origins.checked()
        for verdict, results in (("to be made again", again), ("refused", refused)):
            for name, why in results.items():
                print(f"{verdict}: {name}.json: {why}")
        sys.exit(bool(stale or wrong or torn or refused))


if __name__ == "__main__":
    main()
