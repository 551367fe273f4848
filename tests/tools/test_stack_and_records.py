"""Tools of the makers: the depth of stacks, the records of recipes."""

import re
import sqlite3
import sys
from contextlib import closing

import pytest

from tools import recipe_records, stack_depth


@pytest.mark.long
def test_the_stacks_of_a_quickstart_are_printed(capsys):
    stack_depth.main()
    printed = capsys.readouterr().out.splitlines()
    figures = [line for line in printed if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in figures] == ["loss", "forward pass", "curve"]
    for line in figures:
        depth, most = map(int, re.findall(r"\d+", line))
        assert depth <= most, line
    assert "    runs/loop.py:generation" in printed


def test_only_functions_of_the_package_are_counted():
    assert stack_depth.package_functions(sys._getframe()) == []


@pytest.mark.long
def test_records_are_made_and_compared(tmp_path, capsys):
    for name in ("first", "second"):
        arguments = [tmp_path / name, "rock_paper_scissors", "--rows", tmp_path / "rows"]
        assert recipe_records.main(["make", *map(str, arguments)]) == 0
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    assert recipe_records.main(["compare", *folders]) == 0
    assert "rock_paper_scissors: equal (prompts 16, " in capsys.readouterr().out
    ledger = tmp_path / "second" / "rock_paper_scissors" / "ledger.sqlite"
    with closing(sqlite3.connect(ledger)) as database, database:
        database.execute("UPDATE prompts SET split = 'test' WHERE rowid = 1")
    assert recipe_records.main(["compare", *folders, "--verbose"]) == 1
    assert "prompts: 1 of " in capsys.readouterr().out
