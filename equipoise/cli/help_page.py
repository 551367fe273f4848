"""The text of `--help`: plain lines, so that it needs no library of terminal pages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

WIDTH = 100
# A type as typer prints it -> the same for a reader.
TYPES = {
    "<str>": "TEXT",
    "<path>": "PATH",
    "<int>": "NUMBER",
    "<int range>": "NUMBER",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
}

Row = tuple[str, str]  # how something is written, and what it does


class VerbCommand(TyperCommand):
    """A verb whose help has its arguments, its options and the options of the machine."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for the arguments and one for each group of options."""
        sections: dict[str, list[Row]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is None:
                continue
            if parameter.param_type_name == "argument":
                title = "Arguments"
            else:
                title = getattr(parameter, "rich_help_panel", None) or "Options"
            sections.setdefault(title, []).append((readable_types(row[0]), row[1]))
        write_sections(formatter, sections)


class PlainGroup(TyperGroup):
    """Verbs whose help lists them by the `rich_help_panel` of each, whole lines."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of verbs."""
        sections: dict[str, list[Row]] = {}
        for name in self.list_commands(ctx):
            verb: Any = self.get_command(ctx, name)
            title = verb.rich_help_panel or "Commands"
            sections.setdefault(title, []).append((name, first_paragraph(verb.help or "")))
        write_sections(formatter, sections)


def first_paragraph(text: str) -> str:
    """The first paragraph of a verb's help, as one line."""
    return " ".join(text.partition("\n\n")[0].split())


def readable_types(usage: str) -> str:
    """An option with its type as a reader would write it: TEXT for <list[str]>."""
    usage = re.sub(r"<list\[(\w+)\]>", r"<\1>", usage)
    for shown, readable in TYPES.items():
        usage = usage.replace(shown, readable)
    return usage


def write_sections(formatter: Any, sections: Mapping[str, Sequence[Row]]) -> None:
    """Write the sections that have rows."""
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
