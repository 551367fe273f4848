"""A first recipe of an arena: served models, a panel, limits of money. Every part is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise.blocks.terminal import show_notes
from equipoise.errors import ConfigError
from equipoise.planning.checks import check_endpoints, check_run
from equipoise.planning.endpoint_plan import amount
from equipoise.planning.first_recipe import (
    FirstRecipe,
    Wishes,
    check_trials,
    first_rows,
    judge_settings,
    only_model,
    recipe_text,
    try_judges,
    whole_recipe,
)
from equipoise.planning.run_plan import plan
from equipoise.players.endpoint import Endpoint
from equipoise.prompts.shown_row import first_row
from equipoise.prompts.split import content
from equipoise.runs import recipe_loader
from equipoise.system.effects import effects_of
from equipoise.system.user_parts import only_reading

MOST_PROMPTS = 200


def first_arena(wishes: Wishes, path: Path, *, call_judge: bool = True) -> FirstRecipe:
    """Choose and try the settings of an arena that is to be written to `path`.

    Raises ConfigError, DataError or ModelError where a part cannot work, or where a judge gave no
    verdict in any of its trials.
    """
    check_wishes_of_arena(wishes)
    values: dict[str, Any] = {
        "extends": "arena",
        "name": path.stem,
        "players": dict(arena_players(wishes)),
        "prompts": {"path": wishes.data, "held_out": MOST_PROMPTS},
        "judge": arena_judge(wishes),
    }
    recipe_loader.override(values, wishes.settings)
    with only_reading(files=True):
        drafted = recipe_loader.load(values)
    show_notes(effects_of(drafted, Path.cwd()).notes(quiet=True))
    config = recipe_loader.build(whole_recipe(values), str(path))
    source = config.prompts.load()
    if not any(text.startswith("prompts.held_out=") for text in wishes.settings):
        distinct = len({content(prompt) for prompt in source.held_out or source.training})
        values["prompts"]["held_out"] = min(MOST_PROMPTS, distinct)
        config = recipe_loader.build(whole_recipe(values), str(path))
    checked = check_run(config)
    notes = list(check_endpoints(config))
    endpoints = []
    for place, player in config.every_player():
        if isinstance(player, Endpoint) and not player.fault_of_servers():
            endpoints.append(f"{place}: {player.base_url} answers")
    trials = list(try_judges(config, source.training)) if call_judge else []
    check_trials(trials)
    planned = plan(config)
    recipe = FirstRecipe(
        "",
        first_rows(source.training),
        sum(len(part or ()) for part in (source.training, source.held_out, source.test)),
        checked.split.dropped,
        0,
        0,
        trials,
        endpoints,
        planned,
        [*notes, *planned.notes],
        first_row(config.prompts),
    )
    return replace(recipe, text=recipe_text(values, arena_comments(recipe), path))


def check_wishes_of_arena(wishes: Wishes) -> None:
    """Raises ConfigError for wishes that no arena can meet."""
    if len(wishes.models) < 2:
        raise ConfigError(
            f"--model: an arena needs two, and {len(wishes.models)} are given; repeat --model for "
            "each: a server's address, ADDRESS=NAME where it has several, or a model here"
        )
    if not wishes.judges:
        raise ConfigError(
            "--judge: an arena needs one: a function, a model, a server's ADDRESS=NAME; repeat it "
            "for a panel"
        )
    if wishes.money is not None and not wishes.prices:
        raise ConfigError(
            "--money: needs --prices IN,OUT, what a million tokens read and written cost"
        )


def served(text: str, wishes: Wishes) -> dict[str, Any]:
    """A served model's settings from ADDRESS=NAME, or ADDRESS of a server with one model."""
    address, _, name = text.partition("=")
    if not name:
        server = Endpoint.model_validate({"base_url": address, "model": "any"})
        name = only_model(server)
    settings: dict[str, Any] = {"kind": "endpoint", "base_url": address, "model": name}
    if wishes.prices:
        settings["prices"] = read_prices(wishes.prices)
    if wishes.money is not None:
        settings["budget"] = {"money": wishes.money}
    return settings


def read_prices(text: str) -> dict[str, float]:
    """`0.5,1.5` as prices. Raises ConfigError."""
    parts = text.split(",")
    try:
        read, written = map(float, parts)
    except ValueError as error:
        raise ConfigError(
            f"--prices {text}: write IN,OUT, as 0.5,1.5: what a million tokens cost"
        ) from error
    return {"input": read, "output": written}


def is_address(text: str) -> bool:
    """True for a server's address, with a model's name or without."""
    return text.startswith(("http://", "https://"))


def arena_players(wishes: Wishes) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, settings) of each player, named by its model."""
    taken: set[str] = set()
    for number, text in enumerate(wishes.models, 1):
        here = {"kind": "local", "model": text}
        settings = served(text, wishes) if is_address(text) else here
        name = re.sub(r"\W+", "_", settings["model"].rpartition("/")[2]).strip("_").lower()
        if not name.isidentifier() or name in taken:
            name = f"player{number}_{name}".rstrip("_")
        taken.add(name)
        yield name, settings


def arena_judge(wishes: Wishes) -> Any:
    """The judge's settings; several judges are a panel that decides by majority."""
    judges = []
    for text in wishes.judges:
        if is_address(text):
            judges.append({"kind": "pairwise", "model": served(text, wishes)})
        else:
            judges.append(judge_settings(text, "arena"))
    if len(judges) == 1:
        return judges[0]
    members: dict[str, Any] = {}
    for number, judge in enumerate(judges, 1):
        name = f"judge{number}"
        if isinstance(judge, Mapping) and isinstance(judge.get("model"), Mapping):
            name = str(judge["model"]["model"]).rpartition("/")[2]
        if name in members:
            name = f"{name}_{number}"
        members[name] = judge
    return {"kind": "panel", "how": "majority", "judges": members}


def arena_comments(recipe: FirstRecipe) -> dict[str, str]:
    """Dotted key -> how its value was chosen; "": of the whole."""
    planned = recipe.planned
    priced = [each for each in planned.endpoints if each.money is not None]
    cost = "endpoints have no prices: set prices and budget.money to limit what is spent"
    if priced:
        about = amount(sum(each.money or 0.0 for each in priced))
        most = amount(sum(each.money_at_most or 0.0 for each in priced))
        cost = f"about {about} {priced[0].currency}, at most {most} without failures"
    questions = planned.counts.questions_to_judges
    lines = {f"players.{name}": "" for name in planned.config.players}  # each on its own
    return lines | {
        "": f"{planned.counts.answers:,} answers, {questions:,} questions to judges; {cost}",
        "prompts": f"{recipe.row_count:,} rows; held_out: those that everybody answers",
        "judge": "a panel of served models is asked about every two answers in both orders",
    }
