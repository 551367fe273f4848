"""The terminal view: the run as it goes, and tables of its results.

A `Display` has three ways: on a terminal a bar for the current stage under the lines of the
finished ones; elsewhere (a file, a pipe) those lines alone, without control characters, and one a
minute of a stage that takes longer; nothing when silent. Beyond `MANY` generations a stage that
ends within a second of the last line gets none of its own. Names and texts from outside are printed
as they are, never as rich's markup or as terminal codes.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from equipoise.blocks.section import Change, number
from equipoise.errors import clean
from equipoise.payoffs.intervals import Interval

Value = float | int | str | Interval | None

LOOK = 1.0  # seconds between two looks at whether a minute is over
MINUTE = 60.0  # seconds without a line after which a stage says how far it is
MANY = 20  # generations, from which on not every short stage gets its line
SHARES = frozenset({"win_rate", "accuracy", "held_out_score"})


class PlainConsole(Console):
    """A console on which a text is shown and never obeyed, wherever in a table it stands."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces of what is printed; codes are those of styles, which rich adds later."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else clean(segment.text)
            yield Segment(text, segment.style, segment.control)


def terminal(**settings: Any) -> Console:
    """A console for what comes from outside: no markup, no emoji, no terminal codes in texts.

    `settings` are those of rich's `Console`.
    """
    return PlainConsole(markup=False, emoji=False, **settings)


def value_text(name: str, value: Value) -> str:
    """A number as people read it; names in "share", win rates and accuracies as percent, what is
    missing as "–".
    """
    is_share = name in SHARES or name.endswith("share")
    unit = "%" if is_share else ""
    if value is None:
        return "–"
    if isinstance(value, str):
        return " ".join(clean(value).split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Interval):
        return value.text(unit)
    if isinstance(value, int) or is_share:
        return number(value, unit)
    if not math.isfinite(value) or abs(value) >= 10_000:
        return number(value, unit)
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def name_in_words(name: str) -> str:
    """A setting's or a record's name as words; what holds more than such a name, as a headline with
    the name of a player or of a file, stays as it is written.
    """
    if not name.isidentifier():
        return clean(name)
    return clean(name).replace("_per_second", "/s").replace("_share", "").replace("_", " ")


def duration(seconds: float) -> str:
    """`3.2 s`, `4 min 05 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def rate(count: float, seconds: float | None) -> str:
    """`125/s`, or `3.2 s each` for slow things; nothing when there is none."""
    if not seconds or not count:
        return ""
    speed = count / seconds
    if speed >= 10:
        return f"{speed:,.0f}/s"
    if speed >= 1:
        return f"{speed:.1f}/s"
    return f"{1 / speed:.1f} s each"


class Counts(ProgressColumn):
    """`400/1,000  125/s  4.8 s left`, as far as it is known."""

    def render(self, task: Task) -> Text:
        """The counts as a text."""
        parts = []
        if task.total is not None:
            parts.append(f"{number(int(task.completed))}/{number(int(task.total))}")
        elif task.completed:
            parts.append(number(int(task.completed)))
        parts.append(rate(task.completed, task.elapsed))
        left = task.time_remaining
        if left is not None:
            parts.append(f"{duration(left)} left")
        return Text("  ".join(filter(None, parts)), "dim")


class StageBar(Progress):
    """The current stage's bar with the numbers that matter under it."""

    numbers_line: Text | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.numbers_line is not None:
            yield self.numbers_line


class Display:
    """Shows a run stage by stage: `with Display(3) as display: display.stage("play", 400, 1);
    display.advance()`.

    Args: generations: how many the run has; console: where to print, standard error by default;
    silent: print nothing (`--json`); clock: seconds, for tests.
    """

    def __init__(
        self,
        generations: int = 0,
        console: Console | None = None,
        silent: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generations = generations
        self._console = console or terminal(stderr=True)
        self._silent = silent
        self._clock = clock
        self._bar: StageBar | None = None
        self._numbers: dict[str, Value] = {}
        self._fresh: dict[str, Value] = {}
        self._name = ""
        self._total: int | None = None
        self._count = 0
        self._part = 0.0  # of steps that are not recorded yet
        self._since = 0.0
        self._generation: int | None = None
        self._last_line = -math.inf  # when the last stage's line was printed
        self._spoken = 0.0  # when anything was
        self._lock = threading.RLock()  # a stage may end while its minute's line is made
        self._over = threading.Event()

    def __enter__(self) -> Self:
        console = self._console
        if self._silent:
            return self
        if not console.is_terminal or console.is_dumb_terminal:
            threading.Thread(target=self.watch, daemon=True).start()
            return self
        columns = (
            TextColumn("{task.description}", markup=False, style="bold"),
            BarColumn(bar_width=28),
            Counts(),
        )
        self._bar = StageBar(*columns, console=console, transient=True, refresh_per_second=8)
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        try:
            with self._lock:
                self.end_stage(last=True, stopped=kind is not None)
        finally:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """A stage begins, and the one before is over.

        `total`: how much there is to do; None: not known.
        """
        with self._lock:
            self.end_stage()
            self._name = name
            self._total = total
            self._generation = generation
            self._count = 0
            self._part = 0.0
            self._fresh = {}
            self._since = self._clock()
            self._spoken = self._since
        if self._bar is not None:
            self._bar.add_task(self.title_text(), total=total)

    def advance(self, n: int = 1) -> None:
        """`n` more are done; what was done of them is counted."""
        self._count += n
        self._part = 0.0
        self.move_bar()

    def part(self, steps: float) -> None:
        """`steps` more, or a part of one, are done of what `advance` will count."""
        self._part += steps
        self.move_bar()

    def move_bar(self) -> None:
        """Show on the bar what is done."""
        if self._bar is not None and self._bar.tasks:
            current = self._bar.tasks[-1]
            self._bar.update(current.id, completed=self._count + self._part)

    def watch(self) -> None:
        """Say how far a stage is after each minute without a line."""
        while not self._over.wait(LOOK):
            self.say_how_far()

    def say_how_far(self) -> None:
        """Print what is done, the rate and the time left, where a minute was silent."""
        with self._lock:
            now = self._clock()
            if not self._name or now - self._spoken < MINUTE:
                return
            seconds = now - self._since
            done = self._count + self._part
            parts = []
            if self._total is not None:
                parts.append(f"{number(int(done))} of {number(self._total)}")
            elif done:
                parts.append(number(int(done)))
            parts.append(f"after {duration(seconds)}")
            speed = rate(done, seconds)
            left = 0.0
            if speed and self._total:
                left = (self._total - done) * seconds / done
            if left:
                parts.append(f"({speed}, about {duration(left)} left)")
            elif speed:
                parts.append(f"({speed})")
            line = Text.assemble((self.title_text(), "bold"), "  ", " ".join(parts))
            if self._fresh:
                line.append("   ")
                line.append_text(self.numbers_text(dict(self._fresh)))
            self.print_line(line)

    def numbers(self, **named: Value) -> None:
        """Numbers that matter now: win_rate, exploitability, unjudged_share, tokens_per_second …"""
        self._numbers |= named
        self._fresh |= named
        if self._bar is not None:
            self._bar.numbers_line = self.numbers_text(self._numbers)

    def note(self, text: str) -> None:
        """A line that stays, such as a warning."""
        self.print_line(Text(clean(text)))

    def title_text(self) -> str:
        """The generation and the stage."""
        words = name_in_words(self._name)
        if self._generation is None:
            return words
        of = f" of {self._generations}" if self._generations else ""
        return f"generation {self._generation}{of}  {words}"

    def numbers_text(self, numbers: dict[str, Value]) -> Text:
        """A learner's newest numbers."""
        parts = []
        for name, value in numbers.items():
            words = (f"{name_in_words(name)} ", "dim")
            parts.append(Text.assemble(words, value_text(name, value)))
        return Text("   ").join(parts)

    def end_stage(self, last: bool = False, stopped: bool = False) -> None:
        """The line of the stage that is over; its name is empty from then on."""
        if not self._name:
            return
        seconds = self._clock() - self._since
        style = "bold yellow" if stopped else "bold"
        line = Text.assemble((self.title_text(), style), "  ")
        done = ""
        if self._count or self._total:
            done = number(self._count)
        if stopped:
            of = "" if self._total is None else f" of {number(self._total)}"
            line.append(f"stopped at {done or 0}{of} after {duration(seconds)}", "yellow")
        else:
            line.append(f"{done} in {duration(seconds)}" if done else duration(seconds))
            speed = rate(self._count, seconds)
            if speed:
                line.append(f" ({speed})", "dim")
        if self._fresh:
            line.append("   ")
            line.append_text(self.numbers_text(self._fresh))
        self._name = ""
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
        # A run of hundreds of short generations says once a second how it stands, not a thousand
        # times.
        if self._generations <= MANY or last or self._clock() - self._last_line >= 1:
            self._last_line = self._clock()
            self.print_line(line)

    def print_line(self, line: Text) -> None:
        """Print a line that stays."""
        self._spoken = self._clock()
        if not self._silent:
            self._console.print(line, soft_wrap=True, highlight=False)


def before_after(
    rows: Sequence[Change], before: str = "at the start", after: str = "at the end"
) -> Table:
    """A table of measures with 95 % intervals; a change is coloured only where the two intervals do
    not meet.
    """
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("", min_width=12)  # in a narrow terminal the names break, not the numbers
    for column in (before, after, "change"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        name = name_in_words(row.name)
        share = ""
        if row.unit == "%":
            share = "%"
        elif row.unit:
            name += f", {clean(row.unit)}"
        cells = [Text(name, "bold")]
        for value in (row.before, row.after):
            # That there is no interval is said below, in the panel; here it would push the last
            # column out of sight.
            text = "–" if value is None else value.text(share).partition(" (n = ")[0]
            cells.append(Text(text))
        table.add_row(*cells, change_text(row))
    return table


def change_text(row: Change) -> Text:
    """The change, green or red where the two intervals do not meet."""
    if row.before is None or row.after is None:
        return Text("–", "dim")
    change = row.after.mean - row.before.mean
    if math.isnan(change):
        return Text("–", "dim")
    text = f"{100 * change:+.1f} points" if row.unit == "%" else f"{change:+.3g}"
    is_apart = row.after.low > row.before.high or row.after.high < row.before.low
    if not is_apart:
        return Text(text, "dim")
    is_better = (change > 0) == row.higher_is_better
    return Text(text, "green" if is_better else "red")


def headline(
    title: str,
    numbers: Iterable[tuple[str, str]],
    report: Path | None = None,
    cautions: Iterable[str] = (),
) -> Panel:
    """A panel with what must be known first, the numbers that matter, and where the report is."""
    grid = Table.grid(padding=(0, 2))
    for name, value in numbers:
        grid.add_row(Text(name_in_words(name), "dim"), Text(clean(value), "bold"))
    if report is not None:
        grid.add_row(Text("report", "dim"), Text(clean(str(report)), "cyan", overflow="fold"))
    rows = Group(*(Text(clean(line), "yellow") for line in cautions), grid)
    return Panel(rows, title=Text(clean(title)), title_align="left", expand=False, padding=(0, 1))


def status_table(rows: Iterable[tuple[str, Value]], title: str = "") -> Table:
    """Names and values, one a line."""
    table = Table(
        box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left"
    )
    if title:
        table.title = Text(clean(title), "bold")
    for name, value in rows:
        table.add_row(
            Text(name_in_words(name), "dim"), Text(value_text(name, value), overflow="fold")
        )
    return table


def show_notes(notes: Sequence[str]) -> None:
    """Print what a user should know before a run begins, on standard error."""
    console = terminal(stderr=True, force_jupyter=False)
    for note in notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False)
