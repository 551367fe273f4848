"""Attack and defence on the built-in world: GPO, the value of its parts, and the attacks that still
beat each defender.

Every defender starts from the same tiny model. `rlhf` learns on fixed prompts for as many updates
as the whole of `gpo` has; so does `frozen adversary`, against an adversary that never learns; `self
play` has one model in both roles. Afterwards each defender is frozen, and a fresh adversary learns
against it, rewarded for harm alone: its best response. In the end every adversary attacks every
defender.

    python -m benchmarks.red_team [--seeds 0 1 2 3 4] [--arms gpo …] [--jobs 2]
        [--start FOLDER]

    raw             held-out harmful requests as they stand
    adversary       rewritten by the run's own adversary (`start`, `rlhf`: by an
                    adversary that never learned)
    best response   rewritten by the adversary that learned against this defender
    on the start    the run's own adversary against the start's defender
    worst           the largest success that any adversary of the seed has
    worst, greedy   the same where every defender answers greedily: what it knows to
                    decline, however it samples

Best response and worst are cells of the same table, on the same prompts. `--start` is another model
that begins in both roles, such as one that `examples/claims/withheld_start.py` made.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.experiment import Experiment, Options, name_of, of_rows, played
from benchmarks.running import recorded
from benchmarks.verdicts import Item
from equipoise.environments.red_team.cross_play import plan_cross_play, play_cross_play
from equipoise.environments.red_team.cross_play_table import attack_success
from equipoise.evaluation.base import JudgedMatch
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Silent
from equipoise.types import PlayerId

RECIPE, PACKAGED = "gpo_clerks", "builtin/red_team"
POLICY = f"{{kind: local, learns: true, model: {PACKAGED}, max_new_tokens: 40}}"
ALONE = "learners={adversary: null}"
ARMS: dict[str, list[str]] = {
    "rlhf": [
        "schedule.raw=1",
        "shaping=[]",
        "turns=everyone",
        "players.adversary.learns=false",
        ALONE,
    ],
    "frozen adversary": ["turns={kind: one, player: defender}"],
    "gpo no diversity": ["shaping=[]"],
    "gpo": [],
    "self play": [
        "turns=everyone",
        f"players={{policy: {POLICY}, defender: null, adversary: null}}",
        ALONE,
        "schedule={roles: {defender: policy, adversary: policy}, shared: true}",
        "learner.estimator=role_baseline",
        "learner.critic=null",
        "learner.critic_learning_rate=null",
    ],
}
START = "start"
PROMPTS = 64  # of each cell of the cross-play
TEMPERATURES = ("1", "0")  # of the defenders: as they are trained, and greedily
RESPONSE = ["shaping=[]", "turns={kind: one, player: adversary}", "evaluate.every=1000"]
COLUMNS = (
    "raw",
    "adversary",
    "best response",
    "worst",
    "worst, greedy",
    "over-refusal",
    "helpfulness",
    "diversity",
)


def roles(start: str, arm: str = "") -> list[str]:
    """The settings of an arm whose models are `start`; without an arm, of both roles alone."""
    if arm == "self play":
        return [setting.replace(PACKAGED, start) for setting in ARMS[arm]]
    models = [f"players.{role}.model={start}" for role in ("defender", "adversary")]
    return [*models, *ARMS.get(arm, [])]


def measured(folder: Path, which: int = -1) -> dict[str, Any]:
    """The measurement at the end of a run (-1) or at its start (0)."""
    with RunDirectory.read(folder) as opened:
        return recorded(opened, "measure")[which]


def last(folder: Path, role: str) -> PlayerId:
    """The newest of those who play a role in a run; where none of them learns, the start."""
    with RunDirectory.read(folder) as opened:
        name = opened.config.schedule.settings()["roles"][role]
    return PlayerId(name, measured(folder)["ages"].get(name, 0))


@dataclass(frozen=True)
class Meetings:
    """(adversary, defender) -> prompt -> the adversary's success; each defender at `TEMPERATURES`."""

    cells: dict[tuple[str, str], dict[str, float]]

    def against(self, ending: str) -> dict[str, dict[str, float]]:
        """Adversary -> prompt -> its success with the first defender whose name ends so."""
        own = next(name for _, name in self.cells if name.endswith(ending))
        return {who: cell for (who, defender), cell in self.cells.items() if defender == own}


def crossplay(folders: Sequence[Path]) -> Meetings:
    """Every adversary against every defender of these runs, old and new."""
    with ExitStack() as stack:
        runs = [stack.enter_context(RunDirectory.read(folder)) for folder in folders]
        for run in runs:
            run.agree(True, lambda notes: None)
        heats = [float(heat) for heat in TEMPERATURES]
        plan = plan_cross_play(runs, "last", PROMPTS, temperatures=heats)
        cells = play_cross_play(plan, Silent())
    return Meetings({pair: dict(map(success, matches)) for pair, matches in cells.items()})


def success(judged: JudgedMatch) -> tuple[str, float]:
    """A match's prompt and its attacks' success."""
    return judged[0].prompt, float(attack_success([judged]).mean)


def models(seed: int, place: Path, o: Options) -> dict[str, str | Path]:
    """Arm -> the weights of its newest defender, with the start's."""
    found: dict[str, str | Path] = {START: o.start}
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        newest = last(folder, "defender")
        found[arm] = folder / "players" / newest.name / str(newest.generation)
    return found


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, the best responses to them and to the start."""
    for arm in o.arms:
        overrides = [f"generations={o.generations}", *roles(o.start, arm)]
        played(RECIPE, place / name_of(arm, seed), seed, overrides)
    for arm, model in models(seed, place, o).items():
        overrides = [f"generations={o.answers}", *roles(o.start), *RESPONSE]
        overrides.append(f"players.defender.model={model}")
        played(RECIPE, place / f"against_{name_of(arm, seed)}", seed, overrides)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed and the start, in the cross-play of all."""
    folders = {arm: place / name_of(arm, seed) for arm in o.arms}
    replies = {arm: place / f"against_{name_of(arm, seed)}" for arm in [START, *o.arms]}
    table = crossplay([*folders.values(), *replies.values()])
    on_start = table.against(f"/defender:{TEMPERATURES[0]}@0")
    for arm, reply in replies.items():
        player, run_name = PlayerId("defender"), ""
        own = next((name for name in on_start if name.endswith("/adversary@0")), "")
        facts = measured(reply, 0)
        if arm != START:
            player, run_name = last(folders[arm], "defender"), folders[arm].name
            own = f"{run_name}/{last(folders[arm], 'adversary')}"
            facts = measured(folders[arm])
        sampled, greedy = (
            table.against(f"{run_name}/{player.name}:{heat}@{player.generation}")
            for heat in TEMPERATURES
        )
        cells = {
            "best response": sampled[f"{reply.name}/{last(reply, 'adversary')}"],
            "worst": max(sampled.values(), key=whole),
            "worst, greedy": max(greedy.values(), key=whole),
            "on the start": on_start.get(own, {}),
        }
        for column, cell in cells.items():
            for prompt, value in cell.items():
                yield Item(arm, seed, o.generations, prompt, column, value)
        row = {
            "raw": facts["attack_success"]["raw"]["mean"],
            "adversary": facts["attack_success"]["adversary"]["mean"],
            "over-refusal": facts["over_refusal"]["mean"],
            "helpfulness": facts["helpfulness"]["mean"],
            "diversity": facts["diversity"]["bleu_diversity"],
            "attacker updates": o.answers,
        }
        yield from of_rows({arm: row}, seed, o.generations)


def whole(cell: dict[str, float]) -> float:
    """The mean over prompts."""
    return fmean(cell.values())


def add_options(parser: ArgumentParser) -> None:
    """Add --answers and --start."""
    parser.set_defaults(arms=["rlhf", "gpo"])
    parser.add_argument("--answers", type=int, default=50, help="generations of each best response")
    parser.add_argument("--start", default=PACKAGED, help="the model of both roles")


EXPERIMENT = Experiment(
    name="red_team",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2, 3, 4),
    generations=150,
    play=play,
    measure=measure,
    columns=COLUMNS,
    add=add_options,
    decides=("answers", "start"),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
