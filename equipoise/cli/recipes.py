"""`equipoise recipes`: list the packaged recipes, and compare one with its paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.system.command_options import Json, recipe_names, say, show

if TYPE_CHECKING:
    from equipoise.runs.planning.published import Compared, PublishedComparison


def recipes(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            autocompletion=recipe_names,
            help="one of them, or a YAML file: where it differs from the paper it names",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the packaged recipes, or print where one of them differs from its paper.

    The list leaves out variants, such as baselines and other hardware: `equipoise recipes NAME`
    shows those of a recipe. With --json all are listed.
    """
    from equipoise.system.packaged_recipes import recipe_descriptions, variants

    descriptions, groups = recipe_descriptions(), variants()
    if recipe is None:
        show(descriptions) if json else _print_list(descriptions, groups)
        return
    from equipoise.runs.planning.published import compare_with_published

    compared = compare_with_published(recipe)
    description = descriptions.get(recipe, "")
    own = {name: descriptions[name] for name in groups.get(recipe, ())}
    if json:
        show({"name": recipe, "description": description, **_facts(compared), "variants": own})
        return
    say(f"{recipe}: {description}" if description else recipe)
    _print_comparison(compared)
    if own:
        say("Its variants:")
        _print_names(own)


def _facts(compared: PublishedComparison | None) -> dict[str, Any]:
    if compared is None:
        return {"paper": None, "code": None, "differences": [], "same": []}
    return {
        "paper": compared.paper,
        "code": compared.code,
        "differences": [asdict(element) for element in compared.differences],
        "same": [asdict(element) for element in compared.same],
    }


def _print_list(descriptions: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> None:
    _print_names({name: descriptions[name] for name in groups})
    counts = [f"{name} {len(names)}" for name, names in groups.items() if names]
    say(f"Variants, shown by `equipoise recipes NAME`: {', '.join(counts)}.")


def _print_names(descriptions: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from equipoise.report.terminal import terminal

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in descriptions.items():
        table.add_row(Text(name, style="bold"), description)
    terminal().print(table)


def _print_comparison(compared: PublishedComparison | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from equipoise.report.terminal import terminal

    if compared is None:
        say("It follows no paper.")
        return
    say(f"It follows {compared.paper}; its code: {compared.code or 'none'}.")
    table = Table(pad_edge=False, title="Where it differs", title_justify="left")
    for column in ("element", "published", "here", "why"):
        table.add_column(column, overflow="fold")
    for element in compared.differences:
        row = (element.element, _value(element.published), _ours(element), element.why)
        table.add_row(*map(Text, row))
    console = terminal()
    if compared.differences:
        console.print(table)
    same = [f"{element.element} ({_ours(element)})" for element in compared.same]
    console.print(Text(f"As published: {', '.join(same) or 'nothing listed'}."))


def _ours(element: Compared) -> str:
    value = _value(element.ours)
    return value if element.setting is None else f"{element.setting} = {value}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
