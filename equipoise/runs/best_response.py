"""What can still beat a player: a fresh one is trained against it, frozen, in a run of its own that
names the run it was made against.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import RunError
from equipoise.evaluation.measures import Estimate
from equipoise.report.terminal import show_notes
from equipoise.runs import recipes
from equipoise.runs.directory import RunDirectory
from equipoise.runs.exploit_recipe import EXPLOITER, exploit_settings
from equipoise.runs.measure_sets import is_run, players_of
from equipoise.runs.reading.history import history
from equipoise.system.files import write_text
from equipoise.types import PlayerId, record_id

META = "best_response"  # where the ledger of an exploiter's run says what it is
FOLDER = "best_responses"  # of a run: its exploiters' runs
POINTER = ".path"  # a file there, with the folder of an exploiter's run elsewhere


class Exploit(msgspec.Struct, frozen=True):
    """What an exploiter's run was made against, as its ledger has it.

    `run`: the other run's folder; `player`: the frozen one; `role`: the exploiter's; `start`: how
    it begins; `league`: the most that anybody of the other run's league gets against the player,
    and `league_by` who; `request`: the settings that were asked for.
    """

    run: str
    player: str
    role: str
    start: str
    league: Estimate | None
    league_by: str
    request: list[str]


def prepare(
    run: RunDirectory,
    target: str,
    start: str,
    role: str,
    settings: recipes.Overrides,
    out: str | Path | None,
    overwrite: bool,
    trust: bool,
) -> Path:
    """The folder of the exploiter's run, made where it is not there yet; nothing is played.

    Raises RunError for a player that is not there and where `out` holds something else, ConfigError
    for what cannot be trained so, before anything is written.
    """
    run.agree(trust, show_notes)
    (player,) = players_of(run, [target])
    folder = run.folder / FOLDER / str(player) if out is None else Path(out).resolve()
    with run.started_in():
        made = _made(run, player, start, role, settings, folder, overwrite)
    if made.parent.resolve() != (run.folder / FOLDER).resolve():
        _name_elsewhere(run, player, made)
    return made


def _made(
    run: RunDirectory,
    player: PlayerId,
    start: str,
    role: str,
    settings: recipes.Overrides,
    folder: Path,
    overwrite: bool,
) -> Path:
    values, taken = exploit_settings(run, player, start, role)
    best, by = _league(run, player)
    exploit = Exploit(
        str(run.folder.resolve()), str(player), taken, start, best, by, _texts(settings)
    )
    if is_run(folder) and not overwrite:
        _check_same(folder, exploit)
        return folder
    config = recipes.load(values, settings)
    folder.parent.mkdir(parents=True, exist_ok=True)
    meta = {META: msgspec.json.encode(exploit).decode()}
    with RunDirectory.create(config, folder, overwrite, meta=meta):
        return folder


def exploit_of(run: RunDirectory) -> Exploit | None:
    """What this run was made against; None where it is no exploiter's."""
    text = run.ledger.meta(META)
    return msgspec.json.decode(text, type=Exploit) if text else None


def best_response(run: RunDirectory) -> dict[str, Any] | None:
    """What came of an exploiter's run, as plain JSON values; None for other runs.

    `gets` and `at_start`: what the newest exploiter, and the one that it began as, gets against the
    frozen player on held-out prompts, with 95 % intervals; `league`: the most that anybody of the
    other run got; `budget`: updates, and the moves and tokens that were sampled for them.
    """
    exploit = exploit_of(run)
    if exploit is None:
        return None
    target = str(PlayerId(PlayerId.parse(exploit.player).name))
    measured = history(run).measurements
    gets = [
        (str(m.player(EXPLOITER)), m.measures.gets(str(m.player(EXPLOITER)), target))
        for m in measured
    ]
    newest, last = gets[-1] if gets else (f"{EXPLOITER}@0", None)
    facts = {
        "run": str(run.folder),
        "against": {"run": exploit.run, "player": exploit.player},
        "exploiter": newest,
        "role": exploit.role,
        "start": exploit.start,
        "unit": measured[-1].measures.payoff_name if measured else "",
        "gets": last,
        "at_start": gets[0][1] if gets else None,
        "league": {"by": exploit.league_by, "gets": exploit.league},
        "budget": budget(run),
        "finished": bool(measured) and measured[-1].generation == run.config.generations,
    }
    return msgspec.to_builtins(facts)


def budget(run: RunDirectory) -> dict[str, int]:
    """What the exploiter learned from so far: updates, and the moves that it made in training with
    their tokens.
    """
    births = [birth for birth in run.ledger.players() if birth.player.name == EXPLOITER]
    samples = tokens = 0
    for t in range(run.config.generations):
        for match in run.ledger.matches("train", t):
            for turn in match.turns:
                if match.seats[turn.seat].name == EXPLOITER:
                    samples += 1
                    tokens += turn.move.tokens
    return {"updates": len(births), "samples": samples, "tokens": tokens}


def best_responses(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """What came of every exploiter's run in the run's folder, by name, and of those elsewhere that
    are still there.
    """
    for folder in sorted((run.folder / FOLDER).glob("[!.]*")):
        elsewhere = folder.suffix == POINTER
        place = Path(folder.read_text(encoding="utf-8")) if elsewhere else folder
        if not is_run(place):
            continue
        with RunDirectory.read(place) as exploiters:
            facts = best_response(exploiters)
        ours = str(run.folder.resolve())
        if facts is not None and (not elsewhere or facts["against"]["run"] == ours):
            yield facts


def _name_elsewhere(run: RunDirectory, player: PlayerId, folder: Path) -> None:
    """Have the run name an exploiter's run outside of its folder; a note where nothing can be
    written there.
    """
    home = run.folder / FOLDER
    name = f"{player}.{record_id(str(folder))}{POINTER}"
    try:
        home.mkdir(exist_ok=True)
        write_text(home / name, str(folder))
    except OSError as error:
        show_notes(
            [
                f"{run.folder}: cannot be written ({error.strerror}), so its status and "
                f"report will not name the exploiter in {folder}"
            ]
        )


def _league(run: RunDirectory, player: PlayerId) -> tuple[Estimate | None, str]:
    """The most that anybody of the run got against the player, and who."""
    best: tuple[Estimate | None, str] = (None, "")
    for measurement in history(run).measurements:
        measures = measurement.measures
        for name in measures.players:
            gets = None if name == str(player) else measures.gets(name, str(player))
            if gets is None or gets.mean is None:
                continue
            if best[0] is None or best[0].mean is None or gets.mean > best[0].mean:
                best = gets, name
    return best


def _texts(settings: recipes.Overrides) -> list[str]:
    """The settings that were asked for, to tell one request from another."""
    plain = recipes.plain(settings)
    if isinstance(plain, dict):
        return [f"{key}={json.dumps(value)}" for key, value in plain.items()]
    return list(map(str, plain))


def _check_same(folder: Path, exploit: Exploit) -> None:
    """Raises RunError unless the run there is the same exploiter's, to be gone on with."""
    with RunDirectory.read(folder) as run:
        there = exploit_of(run)
    same = there is not None and (
        (there.run, there.player, there.role, there.start, there.request)
        == (exploit.run, exploit.player, exploit.role, exploit.start, exploit.request)
    )
    if not same:
        raise RunError(f"{folder}: holds another run; choose another --out, or --overwrite")
