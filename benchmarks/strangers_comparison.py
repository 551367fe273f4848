"""A researcher's way: three losses on the built-in world, each over several seeds, and one page.

    python -m benchmarks.strangers_comparison [--losses mnpo dpo ipo] [--seeds 0 1] [--small]
        [--out DIR] [--json benchmarks/results/strangers_comparison.json]

Everything goes through the installed command, from an empty folder: a run a loss and seed, a file of
questions that no run has seen, `equipoise compare` over all of them with replicates, and the same
again, which must ask nothing anew. Printed are the verdicts, the size of the page and the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.running import write_results

COMMAND = Path(sys.executable).with_name("equipoise")
LARGEST_PAGE = 1_500_000  # bytes
SMALL = ("-s", "generations=1", "-s", "prompts.per_generation=60", "-s", "prompts.held_out=30")
SET = (
    "{kind: prompts, prompts: {kind: clerk_questions, count: 1, test: 60, seed: 77}, judge: clerk}"
)


def call(place: Path, *arguments: str) -> tuple[str, float]:
    """The standard output of a command in a folder, and its seconds. Raises where it fails."""
    started = time.perf_counter()
    done = subprocess.run(
        [str(COMMAND), *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"equipoise {' '.join(arguments)}\n{done.stderr}")
    return done.stdout, seconds


def researchers_way(
    place: Path, losses: Sequence[str], seeds: Sequence[int], more: Sequence[str]
) -> dict[str, Any]:
    """The facts of the comparison, the page's bytes and the seconds of both comparisons."""
    for loss in losses:
        for seed in seeds:
            folder = f"runs/{loss}-{seed}"
            call(
                place, "run", "quickstart", "-s", f"loss={loss}", "-s", f"seed={seed}", *more,
                "--out", folder,
            )  # fmt: skip
    targets = [f"{loss}=runs/{loss}-*" for loss in losses]
    asked = ("compare", *targets, "start=builtin/beginner", "--on", f"unseen={SET}", "--json")
    text, first_seconds = call(place, *asked, "--out", "page.html")
    again, second_seconds = call(place, *asked, "--out", "again.html")
    facts = json.loads(text)
    repeated = json.loads(again)
    return {
        "comparison": facts,
        "same": facts["differences"] == repeated["differences"],
        "bytes": (place / "page.html").stat().st_size,
        "seconds": [round(first_seconds, 1), round(second_seconds, 1)],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what came of it; exit with 1 where the page is too large or the numbers change."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", nargs="+", default=["mnpo", "dpo", "ipo"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--small", action="store_true", help="one generation of few prompts")
    parser.add_argument("--out", type=Path, help="keep the runs and the page here")
    parser.add_argument("--json", type=Path, help="write what was measured here")
    o = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="comparison-") as spare:
        place = (o.out or Path(spare)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        outcome = researchers_way(place, o.losses, o.seeds, SMALL if o.small else ())
    if o.json:
        kept = [str(Path(path).name) for path in outcome["comparison"].pop("kept")]
        outcome["comparison"].pop("page")
        figures = {**outcome, "kept": kept}
        write_results(o.json, figures, losses=o.losses, seeds=o.seeds, small=o.small)
    for each in outcome["comparison"]["differences"]:
        print(
            f"{each['first']} - {each['second']}: {each['difference']:+.3f} "
            f"({each['low']} to {each['high']}), {each['items']} prompts, {each['verdict']}"
        )
    for note in outcome["comparison"]["notes"]:
        print(f"note: {note}")
    print(f"page: {outcome['bytes']:,} bytes; compared in {outcome['seconds']} seconds")
    sys.exit(not (outcome["same"] and outcome["bytes"] < LARGEST_PAGE))


if __name__ == "__main__":
    main()
