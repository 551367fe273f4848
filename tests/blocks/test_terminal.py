"""The display in its three ways, and the tables, as text."""

import io
import math
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console

from equipoise.blocks import terminal as terminal_module
from equipoise.blocks.terminal import (
    Change,
    Display,
    before_after,
    duration,
    headline,
    rate,
    status_table,
    value_text,
)
from equipoise.payoffs.intervals import Interval

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class Clock:
    """A clock that a test moves by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def played(console: Console, silent: bool = False) -> None:
    clock = Clock()
    with Display(3, console, silent, clock) as display:
        display.stage("play", 400, 1)
        for _ in range(40):
            clock.now += 0.08
            display.advance(10)
        display.numbers(unjudged_share=0.013, tokens_per_second=12345.6)
        display.stage("learn", generation=1)
        clock.now += 125
        display.numbers(win_rate=Interval(0.6, 0.55, 0.65, 300), exploitability=0.0123)
        display.note("12 prompts [bold]dropped[/bold] \x1b[31m")


def test_without_a_terminal_each_stage_is_one_plain_line():
    out = io.StringIO()
    played(Console(file=out, force_terminal=False, width=60))
    assert out.getvalue().splitlines() == [
        "generation 1 of 3  play  400 in 3.2 s (125/s)   unjudged 1.3 %   tokens/s 12,346",
        "12 prompts [bold]dropped[/bold] ␛[31m",
        "generation 1 of 3  learn  2 min 05 s   win rate 60.0 % (55.0 to 65.0)   exploitability 0.0123",
    ]
    assert not CONTROL.search(out.getvalue())


def test_on_a_terminal_the_bar_moves_and_the_lines_stay():
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=120, color_system=None, legacy_windows=False
    )
    played(console)
    text = out.getvalue()
    assert 0 <= text.rfind("\x1b[?25l") < text.rfind("\x1b[?25h")  # the cursor goes and comes back
    assert re.search(r"generation 1 of 3  play +0/400", text)
    assert "generation 1 of 3  play  400 in 3.2 s (125/s)" in text
    assert "win rate 60.0 % (55.0 to 65.0)" in text
    assert "\x1b[31m" not in text


def test_the_bar_says_how_far_and_keeps_the_numbers():
    console = Console(
        file=io.StringIO(), force_terminal=True, width=120, color_system=None, legacy_windows=False
    )
    with Display(3, console) as display:
        display.stage("judge_answers", 2000, 2)
        display.advance(500)
        display.numbers(unjudged_share=0.25)
        display.stage("learn", 10, 2)
        assert display._bar is not None
        page = Console(file=io.StringIO(), width=120)
        page.print(*display._bar.get_renderables())
        shown_now = page.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
        assert "generation 2 of 3  learn" in shown_now
        assert "0/10" in shown_now
        assert "judge answers" not in shown_now
        assert "unjudged 25.0 %" in shown_now


def test_a_long_stage_says_each_minute_what_is_done_the_rate_and_the_time_left():
    out, clock = io.StringIO(), Clock()
    with Display(2, Console(file=out, force_terminal=False, width=60), clock=clock) as display:
        display.stage("play", 400, 1)
        for _ in range(30):  # five minutes, of which a commit takes the first four
            clock.now += 10
            display.part(2.5)
            display.say_how_far()
            if clock.now == 240:
                display.advance(64)
        display.stage("learn", generation=1)
        display.numbers(loss=0.5)
        clock.now += 61
        display.say_how_far()
    assert out.getvalue().splitlines() == [
        "generation 1 of 2  play  15 of 400 after 1 min 00 s (4.0 s each, about 25 min 40 s left)",
        "generation 1 of 2  play  30 of 400 after 2 min 00 s (4.0 s each, about 24 min 40 s left)",
        "generation 1 of 2  play  45 of 400 after 3 min 00 s (4.0 s each, about 23 min 40 s left)",
        "generation 1 of 2  play  60 of 400 after 4 min 00 s (4.0 s each, about 22 min 40 s left)",
        "generation 1 of 2  play  79 of 400 after 5 min 00 s (3.8 s each, about 20 min 19 s left)",
        "generation 1 of 2  play  64 in 5 min 00 s (4.7 s each)",
        "generation 1 of 2  learn  after 1 min 01 s   loss 0.5",
        "generation 1 of 2  learn  1 min 01 s   loss 0.5",
    ]


class Heard(io.StringIO):
    """A file that says when something was written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        self.written.set()
        return super().write(text)


def test_a_stage_of_which_nothing_is_heard_speaks_by_itself(monkeypatch):
    monkeypatch.setattr(terminal_module, "MINUTE", 0.0)
    monkeypatch.setattr(terminal_module, "LOOK", 0.01)
    out = Heard()
    with Display(console=Console(file=out, force_terminal=False, width=60)) as display:
        display.stage("load", 4)
        assert out.written.wait(30)
    assert out.getvalue().startswith("load  0 of 4 after 0.0 s\n")


def test_on_a_terminal_the_bar_moves_within_a_commit():
    console = Console(file=io.StringIO(), force_terminal=True, width=120, legacy_windows=False)
    with Display(console=console) as display:
        display.stage("play", 10)
        assert display._bar is not None
        display.part(2.5)
        assert display._bar.tasks[-1].completed == 2.5
        display.advance(4)
        assert display._bar.tasks[-1].completed == 4


def test_hundreds_of_short_generations_speak_once_a_second_and_at_the_end():
    out, clock = io.StringIO(), Clock()
    with Display(100, Console(file=out, force_terminal=False, width=80), clock=clock) as display:
        for generation in range(1, 101):
            display.stage("play", 1, generation)
            clock.now += 0.25
            display.advance()
    said = [int(line.split()[1]) for line in out.getvalue().splitlines()]
    assert said == [*range(1, 101, 4), 100]


@pytest.mark.parametrize("terminal", [True, False])
def test_silent_prints_nothing(terminal):
    out = io.StringIO()
    played(Console(file=out, force_terminal=terminal), silent=True)
    assert out.getvalue() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stopped_stage_says_where_it_stopped(terminal):
    out = io.StringIO()
    with (
        pytest.raises(KeyboardInterrupt),
        Display(3, Console(file=out, force_terminal=terminal, color_system=None)) as d,
    ):
        d.stage("play", 400, 2)
        d.advance(120)
        raise KeyboardInterrupt
    assert "generation 2 of 3  play  stopped at 120 of 400 after 0.0 s" in out.getvalue()
    assert out.getvalue().count("\x1b[?25h") == terminal


def rendered(renderable, **console) -> str:
    out = io.StringIO()
    Console(file=out, width=100, **console).print(renderable)
    return out.getvalue()


ROWS = [
    Change("held-out score", Interval(0.523, 0.48, 0.56, 300), Interval(0.861, 0.83, 0.889, 300)),
    Change(
        "answer_length", Interval(14, 13, 15, 3), Interval(13.5, 12.9, 14.1, 3), "tokens", False
    ),
    Change(
        "exploitability", Interval(0.01, 0.009, 0.011, 3), Interval(0.2, 0.15, 0.25, 3), "", False
    ),
    Change("win [rate]", None, Interval(0.7, math.nan, math.nan, 1)),
]


def test_before_and_after_with_intervals():
    lines = rendered(before_after(ROWS)).splitlines()
    assert re.search(
        r"held-out score +52\.3 % \(48\.0 to 56\.0\) +86\.1 % \(83\.0 to 88\.9\) +\+33\.8 points",
        lines[1],
    )
    assert re.search(
        r"answer length, tokens +14\.0 \(13\.0 to 15\.0\) +13\.50 \(12\.90 to 14\.10\) +-0\.5",
        lines[2],
    )
    assert re.search(r"win \[rate\] +– +70\.0 % +–", lines[4])


def test_a_change_is_coloured_only_when_the_intervals_are_apart():
    cells = [str(cell.style) for cell in before_after(ROWS).columns[3].cells]  # pyright: ignore[reportAttributeAccessIssue]
    assert cells == ["green", "dim", "red", "dim"]


def test_in_a_narrow_terminal_the_names_break_and_not_the_numbers():
    out = io.StringIO()
    Console(file=out, width=78).print(
        before_after([Change("held-out score of policy", *(ROWS[0].before, ROWS[0].after))])
    )
    assert "52.3 % (48.0 to 56.0)" in out.getvalue()
    assert "86.1 % (83.0 to 88.9)" in out.getvalue()


def test_the_headline_says_where_the_report_is():
    text = rendered(
        headline(
            "quick[start]", [("win_rate", "73.2 %"), ("x\x1b[2J", "1")], Path("runs/a/report.html")
        )
    )
    assert "quick[start]" in text
    assert "win rate" in text
    assert "73.2 %" in text
    assert "runs/a/report.html" in text
    assert "\x1b" not in text
    assert "report" not in rendered(headline("a", []))


def test_status_reads_as_names_and_values():
    text = rendered(
        status_table(
            [
                ("run", "runs/x"),
                ("matches", 48210),
                ("unjudged_share", 0.043),
                ("exploitability", None),
            ],
            "now",
        )
    )
    assert [line.split() for line in text.splitlines()] == [
        ["now"],
        ["run", "runs/x"],
        ["matches", "48,210"],
        ["unjudged", "4.3", "%"],
        ["exploitability", "–"],
    ]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("win_rate", 0.5, "50.0 %"),
        ("learning_rate", 5e-7, "5e-07"),
        ("exploitability", 0.01234, "0.0123"),
        ("exploitability", math.nan, "–"),
        ("steps", 0, "0"),
        ("finished", True, "yes"),
        ("score", 512.3, "512"),
        ("tokens", 1234567, "1,234,567"),
        ("unjudged_share", None, "–"),
        ("stage", "two\nlines\x07", "two lines␇"),
    ],
)
def test_numbers_read_well(name, value, text):
    assert value_text(name, value) == text


def test_durations_and_rates():
    assert [duration(s) for s in (0.04, 59.94, 61, 3599.6, 7800)] == [
        "0.0 s",
        "59.9 s",
        "1 min 01 s",
        "1 h 00 min",
        "2 h 10 min",
    ]
    assert [
        rate(n, s) for n, s in ((400, 3.2), (8000, 2), (3, 2), (2, 8), (0, 3), (3, 0), (3, None))
    ] == ["125/s", "4,000/s", "1.5/s", "4.0 s each", "", "", ""]
