"""Train a fresh player to beat a frozen one of another run, in a run where nobody else learns."""

import copy
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from equipoise.api.measure_sets import players_of
from equipoise.blocks.terminal import show_notes
from equipoise.component import nearest
from equipoise.errors import ConfigError, RunError
from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.learners.best_reply import BestReply
from equipoise.ledger.facts import Estimate
from equipoise.models.loading import describe
from equipoise.planning.first_recipe import ADAPTER, peak_rate
from equipoise.planning.new_run import new_run
from equipoise.players.base import Player, players_in
from equipoise.players.endpoint import Endpoint
from equipoise.players.population import Population
from equipoise.players.tabular import Tabular
from equipoise.report.best_responses import EXPLOITER, FOLDER, META, POINTER, Exploit, exploit_of
from equipoise.report.history import history
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.types import PlayerId, record_id


def prepare(
    run: RunDirectory,
    target: str,
    start: str,
    role: str,
    settings: recipe_loader.Overrides,
    out: str | Path | None,
    overwrite: bool,
    trust: bool,
) -> Path:
    """The folder of the exploiter's run, made if absent; nothing is played.

    Raises RunError for a missing player and where `out` holds something else, ConfigError for what
    cannot be trained so, before anything is written.
    """
    run.agree(trust, show_notes)
    for name in (target, start):
        if name.endswith("@all"):
            raise RunError(f"{run.folder}: {name} are several players; name one generation")
    (player,) = players_of(run, [target])
    own_folder = run.folder / FOLDER
    folder = own_folder / str(player)
    if out is not None:
        folder = Path(out).resolve()
    with run.in_starting_folder():
        made = make_run(run, player, start, role, settings, folder, overwrite)
    if made.parent.resolve() != own_folder.resolve():
        name_elsewhere(run, player, made)
    return made


def make_run(
    run: RunDirectory,
    player: PlayerId,
    start: str,
    role: str,
    settings: recipe_loader.Overrides,
    folder: Path,
    overwrite: bool,
) -> Path:
    """The folder of the exploiter's run, made if it is absent."""
    values, taken = exploit_settings(run, player, start, role)
    best, by = best_of_league(run, player)
    exploit = Exploit(
        run=str(run.folder.resolve()),
        player=str(player),
        role=taken,
        start=start,
        league=best,
        league_by=by,
        request=setting_texts(settings),
    )
    if is_run(folder) and not overwrite:
        check_same(folder, exploit)
        return folder
    config = recipe_loader.load(values, settings)
    meta = {META: msgspec.json.encode(exploit).decode()}
    with new_run(config, folder, overwrite, meta=meta):
        return folder


def name_elsewhere(run: RunDirectory, player: PlayerId, folder: Path) -> None:
    """Name an outside exploiter's run in the run; a note where that cannot be written."""
    name = f"{player}.{record_id(str(folder))}{POINTER}"
    try:
        with run.files.inner(FOLDER, make=True) as named:
            named.write(name, str(folder))
    except OSError as error:
        note = (
            f"{run.folder}: cannot be written ({error.strerror}), so its status and "
            f"report will not name the exploiter in {folder}"
        )
        show_notes([note])


def best_of_league(run: RunDirectory, player: PlayerId) -> tuple[Estimate | None, str]:
    """The most that anybody of the run got against the player, and who."""
    best: Estimate | None = None
    by = ""
    highest = -math.inf
    target = str(player)
    for measurement in history(run).measurements:
        measures = measurement.measures
        for name in measures.players:
            if name == target:
                continue
            gets = measures.gets(name, target)
            if gets is not None and gets.mean is not None and gets.mean > highest:
                best = gets
                by = name
                highest = gets.mean
    return best, by


def setting_texts(settings: recipe_loader.Overrides) -> list[str]:
    """The settings that were asked for, to tell one request from another."""
    plain = recipe_loader.plain_values(settings)
    if isinstance(plain, dict):
        return [f"{key}={json.dumps(value)}" for key, value in plain.items()]
    return list(map(str, plain))


def check_same(folder: Path, exploit: Exploit) -> None:
    """Raises RunError unless the run there is the same exploiter's, to be gone on with."""
    with RunDirectory.read(folder) as run:
        there = exploit_of(run)
    if there is not None:
        # What the league gets may have risen since.
        there = msgspec.structs.replace(there, league=exploit.league, league_by=exploit.league_by)
    if there != exploit:
        raise RunError(f"{folder}: holds another run; choose another --out, or --overwrite")


# Of the exploiter of a run in which nobody learned:
GENERATIONS = 3
LOSS = "dpo"  # of pairs alone, since of a served model no log-probabilities are known
LORA = {"r": 16, "alpha": 32}

AT_THE_ENDS = 1_000_000
"""Generations between two measurements: only the first and the last are measured."""


def exploit_settings(
    run: RunDirectory, player: PlayerId, start: str, role: str
) -> tuple[dict[str, Any], str]:
    """(the settings; the exploiter's role, "" where all players are one league).

    Args: start: "" for as the run's own player of its role was given, NAME or NAME@GENERATION for a
    player of the run, else a model; role: "" for the only one that is left.

    Raises ConfigError for a game without a role for it, RunError for a player that is not there.
    """
    config = run.config
    if player.name == EXPLOITER:
        raise ConfigError(f"{player}: the name '{EXPLOITER}' is that of best responses")
    game = opposed_game(config, player)
    tabular = isinstance(config.players[player.name], Tabular)
    roles = seated_roles(config, game, player, role, tabular)
    own = next((r for r, name in roles.items() if name == EXPLOITER), "")
    pattern = config.schedule.player_of_role.get(own, player.name)
    values = copy.deepcopy(dict(run.settings))
    exploiter = exploiter_player(run, pattern, start, tabular)
    learner = exploiter_learner(config, pattern, exploiter, tabular)
    values |= {
        "name": f"best response to {player} of {config.name}",
        "players": {EXPLOITER: exploiter, **frozen_players(run, player, set(roles.values()))},
        "game": game.settings(),
        "schedule": opposed_schedule(config, roles, tabular),
        "judge": exploiter_judge(config, pattern).settings(),
        "judges": {},
        "learners": {},
        "learner": learner,
        "turns": "everyone",
        "by_generation": {},
        "shaping": [],
        "evaluate": own_evaluation(config, tabular),
        "keep": "all",
        "ledger": None,
        "report_to": [],
    }
    values.pop("training_ratings", None)  # they rate the run's own players, of whom most are gone
    values["prompts"] = {**values["prompts"], "test": 0, "reuse": True}
    if not config.generations:  # nobody learned, and all prompts may have been held out
        values["prompts"]["shrink"] = True
        values["generations"] = GENERATIONS
    if learner is not None and learner["kind"] == "preference" and not values.get("loss"):
        values["loss"] = LOSS
    if tabular:
        values |= {"loss": None, "generations": 1}
    return values, own


def exploiter_judge(config: RunConfig, pattern: str) -> Judge:
    """The judge that taught the run's own player of that role.

    In place of one that asks the run's players, of whom most are gone, the one that measured.
    """
    judge = config.judge_of(pattern)
    asks_players = judge.questions(2, len(config.players)) > 0
    if asks_players and not list(players_in(judge, "judge")) and config.evaluate.judge:
        return config.evaluate.judge
    return judge


def opposed_game(config: RunConfig, player: PlayerId) -> Game:
    """The run's game, with a seat for the exploiter beside the player.

    Raises ConfigError for a game that one player plays alone.
    """
    game = config.game
    if len(game.seats) > 1:
        return game
    if isinstance(game, Answers):  # answers are compared, however many the run sampled
        return game.model_copy(update={"samples": 2})
    raise ConfigError(
        f"{player}: game '{game.kind}' has one seat, so there is no role in which another could be "
        "trained against it; set game: answers where a judge compares answers, or another game of "
        "two seats, and play the run in it"
    )


def player_settings(run: RunDirectory, player: PlayerId) -> dict[str, Any]:
    """Settings of a player that begins at this generation. Raises RunError and ModelError."""
    population = Population(run.config.players, run.folder.resolve() / "players")
    given = run.config.players[player.name]
    weights = population.weights(player) if player.generation else None
    return {**given.settings_at(weights), "learns": False}


def seated_roles(
    config: RunConfig, game: Game, player: PlayerId, role: str, tabular: bool
) -> dict[str, str]:
    """role -> player, empty for one league; ConfigError where nobody can sit opposite."""
    roles = list(game.roles)
    if role and role not in roles:
        raise ConfigError(
            f"--role {role}: game '{game.kind}' has the roles {', '.join(roles)}; "
            f"{nearest(role, roles)}"
        )
    given = dict(config.schedule.player_of_role)
    if not given and not tabular:
        if role:
            raise ConfigError(f"--role {role}: the run's players are one league, and take any seat")
        return {}
    own = [name for name, who in given.items() if who == player.name]
    if given and not own:
        raise ConfigError(
            f"{player}: has no role in its run (schedule.roles), so nobody can be "
            "trained against it"
        )
    free = roles[:1]
    if own:
        free = [name for name in roles if name not in own]
    if not role and len(free) != 1:
        several = " or ".join(free or roles)
        raise ConfigError(f"{player}: name the role of its opponent, --role {several}")
    seated = {name: given.get(name, player.name) for name in roles}
    seated[role or free[0]] = EXPLOITER
    return seated


def exploiter_player(run: RunDirectory, pattern: str, start: str, tabular: bool) -> dict[str, Any]:
    """The fresh player's settings; `pattern` is the run's own player of its role."""
    given = run.config.players[pattern]
    name = start.partition("@")[0]
    begins_as = run.config.players.get(name, given)
    if isinstance(begins_as, Endpoint) and (not start or name in run.config.players):
        raise ConfigError(
            f"'{name or pattern}' is served elsewhere, where its weights cannot be trained; name "
            "the model here that is to learn: --start MODEL, a folder, a hub id or a packaged name"
        )
    settings: dict[str, Any]
    if not start:
        check_learns(run.config, pattern, given, tabular)
        settings = given.settings()
    elif name in run.config.players:
        (begun,) = players_of(run, [start])
        settings = player_settings(run, begun)
    elif given.base_model is None:
        settings = {"kind": "local", "model": start}
        if isinstance(given, Endpoint):  # answers as long as its opponent's
            settings["max_new_tokens"] = given.max_new_tokens
            if describe(start).parameters >= ADAPTER:
                settings["lora"] = LORA
    else:
        settings = {**given.settings(), "model": start}
        if "adapter" in settings:
            settings["adapter"] = None
    settings["learns"] = True
    return settings


def check_learns(config: RunConfig, pattern: str, given: Player, tabular: bool) -> None:
    """Raises ConfigError where the exploiter would begin as somebody who cannot learn."""
    trainer = config.learners.get(pattern, config.learner)
    if tabular:
        trainer = BestReply()
    if trainer is None:
        return
    for fault in trainer.faults(given, config.game):
        raise ConfigError(
            f"the exploiter would begin as '{pattern}' of the run was given: {fault}; "
            "name another beginning with --start"
        )


def frozen_players(
    run: RunDirectory, player: PlayerId, seated: set[str]
) -> dict[str, dict[str, Any]]:
    """The target, and whoever else has a role, at its newest generation."""
    frozen = [player]
    others = [name for name in run.config.players if name in seated - {player.name}]
    if others:
        frozen += players_of(run, others)
    return {each.name: player_settings(run, each) for each in frozen}


def opposed_schedule(config: RunConfig, roles: Mapping[str, str], tabular: bool) -> dict[str, Any]:
    if not roles:
        return {"kind": "round_robin"}
    if tabular:
        return {"kind": "psro", "roles": dict(roles)}
    samples = config.schedule.settings().get("samples", 1)
    shared = len(set(roles.values())) < len(roles)
    return {"kind": "roles", "roles": dict(roles), "samples": samples, "shared": shared}


def exploiter_learner(
    config: RunConfig, pattern: str, exploiter: Mapping[str, Any], tabular: bool
) -> dict[str, Any]:
    """The trainer of the run's own player of that role; where nobody learned, by preferences at a
    rate for the model's size.
    """
    if tabular:
        return {"kind": "best_reply"}
    trainer = config.learners.get(pattern, config.learner)
    if trainer is not None:
        return trainer.settings()
    learner = {"kind": "preference", "batch_size": 8, "gradient_accumulation": 2}
    if exploiter.get("kind") == "local":
        size = describe(str(exploiter["model"]))
        learner["learning_rate"] = peak_rate(size.parameters, exploiter.get("lora") is not None)
    return learner


def own_evaluation(config: RunConfig, tabular: bool) -> dict[str, Any]:
    """The run's own measure, at the start and at the end."""
    if tabular:
        return {"kind": "meta_game"}
    settings = dict(config.evaluate.settings())
    settings |= {"every": AT_THE_ENDS, "sets": {}, "select_by": None}
    if "transfer" in settings:
        settings["transfer"] = []
    return settings
