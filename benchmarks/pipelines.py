"""A release's pipeline beside ours, by execution: one made batch through both, stage by stage.

    python -m benchmarks.pipelines --release mnpo|sparta|gpo|gtalign CHECKOUT
        [--out FILE] [--golden FILE]

CHECKOUT is a checkout of the release; nothing is fetched. Its own files run as they stand, in a
process of their own, on a made batch; modules that are not installed or have lost a name since are
stood in for, and each such repair is named. Our side is the recipe `NAME_as_released`. The arrays
of each stage are compared number by number: token ids, labels, log-probabilities, the rows of each
iteration, grades, pairs, advantages, the checkpoint that is kept. A stage that differs says why,
and what that changes in a figure. `--golden` writes the release's arrays, as the tests keep them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.pipeline_stages import Comparison, golden
from benchmarks.running import RESULTS, write_results

RELEASES = {
    "mnpo": "smiles724/MNPO",
    "sparta": "yurujiang2003/sparta",
    "gpo": "ruizheng20/gpo",
    "gtalign": "ulab-uiuc/GTAlign",
}


def compare_release(release: str, checkout: Path, folder: Path) -> Comparison:
    """Both pipelines on the made batch of this release, which is written into `folder`."""
    module = importlib.import_module(f"benchmarks.pipeline_{release}")
    return module.compare(checkout, folder)


def show_comparison(comparison: Comparison) -> None:
    """Print a line for each stage, then what differs and the repairs."""
    table = Table("stage", "compared", "different", "largest difference", title="")
    for stage in comparison.stages:
        largest = f"{stage.largest:.1e}" if stage.largest else "0"
        table.add_row(stage.name, f"{stage.compared:,}", f"{stage.different:,}", largest)
    console = Console()
    console.print(table)
    for stage in comparison.stages:
        if stage.why:
            console.print(f"{stage.name}: {stage.why}; {stage.changes}", highlight=False)
    for repair in comparison.repairs:
        console.print(f"repaired in the release: {repair}", highlight=False)
    unexplained = [stage.name for stage in comparison.stages if stage.different and not stage.why]
    if unexplained:
        raise SystemExit(f"these stages differ, and nothing says why: {', '.join(unexplained)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="the release's folder")
    parser.add_argument("--release", required=True, choices=RELEASES)
    parser.add_argument("--out", type=Path, help="the raw result (benchmarks/results/…)")
    parser.add_argument("--golden", type=Path, help="where the release's arrays are to go")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    if not checkout.is_dir():
        raise SystemExit(f"{given.checkout}: no such folder; check out {RELEASES[given.release]}")
    with tempfile.TemporaryDirectory() as folder:
        comparison = compare_release(given.release, checkout, Path(folder))
    if given.golden:
        arrays = {name: value for name, value in comparison.released.items() if name != "repairs"}
        given.golden.write_text(json.dumps(golden(arrays), indent=None) + "\n")
    out = given.out or Path(RESULTS) / f"pipelines_{given.release}.json"
    write_results(out, comparison.figures(), release=RELEASES[given.release])
    show_comparison(comparison)


if __name__ == "__main__":
    main()
