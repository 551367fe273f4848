"""The verbs on a finished run of the finite game, and on a run in the middle."""

import errno
import os
import re
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
import typer
from small_runs import FINITE, settings

from equipoise.errors import ModelError

MACHINE_OPTIONS = ("--launch-prefix", "--ray-address", "--proxy")


@pytest.fixture
def run(command, tmp_path):
    assert command("run", *FINITE, "--out", "run", "--json").code == 0
    return tmp_path / "run"


@pytest.mark.long
def test_status_knows_it_is_finished(command, run):
    facts = command("status", run, "--json").facts
    assert facts["finished"]
    assert facts["generation"] == 3
    assert facts["records"]["matches"] == 24
    assert facts["records"]["unjudged_share"] == 0
    shown = command("status", run).out
    assert "exploitability" in shown
    assert "24" in shown


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
    assert rows["matches"] == 24
    assert rows["turns"] == 48
    assert rows["scores"] == 48
    assert rows["players"] == 3
    assert pq.read_table("out/scores.parquet").column("value").to_pylist()[:2] in (
        [0.0, 0.0],
        [1.0, -1.0],
        [-1.0, 1.0],
    )


@pytest.mark.long
def test_report_can_be_written_anew(command, run):
    (run / "report.html").unlink()
    assert command("report", run).code == 0
    assert 20_000 < (run / "report.html").stat().st_size < 1_000_000


@pytest.mark.long
def test_overwrite_is_asked_for(command, run):
    refused = command("run", *FINITE, "--out", run)
    assert refused.code == 2
    assert "resume" in refused.err
    assert "--overwrite" in refused.err
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
    assert done.code == 2
    assert "is a folder" in done.err


@pytest.mark.long
def test_a_report_makes_the_folder_that_it_is_asked_for(command, run, tmp_path):
    page = tmp_path / "pages" / "mine.html"
    assert command("report", run, "--out", page).code == 0
    assert page.is_file()


def test_only_runs_are_overwritten(command, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    refused = command("run", *FINITE, "--out", "precious", "--overwrite")
    assert refused.code == 2
    assert "not a run directory" in refused.err
    assert (tmp_path / "precious" / "thesis.tex").exists()


@pytest.mark.long
def test_doctor_finds_the_parts(command):
    found = {check["check"]: check for check in command("doctor", "--json").facts}
    assert found["ledger"]["ok"] and found["built-in model"]["ok"], found


@pytest.mark.long
def test_help_of_every_verb(command):
    from equipoise.cli import VERBS
    from equipoise.system.plugins import plugin_table

    of_games = [
        f"{game} {verb}" for game, verbs in plugin_table("COMMANDS").items() for verb in verbs
    ]
    for verb in [*VERBS, *of_games]:
        shown = command(*verb.split(), "--help")
        assert shown.code == 0
        assert f"equipoise {verb} " in shown.out


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
    """Brackets are for what the command adds by itself, such as a default."""
    helps = [option.help or "" for verb in commands() for option in verb.params]
    assert not [text for text in helps if "[" in text]


def test_the_list_of_verbs_tells_what_each_tells_of_itself():
    from equipoise.cli import VERBS

    helps = {verb.name: verb.help.partition("\n\n")[0].replace("\n", " ") for verb in commands()}
    assert {verb: helps[verb] for verb in VERBS} == VERBS


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("run", {"--launch-prefix", "--ray-address", "--proxy"}),
        ("resume", {"--launch-prefix", "--ray-address", "--proxy"}),
        ("best-response", {"--launch-prefix", "--ray-address", "--proxy"}),
        ("evaluate", {"--proxy"}),
        ("init", {"--proxy"}),
        ("serve", set()),
        ("status", set()),
    ],
)
def test_options_of_the_machine_are_those_that_a_verb_reads(command, verb, options):
    shown = command(verb, "--help").out
    assert {option for option in MACHINE_OPTIONS if f"  {option} " in shown} == options
    assert ("This machine:" in shown) == bool(options)


def test_the_list_of_verbs_is_in_five_groups_of_whole_lines(command, monkeypatch):
    from equipoise.cli import GROUPS

    monkeypatch.setenv("COLUMNS", "120")
    shown = command("--help").out
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    for group, verbs in GROUPS.items():
        assert f"{group}:" in lines
        assert {f"{verb} {text}" for verb, text in verbs.items()} <= lines


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
    assert done.code == 2
    assert f"Did you mean '{hint}'?" in done.err


@pytest.mark.long
def test_the_list_of_verbs_imports_no_verb():
    """Nor pydantic, nor what draws boxes, so that it is there at once."""
    code = (
        "import sys\n"
        "sys.argv = ['equipoise', '--help']\n"
        "from equipoise.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    late = {'pydantic', 'yaml', 'rich', 'equipoise.component', 'equipoise.cli.run'}\n"
        "    assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_command_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", "recipes"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "quickstart" in done.stdout


def test_the_version_is_printed(command):
    from equipoise import __version__

    shown = command("--version")
    assert shown.code == 0
    assert shown.out == f"equipoise {__version__}\n"


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


def test_without_a_verb_the_help_is_shown(command):
    """Of all, and of the verbs of one game."""
    for words, listed in (((), "best-response"), (("red-team",), "export-attacks")):
        bare, asked = command(*words), command(*words, "--help")
        assert asked.code == 0
        assert listed in asked.out
        assert bare.code in (0, 2)
        assert (bare.out + bare.err).strip() == asked.out.strip()
        assert command(*words, "-h").out == asked.out


def test_a_missing_package_names_the_extra_that_brings_it(command, monkeypatch):
    """Others' missing modules stay errors."""
    from equipoise import cli

    for package, extra in (("peft", "train"), ("openai", "endpoints"), ("uvicorn", "serve")):

        def verb(*_, name=package):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

        monkeypatch.setattr(cli, "app", lambda verb=verb: verb)
        done = command("recipes")
        said = f"error: this needs the package '{package}'; pip install 'equipoise[{extra}]'\n"
        assert (done.code, done.err) == (2, said)
    with pytest.raises(ModuleNotFoundError):
        monkeypatch.setattr(cli, "app", lambda: lambda: verb(name="else"))
        command("recipes")


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (errno.ENOSPC, 1, "cannot write (No space left on device); free some space"),
        (errno.EACCES, 2, "cannot be read or written (Permission denied)"),
        (errno.EISDIR, 2, "cannot be read or written (Is a directory)"),
    ],
)
def test_what_the_system_refuses_is_one_message(command, monkeypatch, number, code, said):
    from equipoise import cli

    def verb():
        raise OSError(number, os.strerror(number), "a\x1b" + "b" * 300)

    monkeypatch.setattr(cli, "app", lambda: verb)
    done = command("recipes")
    assert (done.code, done.out) == (code, "")
    assert done.err == f"error: a\ufffd{'b' * 197}…: {said}\n"


@pytest.mark.parametrize("where", ["app", "make_context", "resolve_command", "invoke"])
def test_what_is_interrupted_is_stopped(command, monkeypatch, where):
    from equipoise import cli

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli if where == "app" else cli.VerbGroup, where, stop)
    done = command("recipes")
    assert (done.code, done.err) == (130, "error: stopped\n")


def test_ctrl_c_at_a_question_is_a_stop(command, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asking = sys.modules[typer.prompt.__module__]  # typer's own, or click in older versions
    monkeypatch.setattr(asking, "visible_prompt_func", Mock(side_effect=KeyboardInterrupt))
    done = command("init", "mine.yaml")
    assert (done.code, done.err) == (130, "error: stopped\n")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("quickstart", "Did you mean 'run quickstart'?"),
        ("mine.yaml", "Did you mean 'run mine.yaml'?"),
        ("mine.yml", "Did you mean 'run mine.yml'?"),
        ("--verbose", "No such option: --verbose"),
        ("run quickstart --generations 3", "-s generations=3"),
        ("run quickstart generations=3", "Write -s generations=3."),
        ("rate run --by=elo --k=8", "A setting is given as -s KEY=VALUE."),
        ("status run extra", "(extra)"),
    ],
)
def test_a_command_line_that_was_meant_otherwise(command, line, hint):
    done = command(*line.split())
    words = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and hint in words, words
    if line.startswith("status"):
        assert "-s KEY=VALUE" not in words


@pytest.mark.long
def test_a_report_lies_where_it_is_asked_for_or_in_its_run(command, recorded_folder, tmp_path):
    run = shutil.copytree(recorded_folder("people"), tmp_path / "run")
    assert command("report", "run").out == f"{run / 'report.html'}\n".replace(f"{tmp_path}/", "")
    assert command("report", "run", "--out", "mine.html").out == "mine.html\n"
    assert (tmp_path / "mine.html").read_bytes() == (run / "report.html").read_bytes()
    refused = command("report", "run", "--leaderboard", "--judge", "shorter")
    assert refused.code == 2
    assert "rated by the judge that measured it" in refused.err
    for given, why in (
        (("--leaderboard", "--beside", "run"), "--beside: a leaderboard shows one run"),
        (("--judge", "shorter"), "--judge: chooses the judge of a --leaderboard"),
    ):
        refused = command("report", "run", *given)
        assert refused.code == 2
        assert why in refused.err


@pytest.mark.parametrize(
    "options",
    [("--votes", "--push", "lab/x"), ("--answers", "--push", "lab/x"), ("--votes", "--answers")],
)
def test_an_export_is_of_one_kind(options, command):
    refused = command("export", "run", "--to", "out", *options)
    assert refused.code == 2
    assert "give one of them" in refused.err


def test_votes_and_answers_are_exported_in_place_of_records(command, recorded_folder, tmp_path):
    shutil.copytree(recorded_folder("people"), tmp_path / "run")
    votes = command("export", "run", "--to", "votes", "--votes")
    answers = command("export", "run", "--to", "answers", "--answers")
    assert votes.code == answers.code == 2
    assert "preferred no answer yet" in votes.err
    assert "no answers to alpaca_eval, arena_hard" in answers.err
    assert not (tmp_path / "votes").exists()


def test_whether_a_runs_base_is_trusted_is_asked_where_no_other_is_named(
    command, recorded_folder, tmp_path, monkeypatch
):
    run = shutil.copytree(recorded_folder("people"), tmp_path / "run")
    generation = run / "players" / "poet" / "1"
    generation.mkdir(parents=True)
    asked = []
    monkeypatch.setattr(
        "equipoise.api.handle.ask_for_trust", lambda folder, trust: asked.append(folder)
    )
    for given, questions in (((), [run]), (("--base", "b"), []), (("--trust",), [])):
        asked.clear()
        done = command("merge", generation, "--to", "whole", *given)
        assert done.code == 2
        assert "holds neither an adapter" in done.err
        assert asked == questions


@pytest.mark.parametrize("whole", [True, False])
def test_the_doctor_says_what_is_well(command, monkeypatch, whole):
    from equipoise.planning import machine_checks

    def broken():
        raise ValueError("first\nsecond")

    def missing():
        raise ModelError("no such model")

    checks = [("one", lambda: "fine"), *([] if whole else [("two", broken), ("three", missing)])]
    monkeypatch.setattr(machine_checks, "checks", lambda: dict(checks))
    shown, facts = command("doctor"), command("doctor", "--json")
    assert shown.code == facts.code == (0 if whole else 1)
    assert shown.out.startswith("ok")  # without a head
    lines = [line.split() for line in shown.out.splitlines()]
    failed = [["no", "two", "ValueError:", "first"], ["no", "three", "no", "such", "model"]]
    assert lines == [["ok", "one", "fine"], *([] if whole else failed)]
    assert facts.facts == [
        {"check": name, "ok": mark == "ok", "found": " ".join(found)}
        for mark, name, *found in lines
    ]


@pytest.mark.long
def test_what_is_whole_is_said_of_a_run_and_of_its_tables(command, recorded_folder, tmp_path):
    run = shutil.copytree(recorded_folder("people"), tmp_path / "run")
    command("export", "run", "--to", "tables")
    tables = command("check", "tables", "--json").facts
    assert {os.path.basename(path) for path in tables} >= {"matches.parquet", "prompts.parquet"}
    lines = command("check", "tables").out.splitlines()
    assert lines == [f"whole      {path}: {n} rows, schema 1" for path, n in tables.items()]
    one = command("check", "tables/matches.parquet").out
    assert one == "whole      tables/matches.parquet: 12 rows, schema 1\n"
    (tmp_path / "empty").mkdir()  # neither: it is taken for a run that has lost its parts
    lost = command("check", "empty")
    assert lost.code == 2
    assert "ledger.sqlite" in lost.out + lost.err
    shutil.copy(tmp_path / "tables" / "matches.parquet", run)  # a run may hold tables
    assert command("check", "run", "--json").facts["whole"] is True
    facts = command("check", "run", "--json").facts
    assert facts["whole"] is True
    assert facts["mended"] == []
    assert facts["run"] == "run"
    shown = command("check", "run").out.splitlines()
    assert [line.split()[0] for line in shown] == [part["state"] for part in facts["parts"]]
    (run / "config.yaml").write_text("name: [")
    damaged = command("check", "run")
    assert damaged.code == 2
    assert re.search(r"^damaged +config.yaml: ", damaged.out, re.MULTILINE)
    mended = command("check", "run", "--mend")
    assert mended.code == 0
    assert mended.out.startswith("mended: ")


def test_what_the_machine_has(monkeypatch, tmp_path):
    from equipoise.planning import machine_checks as machine

    monkeypatch.chdir(tmp_path)
    assert machine.this_folder() == f"{tmp_path} can be written"
    monkeypatch.setattr(machine, "network_disk", lambda path: "nfs")
    assert "; it is on a network disk (nfs): " in machine.this_folder()
    monkeypatch.setattr(machine, "installed_kinds", lambda: {"Judge": {"terse": "a:B"}, "Game": {}})
    assert machine.plugins() == "terse (Judge, a:B)"
    monkeypatch.setattr(machine, "installed_kinds", dict)
    assert machine.plugins() == "none"
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 3 * 2**18}
    monkeypatch.setattr(machine.os, "sysconf", sizes.__getitem__)
    assert machine.cores_and_memory() == "3 cores, 3.0 GiB"
    assert machine.locks()
    assert machine.new_ledger().endswith(", WAL")
    names = list(machine.checks())
    assert names[0] == "python"
    assert names[-3:] == ["device", "ledger", "built-in model"]

    def nothing():
        raise KeyError

    assert machine.run_check("a", nothing) == machine.MachineCheck("a", False, "KeyError: ")
