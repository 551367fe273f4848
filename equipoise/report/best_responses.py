"""The results of best responses: of exploiters that were trained against a run's frozen players."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from equipoise.ledger.facts import Estimate
from equipoise.report.history import history
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.types import PlayerId

META = "best_response"  # where the ledger of an exploiter's run says what it is
FOLDER = "best_responses"  # of a run: its exploiters' runs
POINTER = ".path"  # a file there, with the folder of an exploiter's run elsewhere
EXPLOITER = "exploiter"  # the name of the player that is trained


class Exploit(msgspec.Struct, frozen=True):
    """The aim of an exploiter's run, as its ledger has it.

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


def exploit_of(run: RunDirectory) -> Exploit | None:
    """The aim of an exploiter's run; None for other runs."""
    text = run.ledger.meta(META)
    return msgspec.json.decode(text, type=Exploit) if text else None


def best_response(run: RunDirectory) -> dict[str, Any] | None:
    """The result of an exploiter's run, as plain JSON values; None for other runs.

    `gets` and `at_start`: pay-offs of the newest and the first exploiter against the frozen player
    on held-out prompts, with 95 % intervals; `league`: the most that the other run's league got;
    `budget`: updates, sampled moves and tokens.
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
    """Updates of the exploiter so far, and its moves in training with their tokens."""
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
    """Results of all exploiters' runs, in the run's folder by name, then elsewhere."""
    follows = run.is_own  # a stranger's run may name any other
    for folder in sorted((run.folder / FOLDER).glob("[!.]*")):
        elsewhere = folder.suffix == POINTER
        if elsewhere and not follows:
            continue
        place = Path(folder.read_text(encoding="utf-8", errors="replace")) if elsewhere else folder
        if not is_run(place):
            continue
        with RunDirectory.read(place) as exploiters:
            facts = best_response(exploiters)
        ours = str(run.folder.resolve())
        if facts is not None and (not elsewhere or facts["against"]["run"] == ours):
            yield facts
