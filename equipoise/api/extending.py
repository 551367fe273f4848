"""Settings that may change once a run has begun: those that add to it or limit it.

What is recorded stays what a run of the new settings would have recorded. The change is noted in
the ledger, with the prompts of added generations, in one transaction; config.yaml follows, when
the run is next opened if the process is killed in between.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from equipoise.component import FREE
from equipoise.errors import ConfigError, DataError
from equipoise.ledger.database import to_json
from equipoise.planning.checks import check_run
from equipoise.prompts.split import PromptSplit, TooFewPromptsError
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.consent import has_consent, sign
from equipoise.runs.directory import PENDING, SETTINGS, RunDirectory, recorded_settings
from equipoise.system.yaml_text import check_plain, parse_yaml
from equipoise.types import Prompt

CHANGES = "changes"  # the ledger's note of every change: setting, was, now
ADDING: Mapping[str, str] = {
    "generations": "more of them: none depends on how many follow it",
    "max_unjudged": "a larger share: all that it does is to stop the run",
    "keep": "which weights stay on the disk",
    "report_to": "trackers: they get the numbers from now on",
}
"""Setting of a run -> why it may change; beside the `FREE` ones of any part."""
ROWS = re.compile(r"players\.[^.]+\.batch_size")
"""Answers of a local player that are sampled at once: another number where memory runs out."""
REUSE = "prompts.reuse"  # may become true where generations are added
FIXED: Mapping[str, str] = {
    "evaluate.sets": "the generations so far were not measured on it (`equipoise evaluate RUN --on "
    "SET --players NAME@all` measures them all)",
    "evaluate": "the measurements so far would not be comparable with those to come",
    "measures": "the generations so far were not measured by it",
    "prompts": "the prompts are dealt, and held-out ones must stay apart",
    "seed": "every choice so far came from it",
    "players": "the answers so far are of other players",
    "judge": "the judgements so far are another's (`equipoise judge RUN --with …` sets one beside)",
    "commit_every": "answers that are sampled together depend on it",
    "unit_rows": "answers that are sampled together depend on it",
    "ledger": "the records lie where it says",
}
"""Setting -> why it may not, where there is more to say than that records depend on it."""


def change_settings(run: RunDirectory, overrides: recipe_loader.Overrides) -> None:
    """Change settings of a run that has begun, in its ledger and config.yaml; adds to its notes.

    Raises ConfigError, before anything is changed, for a setting that recorded results depend on,
    for fewer generations, and where added generations have no prompts of their own.
    """
    path = run.folder / "config.yaml"
    before, values = run.config, recipe_loader.read_resolved(path)
    origins = recipe_loader.override(values, overrides)
    for key, origin in origins.items():
        check_allowed(key, origin)
    check_plain(values, str(path))
    after = recipe_loader.build(values, str(path), origins)
    for fault in refused_changes(before, after):
        raise ConfigError(f"{next(iter(origins.values()))}: {fault}")
    longer = after.generations > before.generations
    split, notes = None, list(notes_on_rows(origins))
    if longer:
        try:
            split = _split(run, before, after)
        except TooFewPromptsError as error:
            if before.prompts.reuse or not before.prompts.shrink:
                raise ConfigError(used_up(origins["generations"], error)) from error
            after = starting_over(after)
            split = _split(run, before, after)
            notes.append(
                "prompts: the generations so far have played all that there are; those that are "
                "added play them again, newly shuffled (prompts.reuse: true)"
            )
        except DataError as error:
            raise ConfigError(
                f"{origins['generations']}: needs the prompts again: {error}. Their source must be "
                "as it was when the run began"
            ) from error
    with run.ledger.transaction():
        run.notes = (*run.notes, *notes)
        if longer:
            run.notes = (*run.notes, *extend_generations(run, before, split))
        _note(run, before, after)
    run.take_up_change()
    effects = run.effects()
    if not has_consent(run.ledger, effects):  # an address, a key or a tracker has changed
        run.notes = (*run.notes, *effects.notes(quiet=True), *sign(run.ledger, effects))


def check_allowed(key: str, origin: str) -> None:
    """Raises ConfigError for a setting that recorded results depend on."""
    if key.split(".")[0] == "player_defaults":
        raise ConfigError(
            f"{origin}: is part of a recipe, and every player has its own settings once the run "
            "has begun; name the player: -s NAME.…"
        )
    parts = key.split(".")
    if ROWS.fullmatch(key) or key == REUSE or parts[0] in ADDING or set(parts) & FREE:
        return
    reasons = [why for name, why in FIXED.items() if f"{key}.".startswith(f"{name}.")]
    why = reasons[0] if reasons else "what is recorded depends on it"
    may = "; ".join(f"{name} ({what})" for name, what in ADDING.items())
    raise ConfigError(
        f"{origin}: cannot change once the run has begun: {why}. These may: {may}; {REUSE} (to "
        "true, with more generations, where the prompts are used up); NAME.batch_size (where a GPU "
        f"ran out of memory); and of any part {', '.join(sorted(FREE))}. Start a new run for "
        "anything else"
    )


def notes_on_rows(origins: Mapping[str, str]) -> Iterator[str]:
    """A note where another number of answers at once changes them."""
    for key in origins:
        if ROWS.fullmatch(key):
            yield (
                f"{key.removeprefix('players.')}: what is recorded stays; from now on answers are "
                "computed in other batches, so that single tokens may differ from those of a run "
                "that had begun so"
            )


def used_up(origin: str, error: DataError) -> str:
    """The message where the added generations have no prompts of their own."""
    count = str(error).partition(";")[0]
    return (
        f"{origin}: the generations so far have played the prompts that there are ({count}). Add "
        f"-s {REUSE}=true, and the added generations play the same prompts again, newly shuffled"
    )


def starting_over(config: RunConfig) -> RunConfig:
    """The configuration, whose prompts begin anew when they run out."""
    prompts = config.prompts.model_copy(update={"reuse": True})
    return config.model_copy(update={"prompts": prompts})


def refused_changes(before: RunConfig, after: RunConfig) -> Iterator[str]:
    """The faults of settings that may only grow, and do not."""
    was, now = before.prompts.reuse, after.prompts.reuse
    may_start_over = was is False and now is True and after.generations > before.generations
    if now != was and not may_start_over:
        yield (
            f"{REUSE} can only become true, and only with more generations: "
            f"-s generations={before.generations + 1} -s {REUSE}=true"
        )
    if after.generations < before.generations:
        yield (
            f"the run has {before.generations} generations and can only get more; Ctrl-C stops it "
            "earlier"
        )
    if after.max_unjudged < before.max_unjudged:
        yield (
            f"max_unjudged is {before.max_unjudged:g} and can only rise: a run of less might have "
            "stopped before"
        )


def _note(run: RunDirectory, before: RunConfig, after: RunConfig) -> None:
    """Note the change, and the whole configuration until it is written into config.yaml."""
    text = after.yaml()
    now = parse_yaml(text, "config.yaml")
    was = parse_yaml(before.yaml(), "config.yaml")
    begun = recorded_settings(run.ledger)
    begun.update({name: now[name] for name in ADDING})
    if after.prompts.reuse != before.prompts.reuse:
        begun["prompts"] = now["prompts"]
    for name, player in before.players.items():
        rows = getattr(after.players[name], "batch_size", None)
        if rows != getattr(player, "batch_size", None):
            begun["players"][name]["batch_size"] = rows
    changes = json.loads(run.ledger.meta(CHANGES, "[]"))
    changes += [
        {"setting": name, "was": was.get(name), "now": now[name]}
        for name in now
        if now[name] != was.get(name)
    ]
    run.ledger.note(SETTINGS, json.dumps(begun))
    run.ledger.note(CHANGES, json.dumps(changes))
    run.ledger.note(PENDING, text)


# -- more generations


def _split(run: RunDirectory, before: RunConfig, after: RunConfig) -> PromptSplit | None:
    """The prompts of all generations; None where the first are not dealt yet.

    Raises ConfigError where the source has too few, or is another than it was.
    """
    if not run.ledger.has_finished("deal"):
        return None
    # The counts stay those of the generations so far.
    prompts = after.prompts.model_copy(update={"shrink": False})
    split = check_run(after.model_copy(update={"prompts": prompts}), has_begun=True).split
    parts = {f"generation {t}": part for t, part in enumerate(split.parts[: before.generations])}
    for name, part in {"held-out": split.held_out, "test": split.test, **parts}.items():
        dealt = (
            run.ledger.prompts("train", int(name.split()[1]))
            if name in parts
            else run.ledger.prompts(name.replace("-", "_"))
        )
        if _content(dealt) != _content(part):
            raise ConfigError(
                f"prompts: their source is not as it was when the run began: the prompts of the "
                f"{name} part would be others. Put it back, or start a new run"
            )
    return split


def _content(prompts: list[Prompt]) -> list[str]:
    return [to_json(prompt) for prompt in prompts]


def extend_generations(
    run: RunDirectory, before: RunConfig, split: PromptSplit | None
) -> Iterator[str]:
    """Record the prompts of the added generations, and take back the end; notes for the user."""
    ledger, end = run.ledger, before.generations
    facts: dict[str, Any] | None = ledger.stage_facts("deal")
    if split is not None and facts is not None:
        for t, part in enumerate(split.parts[end:], end):
            ledger.add_prompts(part, "train", t)
        count = sum(map(len, split.parts))
        ledger.amend("deal", {**facts, "prompts": count, "dropped": split.dropped})
    measured = ledger.has_finished(f"{end}/measure")
    if measured and end % before.evaluate.every:
        yield (
            f"generation {end} was measured as the last one; its measurement stays, between those "
            f"of evaluate.every = {before.evaluate.every}"
        )
    if ledger.has_finished("select"):
        ledger.amend("select", new_key=f"{end}/select")
        if before.prompts.test:
            yield (
                f"the test prompts were played after generation {end} already; the best player is "
                "chosen and tested anew, so if you go on because of that test, it is no longer one"
            )
