"""`equipoise init` writes a first recipe of one's own; `equipoise recipes` lists the packaged ones,
and compares one with its paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.plan import On
from equipoise.system.command_options import Json, Set, recipe_names, say, show

if TYPE_CHECKING:
    from equipoise.planning.first_recipe import FirstRecipe, JudgeTrial
    from equipoise.planning.paper_differences import Compared, PublishedComparison


def init(
    file: Annotated[Path, typer.Argument(help="the recipe to write")] = Path("first.yaml"),
    model: Annotated[
        list[str],
        typer.Option(
            help="a folder, GGUF file or Hugging Face id; again for each player. For arena also a "
            "server: ADDRESS, or ADDRESS=NAME"
        ),
    ] = [],  # noqa: B006
    data: Annotated[
        str, typer.Option(help="prompts: JSONL, JSON, CSV, TSV, Parquet, or a hub data set")
    ] = "",
    judge: Annotated[
        list[str],
        typer.Option(
            help="a function (file.py, module:function), a kind (gold, math, …), a model, a "
            "server's address, or YAML; for gpo the guard; for arena again for each of a panel",
            show_default="the recipe's",
        ),
    ] = [],  # noqa: B006
    method: Annotated[
        str,
        typer.Option(
            help="mnpo, sparta, gpo or arena; or a loss of pairs, such as dpo, inpo or simpo: "
            "mnpo's game with that loss"
        ),
    ] = "mnpo",
    hours: Annotated[float, typer.Option(help="the most that the run may take")] = 1.0,
    on: On = "",
    lora: Annotated[
        bool | None, typer.Option("--lora/--whole", help="train an adapter, or all weights")
    ] = None,
    call_judge: Annotated[
        bool,
        typer.Option(
            "--call/--no-call", help="ask the judge once, and refuse one without a verdict"
        ),
    ] = True,
    prices: Annotated[
        str,
        typer.Option(
            metavar="IN,OUT", help="for arena: a million tokens of a served model, in USD: 0.5,1.5"
        ),
    ] = "",
    money: Annotated[
        float | None, typer.Option(help="for arena: the most USD that each served model may cost")
    ] = None,
    set: Set = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Write your first recipe: it tries your data, judge and model first.

    It reads your rows, asks the judge once, builds the adapter and checks that endpoints answer.
    It chooses batch size, epochs, learning rate and counts so that the run can learn within
    --hours. On a terminal it asks for the model, the data and the judge.
    """
    from equipoise.blocks.terminal import show_notes
    from equipoise.errors import ConfigError
    from equipoise.planning.first_arena import first_arena
    from equipoise.planning.first_recipe import Wishes, first_recipe
    from equipoise.system.folder import write_text

    check_new(file)
    if not (model and data):
        model, data, judge = ask_for_parts(model, data, judge, asks=sys.stdin.isatty() and not json)
    wishes = Wishes(
        method, tuple(model), data, "".join(judge[:1]), hours, lora, on, tuple(set), tuple(judge)
    )
    if method == "arena":
        wishes = replace(wishes, prices=prices, money=money)
        made = first_arena(wishes, file, call_judge=call_judge)
    elif len(judge) > 1 or prices or money is not None:
        raise ConfigError("--judge twice, --prices, --money: are for --method arena")
    else:
        made = first_recipe(wishes, file, call_judge=call_judge)
    write_text(file, made.text)
    show_notes(made.notes)
    if json:
        show({"recipe": str(file), **_facts_of_first(made)})
    else:
        print_first(made, file)


def check_new(file: Path) -> None:
    """Raises ConfigError where the recipe cannot be written to a file of this name."""
    from equipoise.errors import ConfigError

    if file.exists():
        raise ConfigError(f"{file}: is there already; name another file")
    if file.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{file}: a recipe's file ends in .yaml")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"{file}: there is no folder {file.parent}")


def ask_for_parts(
    model: Sequence[str], data: str, judge: Sequence[str], *, asks: bool
) -> tuple[list[str], str, list[str]]:
    """(models, data, judges), asked for on a terminal. Raises ConfigError elsewhere."""
    from equipoise.errors import ConfigError

    if not asks:
        missing = [name for name, given in (("--model", model), ("--data", data)) if not given]
        raise ConfigError(f"give {' and '.join(missing)} (on a terminal, init asks)")
    models = list(model) or typer.prompt("model (several: with spaces)").split()
    data = data or typer.prompt("prompts (a file, or ORG/NAME)")
    judges = list(judge)
    if not judges:
        question = "judge (file.py, a kind, a model, an address)"
        judges = [typer.prompt(question, default="gold")]
    return models, data, judges


def _facts_of_first(made: FirstRecipe) -> dict[str, Any]:
    return {
        "text": made.text,
        "rows": made.rows,
        "first_row": None if made.first_row is None else made.first_row.record(),
        "row_count": made.row_count,
        "dropped": made.dropped,
        "judge_calls": [asdict(trial) for trial in made.trials],
        "endpoints": made.endpoints,
        "parameters": made.parameters,
        "trainable": made.trainable,
        "optimizer_steps_at_most": made.planned.counts.optimizer_steps_at_most,
        "seconds_at_most": made.planned.seconds,
    }


def print_first(made: FirstRecipe, file: Path) -> None:
    """Print the rows, the trials and the recipe."""
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in made.dropped.items())
    say(f"rows: {made.row_count:,}, left out: {dropped or 'none'}")
    if made.first_row is not None:
        say("the first row as a model will see it:")
        for line in made.first_row.lines():
            say(f"  {line}")
    for number, row in enumerate(made.rows, 1):
        role, text = row["messages"][-1] if row["messages"] else ("", "")
        more = (
            f" (message {len(row['messages'])}, of the {role})" if len(row["messages"]) > 1 else ""
        )
        say(f"  {number}. {_short(text, 70)}{more}  {_short(row['facts'] or '', 70)}")
    for trial in made.trials:
        print_trial(trial)
    for endpoint in made.endpoints:
        say(endpoint)
    if made.parameters:
        say(f"{made.trainable:,} of {made.parameters:,} parameters are trained\n")
    say(made.text)
    say(f"written to {file}; go on with: equipoise run {file}")
    if not made.parameters:
        say(f"and then: equipoise report runs/{file.stem} --leaderboard")


def print_trial(trial: JudgeTrial) -> None:
    """Print what a judge was asked, and what it said."""
    say(f"{trial.place}: asked once about {_short(trial.prompt, 60)}, {trial.seconds:.1f} s")
    for reply in trial.replies:
        say(f"  reply: {_short(reply, 200)}")
    for seat, answer in enumerate(trial.answers, 1):
        verdict = (trial.scores or {}).get(str(seat)) or trial.reason
        say(f"  {_short(answer, 60)} → {verdict}")


def _short(value: Any, most: int) -> str:
    from equipoise.errors import shorten

    return shorten(" ".join((value if isinstance(value, str) else repr(value)).split()), most)


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
    """List the packaged recipes, or show how one of them differs from its paper.

    The list leaves out variants, such as baselines and other hardware: `equipoise recipes NAME`
    shows those of a recipe. With --json all are listed.
    """
    from equipoise.system.packaged_recipes import recipe_descriptions, variants

    descriptions, groups = recipe_descriptions(), variants()
    if recipe is None:
        show(descriptions) if json else print_list(descriptions, groups)
        return
    from equipoise.planning.paper_differences import compare_with_published

    compared = compare_with_published(recipe)
    description = descriptions.get(recipe, "")
    own = {name: descriptions[name] for name in groups.get(recipe, ())}
    if json:
        show({"name": recipe, "description": description, **_facts(compared), "variants": own})
        return
    say(f"{recipe}: {description}" if description else recipe)
    print_comparison(compared)
    if own:
        say("Its variants:")
        print_names(own)


def _facts(compared: PublishedComparison | None) -> dict[str, Any]:
    if compared is None:
        return {"paper": None, "code": None, "differences": [], "same": []}
    return {
        "paper": compared.paper,
        "code": compared.code,
        "differences": [asdict(element) for element in compared.differences],
        "same": [asdict(element) for element in compared.same],
    }


def print_list(descriptions: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> None:
    """Print the recipes, and how many variants each has."""
    print_names({name: descriptions[name] for name in groups})
    counts = [f"{name} {len(names)}" for name, names in groups.items() if names]
    say(f"Variants, shown by `equipoise recipes NAME`: {', '.join(counts)}.")


def print_names(descriptions: Mapping[str, str]) -> None:
    """Print names with their descriptions."""
    from rich.table import Table
    from rich.text import Text

    from equipoise.blocks.terminal import terminal

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in descriptions.items():
        table.add_row(Text(name, style="bold"), description)
    terminal().print(table)


def print_comparison(compared: PublishedComparison | None) -> None:
    """Print where a recipe differs from its paper, a sentence each, what matters most first."""
    from rich.padding import Padding
    from rich.text import Text

    from equipoise.blocks.terminal import terminal

    if compared is None:
        say("It follows no paper.")
        return
    say(f"It follows {compared.paper}; its code: {compared.code or 'none'}.")
    console = terminal()
    for matters, title in TITLES.items():
        differences = [each for each in compared.differences if each.matters == matters]
        if differences:
            console.print(Text(title, style="bold"))
        for element in differences:
            console.print(Padding(Text(difference_sentence(element)), (0, 0, 0, 2)))
    same = [f"{element.element} ({_ours(element)})" for element in compared.same]
    console.print(Text(f"As published: {', '.join(same) or 'nothing listed'}."))


TITLES = {  # how much a difference matters -> the line above such differences
    "much": "Differences that matter most:",
    "some": "Other differences:",
    "little": "Differences that hardly matter:",
}


def difference_sentence(element: Compared) -> str:
    """What was published, what the recipe does, and why."""
    name = element.element
    if name[0].isascii():  # not η
        name = name[0].upper() + name[1:]
    why = element.why[0].upper() + element.why[1:]
    return f"{name}: published {_value(element.published)}, here {_ours(element)}. {why}."


def _ours(element: Compared) -> str:
    value = _value(element.ours)
    return value if element.setting is None else f"{element.setting} = {value}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
