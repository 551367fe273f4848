"""Train an attacker of a judge: a run of a small learner whose reward is that judge alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.answer import answer_of
from equipoise.api import functions as door
from equipoise.api.handle import Run
from equipoise.api.measure_sets import model_settings
from equipoise.errors import ConfigError
from equipoise.evaluation.attacked_judge import Truth, Votes
from equipoise.evaluation.trained_attacker import TrainedAttack, trained_attack
from equipoise.judges.base import Judge
from equipoise.judges.no_tricks import NoTricks
from equipoise.judges.outside_a_run import place_judge
from equipoise.models.loading import describe
from equipoise.planning.first_recipe import ADAPTER, peak_rate
from equipoise.prompts.base import Prompts
from equipoise.report.best_responses import EXPLOITER
from equipoise.report.history import history
from equipoise.report.history import prompts as prompts_of
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.types import PlayerId, record_id

KEPT = Path("runs", "attack-judge")
LORA = {"r": 16, "alpha": 32}
MEASUREMENTS = 4  # beside the start's
HELD_OUT = 32  # most prompts on which gains are measured, and at most a third of all


@dataclass(frozen=True)
class AttackerTraining:
    """The training of attackers from one model, each against a judge.

    `count` is that of all prompts; `gate` is fitted to honest answers; the runs lie below `keep`.
    """

    prompts: Any
    count: int
    model: str
    updates: int
    truth: Truth
    gate: NoTricks
    player_settings: recipe_loader.Overrides = ()
    train_settings: recipe_loader.Overrides = ()
    keep: Path = KEPT
    progress: bool = False

    def recipe(self, judge: Judge) -> dict[str, Any]:
        """The recipe of an attacker: policy gradients of whole groups, for the judge's score alone.

        There is no pull to the start (`kl`), since whatever pays is to be found. Raises
        ConfigError.
        """
        player = dict(model_settings(self.model, self.player_settings)["players"])
        (values,) = player.values()
        if values["kind"] != "local":
            raise ConfigError(
                f"--updates: the model {self.model} is served elsewhere, where it cannot be "
                "trained; name a model's folder, hub id or packaged name"
            )
        size = describe(str(values["model"])).parameters
        if size >= ADAPTER:
            values.setdefault("lora", LORA)
        source: dict[str, Any] = {"kind": "files", "path": str(self.prompts)}
        if isinstance(self.prompts, Prompts):
            source = recipe_loader.plain_values(self.prompts)
        elif not isinstance(self.prompts, str | Path):
            source = {"kind": "given", "rows": recipe_loader.plain_values(self.prompts)}
        recipe: dict[str, Any] = {
            "name": f"attack on {judge.title}",
            "generations": self.updates,
            "players": {EXPLOITER: {**values, "learns": True}},
            "prompts": {
                **source,
                "per_generation": 16,
                "held_out": max(2, min(HELD_OUT, self.count // 3)),
                "shrink": True,
                "reuse": True,
            },
            "game": {"kind": "answers", "samples": 8},
            "judge": recipe_loader.plain_values(judge),
            "learner": {
                "kind": "policy_gradient",
                "estimator": "group_relative",
                "learning_rate": peak_rate(size, values.get("lora") is not None),
                "warmup_steps": 0,
                "kl": 0.0,
            },
            "evaluate": {
                "kind": "held_out",
                "every": max(1, self.updates // MEASUREMENTS),
                "samples": 1,
            },
            "keep": 1,
        }
        recipe_loader.override(recipe, self.train_settings)
        return recipe

    def against(self, title: str, judge: Judge) -> TrainedAttack:
        """Train an attacker against a judge and measure what its answers gained.

        The run lies under a name of its settings: the same call goes on with it. Raises what a run
        raises.
        """
        if isinstance(self.truth, Votes):
            raise ConfigError(
                "--updates: people have not voted on what an attacker will answer; give --truth a "
                "judge, or likeness"
            )
        recipe = self.recipe(judge)
        folder = self.keep / record_id(title, repr(recipe))
        if is_run(folder):
            Run(folder, trust=True).resume(progress=self.progress)
        else:
            door.run(recipe, out=folder, progress=self.progress)
        placed = place_judge(judge, "attack-judge")
        with RunDirectory.read(folder, True) as run:
            texts, tokens = answers_by_generation(run)
            known = prompts_of(run, set().union(*texts.values()))
        place = str(folder)
        return trained_attack(title, placed, self.truth, self.gate, texts, tokens, known, place)


def answers_by_generation(run: RunDirectory) -> tuple[dict[int, dict[str, str]], dict[int, int]]:
    """The attacker's held-out answers by measured generation, and the tokens sampled until each."""
    texts: dict[int, dict[str, str]] = {}
    for measurement in history(run).measurements:
        t = measurement.generation
        player = PlayerId(EXPLOITER, t)
        own: dict[str, str] = {}
        for match in run.ledger.matches("held_out", t):
            turns = match.last_turns()
            for seat, seated in match.seats.items():
                if seated == player and match.prompt not in own and seat in turns:
                    own[match.prompt] = answer_of(turns[seat].move).text
        texts[t] = own
    spent = 0
    tokens: dict[int, int] = {0: 0}
    for t in range(run.config.generations):
        spent += sampled_tokens(run, t)
        tokens[t + 1] = spent
    return texts, tokens


def sampled_tokens(run: RunDirectory, t: int) -> int:
    """The tokens of all training answers of a generation."""
    total = 0
    for match in run.ledger.matches("train", t):
        total += sum(turn.move.tokens for turn in match.turns)
    return total
