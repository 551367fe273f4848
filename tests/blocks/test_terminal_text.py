"""What a server, a model or a run says is shown on the terminal, and never obeyed by it."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.table import Table

import equipoise
from equipoise.blocks.terminal import Display, status_table, terminal
from equipoise.errors import RunError, clean
from equipoise.system.command_options import json_text

HOSTILE = "a\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe\r\x08 [bold]b[/bold] :smile:\n\tend"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printed(*things, **settings):
    """What the terminal gets, less the codes of rich's own styles."""
    file = io.StringIO()
    console = terminal(
        file=file, width=200, force_terminal=True, color_system="truecolor", **settings
    )
    for thing in things:
        console.print(thing)
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


def test_texts_and_tables_are_shown():
    table = Table("[red]" + HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    shown = printed(HOSTILE, table, status_table([(HOSTILE, HOSTILE)]))
    assert not OBEYED.search(shown), OBEYED.findall(shown)
    assert "[bold]b[/bold] :smile:" in shown
    assert "␛[31mred" in shown


def test_the_display_shows_notes_and_numbers():
    file = io.StringIO()
    with Display(1, terminal(file=file)) as display:
        display.stage(HOSTILE)
        display.numbers(score=HOSTILE)
        display.note(HOSTILE)
    assert not OBEYED.search(file.getvalue())


def test_json_reads_the_same_again():
    text = json_text({"said": HOSTILE}, indent=2)
    assert not OBEYED.search(text)
    assert json.loads(text) == {"said": HOSTILE}


@pytest.mark.parametrize("error", [RunError, ValueError])
def test_messages_and_tracebacks(command, monkeypatch, capsys, error):
    import sys

    from equipoise import cli

    def fail():
        raise error(HOSTILE)

    monkeypatch.setattr(cli, "app", lambda: fail)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    try:
        cli.main()
    except SystemExit as exit_:
        assert exit_.code == 2
    except ValueError as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)
    shown = capsys.readouterr().err
    assert "red" in shown
    assert not OBEYED.search(shown)


def test_the_command_prints_through_these_doors_alone():
    package = Path(equipoise.__file__).parent
    doors = {"system/command_options.py", "blocks/terminal.py"}
    for file in package.rglob("*.py"):
        name = file.relative_to(package).as_posix()
        if name not in doors:
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"typer\.echo\(|\bConsole\(", text), name
            if name.startswith(("cli/", "environments/")):
                assert not re.search(r"^\s+print\((?!\))(?!flush)", text, re.MULTILINE), name


def test_lines_stay_lines():
    assert clean("a\r\nb\tc\n") == "a\nb\tc\n"
    assert clean("a\rb") == "a␍b"


def test_nothing_of_ours_is_written_in_markup_which_no_console_reads():
    markup = re.compile(r"\[(?:bold|dim|italic|green|red|yellow|cyan)[ \]]|\[/\]")
    package = Path(equipoise.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [str(path) for path, text in sources.items() if markup.search(text)] == []


def test_a_name_of_a_users_own_keeps_its_underscores():
    shown = io.StringIO()
    rows = [("fullstop:full_stop of my_model@1", 0.5), ("last_stage", "1/measure")]
    terminal(file=shown, width=80).print(status_table(rows))
    assert [line.split("  ")[0] for line in shown.getvalue().splitlines()] == [
        "fullstop:full_stop of my_model@1",
        "last stage",
    ]
