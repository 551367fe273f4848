"""`welfare` on two runs of the assistant's game, and `report --beside`."""

import assistance_run
import pytest

from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader


@pytest.fixture
def runs(tmp_path):
    assistance_run.write(tmp_path / "a", prompts=8)
    assistance_run.write(tmp_path / "b", prompts=6, ahead=0.125)
    with new_run(recipe_loader.load("rock_paper_scissors", []), tmp_path / "finite"):
        return tmp_path


@pytest.mark.long
def test_two_runs_side_by_side(command, runs):
    facts = command("assistance", "welfare", "a", "b", "--json").facts
    assert facts["runs"] == ["a", "b"]
    assert facts["generations"] == [4, 4]
    assert facts["prompts"] == {"both": 6, "only_first": 2, "only_second": 0}
    assert facts["differences"]["user"]["mean"] == pytest.approx(-0.125)
    assert facts["dominance"]["second_dominates"] == 6
    assert facts["first"]["quality_per_1000_tokens"] == 8.0
    shown = command("assistance", "welfare", "a", "b").out
    for words in (
        "6 prompts in both",
        "a@4",
        "Nash welfare",
        "answer score per 1000 tokens",
        "2 prompts, left out",
    ):
        assert words in shown, shown


@pytest.mark.long
def test_generations_of_one_run(command, runs):
    facts = command(
        "assistance",
        "welfare",
        "a@0",
        "a",
        "--generation-b",
        2,
        "--eps",
        0.05,
        "--reference",
        0.1,
        0.2,
        "--json",
    ).facts
    assert facts["generations"] == [0, 2]
    assert facts["runs"] == ["a", "a"]
    assert facts["settings"] == {"eps": 0.05, "alpha": 0.5, "reference": [0.1, 0.2]}
    assert facts["differences"]["user"]["mean"] == pytest.approx(-0.1)
    (runs / "a").rename(runs / "a@2")  # a folder of that name, and no generation
    assert command("assistance", "welfare", "a@2", "a@2@0", "--json").facts["generations"] == [4, 0]


@pytest.mark.long
def test_what_cannot_be_compared_is_one_message(command, runs):
    assistance_run.write(runs / "new", played=False)
    for arguments, words in (
        (["a", "finite"], "plays the game 'matrix'"),
        (["new", "a"], "nothing was measured yet"),
        (["a@1", "b"], "generation 1 was not measured; measured are 0, 2, 4"),
        (["a@0", "b", "--generation-a", 2], "already names a generation"),
        (["a", "nowhere"], "no run here"),
        (["a", "b", "--reference", "nan", "0"], "each must be a finite number"),
        (["a", "b", "--eps", "-1"], "--eps"),
        (["a", "b", "--alpha", "2"], "--alpha"),
    ):
        refused = command("assistance", "welfare", *arguments)
        assert refused.code == 2 and words in refused.err, (arguments, refused.err)


@pytest.mark.long
def test_a_report_draws_other_runs_beside_its_own(command, runs):
    assert (
        command("report", "a", "--beside", "b", "--beside", "a@0", "--out", "both.html").code == 0
    )
    page = (runs / "both.html").read_text()
    assert "b@4" in page
    assert "a@0" in page
    assert command("report", "a", "--out", "alone.html").code == 0
    assert "b@4" not in (runs / "alone.html").read_text()
    for folder, other, words in (
        ("a", "finite", "finite: is measured by 'finite', and a by 'assistance'"),
        ("finite", "a", "finite: nothing has been measured yet"),
    ):
        refused = command("report", folder, "--beside", other)
        assert refused.code == 2
        assert words in " ".join(refused.err.split())


@pytest.mark.long
def test_status_names_welfare_and_right_moves(command, runs):
    measured = command("status", "a", "--json").facts["measured"]
    assert measured["welfare"] == 0.47
    assert measured["right"] == pytest.approx(0.9)
    assert "right" in command("status", "a").out
