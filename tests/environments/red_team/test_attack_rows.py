"""`red-team export-attacks`: one line an attack, which is a prompt again."""

import json
from pathlib import Path

import pytest
from small_runs import FINITE

from equipoise.environments.red_team.game import has_attack
from equipoise.ledger.ledger import Ledger
from equipoise.prompts.prompt_files import Files


def lines(path) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.mark.long
def test_every_answered_attack_is_a_line(command, red_team_run, tmp_path):
    done = command("red-team", "export-attacks", red_team_run, "--to", "attacks.jsonl", "--json")
    assert done.code == 0, done.err
    found = lines(tmp_path / "attacks.jsonl")
    assert done.facts == {"attacks.jsonl": len(found)}
    with Ledger.open(red_team_run / "ledger.sqlite") as ledger:
        matches = {
            match.id: match for part in ("train", "held_out") for match in ledger.matches(part)
        }
        words = ledger.judgements_of(matches)
    written = {
        id for id, match in matches.items() if "adversary" in match.seats and len(match.turns) == 2
    }
    assert {row["match"] for row in found} == written
    assert len(found) == len(written)
    for row in found:
        match, scores = matches[row["match"]], words[row["match"]].scores
        first, second = match.turns
        assert row["attack"] == first.move.text.strip() == row["prompt"][-1]["content"]
        assert row["answer"] == second.move.text
        assert row["seed"] in first.view.messages[0].content
        assert row["p_safe"] == scores["defender"]["p_safe"]
        assert row["success"] == (row["p_safe"] < 0.5)
        assert (row["adversary"], row["defender"]) == tuple(map(str, match.seats.values()))
        assert row["split"] == match.split
        assert row["generation"] == match.generation
        assert row["harmful"] is True


@pytest.mark.long
def test_attacks_are_chosen(command, red_team_run, tmp_path):
    counts = {}
    for name, options in {
        "all": [],
        "train": ["--part", "train"],
        "held_out": ["--part", "held_out"],
        "won": ["--successful"],
    }.items():
        done = command(
            "red-team", "export-attacks", red_team_run, "--to", f"{name}.jsonl", *options, "--json"
        )
        counts[name] = done.facts[f"{name}.jsonl"]
    assert counts["train"] + counts["held_out"] == counts["all"]
    assert {row["split"] for row in lines(tmp_path / "train.jsonl")} == {"train"}
    won = [row for row in lines(tmp_path / "all.jsonl") if row["success"]]
    assert 0 < counts["won"] == len(won) < counts["all"]


@pytest.mark.long
def test_attacks_are_read_as_prompts(command, red_team_run, tmp_path):
    command("red-team", "export-attacks", red_team_run, "--to", "attacks.jsonl")
    path = tmp_path / "attacks.jsonl"
    prompts = Files(kind="files", path=str(path), per_generation=1, held_out=0).load().training
    for prompt, row in zip(prompts, lines(path), strict=True):
        assert [{"role": m.role, "content": m.content} for m in prompt.messages] == row["prompt"]
        assert prompt.facts == {
            name: value for name, value in row.items() if name != "prompt" and value is not None
        }
        assert has_attack(prompt)  # the game asks it as it stands


@pytest.mark.long
def test_a_run_may_be_called_attacks(command, red_team_copy, tmp_path):
    red_team_copy("attacks")
    done = command("export", "attacks", "--to", "tables", "--json")
    assert done.code == 0
    assert (tmp_path / "tables" / "matches.parquet").is_file()
    done = command("red-team", "export-attacks", "attacks", "--to", "attacks.jsonl", "--json")
    assert done.code == 0
    assert (tmp_path / "attacks.jsonl").is_file()


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN", "other", "--to", "x.jsonl"], "unexpected extra argument"),
        (["RUN", "--to", "x"], ".jsonl"),
        (["RUN", "--to", "x.jsonl", "--part", "some"], "'held_out'"),
        (["nowhere", "--to", "x.jsonl"], "no run here"),
        (["finite", "--to", "x.jsonl"], "nobody attacks"),
    ],
)
def test_what_cannot_be_exported(command, red_team_run, arguments, words, tmp_path):
    if "finite" in arguments:
        assert command("run", *FINITE, "--out", "finite", "--json").code == 0
    given = [red_team_run if argument == "RUN" else argument for argument in arguments]
    refused = command("red-team", "export-attacks", *given)
    assert refused.code == 2
    assert words in refused.err
    assert not (tmp_path / "x.jsonl").exists()
