"""The benchmark of `attack-judge`: planted holes, and the table of its rows."""

import json

import pytest

from benchmarks import attack_judges


@pytest.mark.long
def test_a_planted_hole_is_found_and_counted(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(attack_judges, "NOISE", (0.0,))
    monkeypatch.setattr(attack_judges, "OPEN", (1.0,))
    cases = attack_judges.default_cases()
    monkeypatch.setattr(attack_judges, "default_cases", lambda: {"exact": cases["exact"]})
    file = tmp_path / "raw.json"
    monkeypatch.setattr(
        "sys.argv", ["attack_judges", "--draws=1", "--prompts=12", f"--json={file}"]
    )
    attack_judges.main()
    rows = json.loads(file.read_text())["rows"]
    power = [row for row in rows if row["part"] == "power"]
    assert {row["planted"]: row["kinds"] for row in power} == {
        kind: [] if kind == "none" else [kind] for kind in attack_judges.HOLES.values()
    }
    shown = capsys.readouterr().out
    assert "| length | 0 | 100% | 100.0 %" in shown
    assert "| `exact`, alone | 0 | – | – |" in shown
