"""The board of the wind tunnel as a page has it."""

import json

import numpy as np
import pytest

from benchmarks import tables, tunnel_board
from benchmarks.tunnel_board import Board, BoardTable


def figures():
    """Two families, of three rules: one is best in one, two tie within a thousandth in the other."""
    gaps = {
        ("cyclic", "MNPO, two past"): (0.04, 0.02),
        ("cyclic", "INPO"): (0.03, 0.03),
        ("cyclic", "DPO iterated"): (0.10, 0.05),
        ("kuhn", "MNPO, two past"): (0.0205, 0.01),
        ("kuhn", "INPO"): (0.020, 0.01),
        ("kuhn", "DPO iterated"): (0.01, 0.02),
        ("noisy judge", "INPO"): (0.2, None),
    }
    rows, cells = [], []
    for (family, rule), (last, average) in gaps.items():
        label = rule.replace(",", ";")
        for game, sign in enumerate((-1, 1)):
            other = "" if average is None else str(average + sign * 0.01)
            rows.append(f"{family},{label},{game},{last + sign * 0.01},{other},{last}")
        cells.append(
            {
                "family": family,
                "rule": rule,
                "forgiving": 0.5 if family == "cyclic" else None,
                "lost": 0.25 if family == "cyclic" else None,
                "entropy": 0.3,
                "evaluations": 2.0,
                "policies": 3,
            }
        )
    return {"rows": rows, "cells": cells, "resumed": {"INPO": True, "DPO iterated": False}}


def test_a_row_has_its_mean_gaps_and_its_mean_place():
    board = Board.of(figures())
    assert board.families() == ["cyclic", "kuhn"]
    rows = {row[0]: row[1:] for row in board.gap_rows("last")}
    assert rows["MNPO, two past"] == ["0.040", "0.021", "2.2"]  # second, and second with another
    assert rows["INPO"] == ["0.030", "0.020", "1.8"]
    assert rows["DPO iterated"] == ["0.100", "0.010", "2.0"]
    costs = {row[0]: row[1:] for row in board.cost_rows()}
    assert costs["INPO"] == ["", "0.200", "", "50 %", "", "25 %", "2", "3", "yes"]
    assert costs["DPO iterated"][-1] == "no"


def test_whether_an_order_carries_over_is_told_with_what_could_be_noise(tmp_path, monkeypatch):
    board = tmp_path / "tunnel.json"
    board.write_text(json.dumps({"figures": figures(), "arguments": {}}))
    monkeypatch.setattr(tunnel_board, "RAW", board)

    class Scores:
        def difference(self, first, second, arm):
            arms = (first.partition(":")[0], second.partition(":")[0])
            mean, width = {
                ("mnpo, ½ ½", "inpo"): (0.05, 0.01),
                ("mnpo, ½ ½", "dpo"): (0.05, 0.01),
                ("inpo", "dpo"): (-0.01, 0.5),
            }[arms]
            return Interval(mean, mean - width, mean + width)

    class Interval:
        def __init__(self, mean, low, high):
            self.mean, self.low, self.high = mean, low, high

        def text(self):
            return f"{self.mean:+.3f}"

    monkeypatch.setattr(tunnel_board, "raw", lambda name: (Scores(), {}))
    [first, second, third, *_] = BoardTable("carried").rows()
    assert first[1:] == ["MNPO, two past less INPO", "+0.010", "+0.050", "as predicted"]
    assert second[2:] == ["-0.060", "+0.050", "the other way round"]
    assert third[2:] == ["-0.070", "-0.010", "as predicted, within the noise"]


def test_the_page_has_the_tables_of_the_raw_file():
    if not tunnel_board.RAW.is_file():
        pytest.skip("the raw file is not made yet")
    page = tables.ROOT / "docs" / "tunnel.md"
    assert page.read_text() == tables.NAMED.sub(tables._of_method, page.read_text())
    assert np.all([len(BoardTable("last").head()) == len(row) for row in BoardTable("last").rows()])
