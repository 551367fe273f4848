"""The verbs on a finished run of the finite game, and on a run in the middle."""

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from small import FINITE, settings


@pytest.fixture
def run(command, tmp_path):
    assert command("run", *FINITE, "--out", "run", "--json").code == 0
    return tmp_path / "run"


@pytest.mark.long
def test_status_knows_it_is_finished(command, run):
    facts = command("status", run, "--json").facts
    assert facts["finished"] and facts["generation"] == 3
    assert facts["records"]["matches"] == 24
    assert facts["records"]["unjudged_share"] == 0
    shown = command("status", run).out
    assert "exploitability" in shown and "24" in shown


@pytest.mark.long
def test_resuming_a_finished_run_changes_nothing(command, run):
    before = {
        path: path.read_bytes()
        for path in run.rglob("*")
        if path.name in ("policy.json", "metrics.jsonl")
    }
    first = command("status", run, "--json").facts
    resumed = command("resume", run, "--json")
    assert resumed.code == 0
    assert command("status", run, "--json").facts == first
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.long
def test_the_same_seed_gives_the_same_run_and_another_another(command, run):
    again = command("run", *FINITE, "--out", "again", "--json").facts
    other = command("run", *FINITE, "-s", "seed=1", "--out", "other", "--json").facts
    first = command("resume", run, "--json").facts
    assert again["measured"] == first["measured"]
    for name, same in (("again", True), ("other", False)):
        command("export", run, "--to", "a")
        command("export", name, "--to", "b")
        assert (pq.read_table("a/turns.parquet") == pq.read_table("b/turns.parquet")) is same
    assert other["records"] == first["records"]


@pytest.mark.long
def test_export_holds_every_record(command, run):
    written = command("export", run, "--to", "out", "--json").facts
    rows = {path.split("/")[-1].removesuffix(".parquet"): count for path, count in written.items()}
    assert (
        rows["matches"] == 24
        and rows["turns"] == 48
        and rows["scores"] == 48
        and rows["players"] == 3
    )
    assert pq.read_table("out/scores.parquet").column("value").to_pylist()[:2] in (
        [0.0, 0.0],
        [1.0, -1.0],
        [-1.0, 1.0],
    )


@pytest.mark.long
def test_report_can_be_written_anew(command, run):
    (run / "report.html").unlink()
    assert command("report", run).code == 0
    assert (run / "report.html").stat().st_size > 1_000_000  # plotly is inside


@pytest.mark.long
def test_overwrite_is_asked_for(command, run):
    refused = command("run", *FINITE, "--out", run)
    assert refused.code == 2 and "resume" in refused.err and "--overwrite" in refused.err
    assert command("run", *FINITE, "--out", run, "--overwrite", "--json").code == 0


@pytest.mark.long
def test_a_file_in_place_of_a_folder_is_left_alone(command, run, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    for line in (
        ("run", "quickstart", "--out", file, "--overwrite"),
        ("export", run, "--to", file),
        ("report", run, "--out", file / "page.html"),
    ):
        done = command(*line)
        assert done.code == 2 and str(file) in done.err, done.err
    assert file.read_text() == "mine"
    done = command("report", run, "--out", tmp_path)
    assert done.code == 2 and "is a folder" in done.err


@pytest.mark.long
def test_a_report_makes_the_folder_that_it_is_asked_for(command, run, tmp_path):
    page = tmp_path / "pages" / "mine.html"
    assert command("report", run, "--out", page).code == 0 and page.is_file()


def test_only_runs_are_overwritten(command, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    refused = command("run", *FINITE, "--out", "precious", "--overwrite")
    assert refused.code == 2 and "not a run directory" in refused.err
    assert (tmp_path / "precious" / "thesis.tex").exists()


@pytest.mark.long
def test_doctor_finds_the_parts(command):
    found = {check["check"]: check for check in command("doctor", "--json").facts}
    assert found["ledger"]["ok"] and found["built-in model"]["ok"], found


@pytest.mark.long
def test_help_of_every_verb(command):
    from equipoise.cli import VERBS
    from equipoise.system.wings import wing_table

    of_games = [
        f"{game} {verb}" for game, verbs in wing_table("COMMANDS").items() for verb in verbs
    ]
    for verb in [*VERBS, *of_games]:
        shown = command(*verb.split(), "--help")
        assert shown.code == 0 and f"equipoise {verb} " in shown.out


def commands():
    """Every verb's command, those of games included."""
    import typer

    from equipoise.cli import VERBS, app

    group = typer.main.get_command(app())
    for verb in VERBS:
        yield group.resolve_command(None, [verb])[1]
    for game in group.games.values():
        yield from (game.get_command(None, verb) for verb in game.paths)


def test_every_help_text_is_shown_whole():
    """What stands in brackets would be read as markup, and vanish: defaults are stated by
    `show_default`.
    """
    helps = [option.help or "" for verb in commands() for option in verb.params]
    assert not [text for text in helps if "[" in text]


def test_the_list_of_verbs_tells_what_each_tells_of_itself():
    from equipoise.cli import VERBS

    helps = {verb.name: verb.help.partition("\n\n")[0].replace("\n", " ") for verb in commands()}
    assert {verb: helps[verb] for verb in VERBS} == VERBS


@pytest.mark.parametrize(
    ("spelling", "hint"),
    [
        ("crossplay", "red-team crossplay"),
        ("export-attacks", "red-team export-attacks"),
        ("traces", "assistance traces"),
        ("welfare", "assistance welfare"),
        ("resum", "resume"),
    ],
)
def test_a_verb_that_is_not_there_is_suggested(command, spelling, hint):
    done = command(spelling, "run")
    assert done.code == 2 and f"Did you mean '{hint}'?" in done.err


@pytest.mark.long
def test_the_list_of_verbs_imports_no_verb():
    """Nor pydantic, so that it is there at once."""
    code = (
        "import sys\n"
        "sys.argv = ['equipoise', '--help']\n"
        "from equipoise.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    late = {'pydantic', 'yaml', 'equipoise.component', 'equipoise.cli.run'}\n"
        "    assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_command_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", "recipes"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "quickstart" in done.stdout


def test_the_version_is_printed(command):
    from equipoise import __version__

    shown = command("--version")
    assert shown.code == 0 and shown.out == f"equipoise {__version__}\n"


@pytest.mark.long
def test_a_run_that_cannot_learn_says_so_first_and_last(command, tmp_path):
    few = settings(
        generations=1,
        prompts__per_generation=12,
        prompts__held_out=8,
        evaluate__samples=2,
        evaluate__sets="null",
        learner__learning_rate=1e-9,
    )
    done = command("run", "quickstart", *few, "--out", "few")
    assert done.code == 0, done.err
    assert "takes at most 1 optimizer steps" in done.err.partition("generation 0")[0]
    box = " ".join(done.out.split("╭")[1].replace("│", " ").split())
    assert "No change can be told from none" in box
    assert "'policy' took 1 optimizer step in the whole run" in box
    page = (tmp_path / "few" / "report.html").read_text()
    warnings = page[page.index('<aside class="warnings"') : page.index("</aside>")]
    assert warnings.split("<li>")[1].startswith("No change can be told from none")
    assert len(command("status", "few", "--json").facts["cautions"]) == 2


@pytest.mark.long
def test_a_run_that_changed_says_nothing_of_the_kind(command, run):
    assert command("status", run, "--json").facts["cautions"] == []
