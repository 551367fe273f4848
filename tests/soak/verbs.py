"""SIGKILL of the verbs that make something of their own: `merge` and `sft` (a model's folder),
`best-response` (a run), `vote` (people's votes). A folder is there whole or not at all, what is done
again is what an undisturbed verb makes, and a vote that the page called kept is kept, once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.running import with_settings
from tests.soak._forked import KINDS, command, draw, load
from tests.soak._outcome import Outcome
from tests.soak._recorded import differences
from tests.soak.kills import RECIPES, SMALL

SIZE = 100
MADE = "made"
TAUGHT = "taught.jsonl"
VERBS: Mapping[str, Sequence[str]] = {
    "merge": ["pool/players/sums/1", "--to", MADE],
    "sft": ["builtin", TAUGHT, "--out", MADE, "--batch-size", "4"],
    "best-response": ["run@policy@1", *with_settings(["generations=1"]), "--out", MADE],
}


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` kills, shared among the verbs, which have equal shares of the minutes too."""
    load()
    rows: list[Mapping[str, Any]] = []
    failures: list[str] = []
    dice = random.Random(11)
    parts = len(VERBS) + 1  # and `vote`
    seconds = 60 * minutes / parts if minutes else float("inf")
    with tempfile.TemporaryDirectory() as home:
        source = Path(home, "source")
        source.mkdir()
        taught = ({"prompt": f"What is {n} plus 1?", "completion": str(n + 1)} for n in range(24))
        (source / TAUGHT).write_text("".join(json.dumps(row) + "\n" for row in taught))
        quick = with_settings([*SMALL, "generations=1", "prompts.per_generation=12"])
        pool = with_settings([*RECIPES["sparta_clerks"], "generations=1"])
        for run, recipe in (("run", ["quickstart", *quick]), ("pool", ["sparta_clerks", *pool])):
            made = command(["run", *recipe, "--out", run], source)
            assert made.code == 0, made.output
        for verb, arguments in VERBS.items():
            until = time.monotonic() + seconds
            rows.append(
                _makes(verb, [verb, *arguments], source, size // parts, dice, until, failures)
            )
            print(rows[-1], flush=True)
        until = time.monotonic() + seconds
        rows.append(_votes(source, size // parts, dice, until, failures))
        print(rows[-1], flush=True)
    return Outcome(rows, failures)


def _makes(
    verb: str,
    arguments: Sequence[str],
    source: Path,
    kills: int,
    dice: random.Random,
    until: float,
    failures: list[str],
) -> Mapping[str, Any]:
    """Kill a verb again and again, and do it again, until what it makes is there."""
    calm = source.parent / f"{verb}-calm"
    shutil.copytree(source, calm)
    undisturbed = command([*arguments, "--json"], calm)
    assert undisturbed.code == 0, undisturbed.output
    kinds: Counter[str] = Counter()
    runs = equal = 0
    while kinds.total() < kills and time.monotonic() < until and runs <= 5 * kills:
        place = source.parent / f"{verb}-killed"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place)
        problems: list[str] = []
        while True:
            kind = KINDS[(kinds.total() + runs) % len(KINDS)]
            last = kinds.total() >= kills
            moment = None if last else draw(dice, kind, 2.5 * undisturbed.seconds, 8)
            ended = command([*arguments, "--json"], place, moment)
            if "Traceback" in ended.output or ended.code not in (0, None):
                problems.append(f"{ended.code}: {ended.output[-400:]}")
            if ended.code is not None:
                break
            kinds[kind] += 1
            if verb != "best-response" and (place / MADE).exists():
                problems += _other(calm / MADE, place / MADE)
                break  # it was done already
        runs += 1
        problems += _other(calm / MADE, place / MADE)
        problems += [f"left behind: {path.name}" for path in place.glob(".*")]
        equal += not problems
        failures += [f"{verb}, run {runs}: {problem}" for problem in problems]
    return {
        "what": verb,
        "kills": kinds.total(),
        **{kind: kinds[kind] for kind in KINDS},
        "runs": runs,
        "equal": equal,
    }


def _other(calm: Path, killed: Path) -> list[str]:
    """What differs between two folders that a verb made."""
    if (calm / "config.yaml").exists():
        return differences(calm, killed)
    first, second = ({p.name: p.read_bytes() for p in f.iterdir()} for f in (calm, killed))
    return [f"{n}: differs" for n in first | second if first.get(n) != second.get(n)]


# -- votes


def _votes(
    source: Path, kills: int, dice: random.Random, until: float, failures: list[str]
) -> Mapping[str, Any]:
    """Kill the page's server while somebody votes without pause."""
    place = source.parent / "votes"
    shutil.copytree(source, place)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = os.fork()
    if client == 0:
        _vote_on(f"http://127.0.0.1:{port}/api", place / "kept.jsonl", os.getppid())
    lives, seconds, log = 0, 7.0, place / "kept.jsonl"
    while lives < kills and time.monotonic() < until:
        known = log.stat().st_size if log.exists() else 0
        moment = draw(dice, "at any time", seconds, 8)
        ended = command(["vote", "run", "--no-token", "--port", str(port)], place, moment)
        lives += 1
        if log.stat().st_size == known:  # it lived too short to take a vote
            seconds *= 1.3
        if ended.code is not None or "Traceback" in ended.output:
            failures.append(f"vote: {ended.code}: {ended.output[-400:]}")
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    adopted = command(["resume", "run"], place)
    from equipoise.ledger.ledger import Ledger
    from equipoise.ledger.votes_and_matches import HUMAN, votes_of

    said = [tuple(json.loads(line)) for line in (place / "kept.jsonl").read_text().splitlines()]
    kept = Counter((v.pair, v.voter, v.choice) for v in votes_of(place / "run").read())
    with Ledger.open(place / "run" / "ledger.sqlite", reading=True) as ledger:
        query = "SELECT json_array_length(record, '$.votes') FROM judgements WHERE judge = ?"
        recorded = sum(number for (number,) in ledger.rows(query, (HUMAN,)))
    lost, twice = set(said) - kept.keys(), [key for key, number in kept.items() if number > 1]
    unsaid = len(kept) - len(set(said))
    if lost or twice or unsaid > lives or not said or recorded != len(kept) or adopted.code != 0:
        numbers = f"{len(lost)} lost, {len(twice)} twice, {unsaid} unsaid, {recorded} recorded"
        failures.append(f"vote: {numbers} of {len(kept)}: {adopted.output[-300:]}")
    return {"what": "vote", "kills": lives, "votes": len(kept), "lost": len(lost)}


def _vote_on(address: str, log: Path, parent: int) -> None:
    """Vote as ever new people, and note each vote once it is said to be kept; never returns."""
    number = 0
    with httpx.Client(timeout=5, trust_env=False) as client, log.open("a") as notes:

        def ask(name: str, body: Any) -> Any:
            while os.getppid() == parent:
                try:
                    reply = client.post(f"{address}/{name}", json=body)
                    if reply.status_code == 200:
                        return reply.json()
                except httpx.HTTPError:
                    pass
                time.sleep(0.01)
            os._exit(0)

        while True:
            voter = f"voter {number}"
            shown = ask("question", {"voter": voter})["question"]
            if shown is None:
                number += 1
                continue
            sides = {
                side: {key: shown[side][key] for key in ("match", "seat")}
                for side in ("left", "right")
            }
            choice = ("left", "right", "tie")[len(voter + shown["id"]) % 3]
            ask("vote", {"voter": voter, "choice": choice, **sides})
            notes.write(json.dumps([shown["id"], voter, choice]) + "\n")
            notes.flush()
            number += dice_of(shown["id"]) == 0


def dice_of(text: str) -> int:
    """One of three numbers, from a text."""
    return int(text[:4], 16) % 3
