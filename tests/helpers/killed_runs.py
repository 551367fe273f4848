"""A process that plays a recipe undisturbed, then again under SIGKILL after SIGKILL, each time in a
fork that has all imports behind it, so that a kill falls within the run and not within the imports.

    python -m killed_runs KILLS RECIPE [-s SETTING]...

in the folder where the runs `calm` and `killed` are to lie. The last line that it prints is JSON: the
final numbers of both, and how many kills there were of each kind.
"""

import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.soak._forked import KINDS, Ended, command, draw, load
from tests.soak._recorded import count

FIRST = 20  # renames or records, of a run that is killed at its first ones too


def measured(ended: Ended) -> Any:
    """The final numbers that a run printed as JSON, after any notes."""
    assert ended.code == 0, ended.output
    return json.loads(ended.output[ended.output.index("{\n") :])["measured"]


def play(folder: Path, recipe: list[str], kills: int) -> dict[str, Any]:
    """Kill a run until it ends between two kills, then the next, until there were `kills` kills."""
    calm = command(["run", *recipe, "--out", "calm", "--json"], folder)
    numbers = measured(calm)
    marks = max(count(folder / "calm", "stages"), FIRST)
    dice = random.Random(7)
    kinds: Counter[str] = Counter()
    ended_alike = []
    run = folder / "killed"
    while kinds.total() < kills:
        shutil.rmtree(run, ignore_errors=True)
        ended = None
        while ended is None or ended.code is None:
            verb = ["resume", "killed"]
            if not run.exists():
                verb = ["run", *recipe, "--out", "killed"]
            kind = KINDS[(kinds.total() + len(ended_alike)) % len(KINDS)]
            moment = None
            if kinds.total() < kills:
                moment = draw(dice, kind, calm.seconds, marks)
            ended = command([*verb, "--json"], folder, moment)
            if ended.code is None:
                kinds[kind] += 1
        ended_alike.append(measured(ended) == numbers)
    return {"kills": kinds, "ended_alike": ended_alike}


if __name__ == "__main__":
    load()
    print(json.dumps(play(Path.cwd(), sys.argv[2:], int(sys.argv[1]))))
