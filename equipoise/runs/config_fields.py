"""What a run's configuration holds, and what follows from it for each player and generation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise.component import Settings
from equipoise.data.base import PairMaker
from equipoise.data.normalising import Normalising
from equipoise.data.shaping import Shaping
from equipoise.data.truncation import Truncated
from equipoise.evaluation.base import Evaluation
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.learners.base import Learner
from equipoise.losses.base import PreferenceLoss
from equipoise.matches.base import Schedule
from equipoise.players.base import Player
from equipoise.prompts.base import Prompts
from equipoise.ratings.base import Ratings
from equipoise.runs.executors.base import Executor
from equipoise.runs.schedules import Schedule as GenerationSchedule
from equipoise.runs.schedules import at
from equipoise.runs.turns import Turns
from equipoise.solvers.base import Solver


class RunFields(Settings):
    """The settings of a run, and what they say of its players."""

    name: str = Field("run", min_length=1, description="the run's title, in reports and trackers")
    seed: int = Field(0, ge=0, description="the one seed; every choice derives its own from it")
    generations: int = Field(
        3, ge=0, description="turns of the loop; 0: the players are only measured"
    )
    players: dict[str, Player] = Field(
        min_length=1, description="name -> player; those with `learns` are trained"
    )
    prompts: Prompts
    game: Game
    schedule: Schedule = Field(default="self_play")  # type: ignore[assignment]
    judge: Judge
    judges: dict[str, Judge] = Field(
        default_factory=dict, description="learner -> the judge that teaches it in place of `judge`"
    )
    max_unjudged: float = Field(
        0.2, ge=0, le=1, description="a stage with a larger unjudged share stops the run"
    )
    utility: str = Field("score", description="the one of the judge's utilities that is played for")
    training_ratings: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the players by their matches, for schedules, for peers' "
        "weights and for the report",
    )
    training_matches: Literal["all", "own"] = Field(
        "all", description="a learner is taught by all matches, or by those it played in itself"
    )
    pairs: PairMaker = Field(default="best_worst")  # type: ignore[assignment]
    truncated: Truncated = Field(
        "keep",
        description="answers that were cut at max_new_tokens. keep: learned from "
        "without an end token, which they never sampled; drop: not learned from; "
        "keep_with_end: learned from as if they had ended",
    )
    shaping: tuple[Shaping, ...] = Field(
        (), description="added to the rewards of episodes: diversity, penalties"
    )
    normalise: Normalising = Field(
        default_factory=lambda: Normalising.model_validate({}),
        description="how rewards of episodes from several data sources are made comparable",
    )
    learner: Learner | None = Field(
        None, description="trains the players that learn; null where nobody does"
    )
    learners: dict[str, Learner] = Field(
        default_factory=dict,
        description="learner -> its own trainer; settings that it leaves out are "
        "those of `learner`",
    )
    turns: Turns = Field(default="everyone", description="who learns in which generation")  # type: ignore[assignment]
    loss: PreferenceLoss | None = None
    by_generation: dict[str, dict[str, GenerationSchedule]] = Field(
        default_factory=dict,
        description="part (loss, learner, learners.NAME) -> numeric setting -> "
        "generation -> its value from there on; `loss: {ratio: {0: 0.3, 2: 0.8}}` is "
        "short for it",
    )
    evaluate: Evaluation = Field(default="held_out")  # type: ignore[assignment]
    solver: Solver = Field(default="zero_sum")  # type: ignore[assignment]
    league_ratings: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the league, every generation of every player, by the held-out pay-offs",
    )
    keep: Literal["all"] | int = Field(
        "all", description="generations whose weights stay: all, or the newest n"
    )
    commit_every: int = Field(
        256, ge=1, description="matches played and recorded together; also the unit of resuming"
    )
    ledger: str | None = Field(
        None,
        description="the ledger's file, where it is to lie on a disk of this machine "
        "apart from the weights; null: in the run's folder",
    )
    executor: Executor = Field(
        default="local",  # type: ignore[assignment]
        description="where sampling, log-probabilities, model judges and training are "
        "computed: local, {processes: n}, ray",
    )
    unit_rows: int = Field(
        256,
        ge=1,
        description="rows of a unit of model work; the same for every executor, since "
        "a unit's rows are computed together",
    )
    report_to: tuple[Literal["trackio", "wandb", "tensorboard", "mlflow"], ...] = Field(
        (), description="trackers"
    )

    def judge_of(self, player: str) -> Judge:
        """The judge that teaches a player, by the player's name."""
        return self.judges.get(player, self.judge)

    def learner_of(self, player: str) -> Learner:
        """What trains a player, by the player's name."""
        trainer = self.learners.get(player, self.learner)
        assert trainer is not None, f"nothing trains {player}"
        return trainer

    @property
    def _trainer_kind(self) -> str:
        """What messages call the learner."""
        return "none" if self.learner is None else self.learner.kind

    @property
    def measured(self) -> list[str]:
        """The names of the players that are measured: those that learn, or everybody where nobody
        does.
        """
        return self.learning or list(self.players)

    @property
    def measuring_judge(self) -> Judge:
        """The judge whose scores are measured, of the first player where several are."""
        return self.evaluate.judge or self.judge_of(self.measured[0])

    def loss_at(self, t: int) -> PreferenceLoss | None:
        """The loss of generation t."""
        if self.loss is None:
            return None
        return at(self.loss, self.by_generation.get("loss", {}), t)

    def learner_at(self, player: str, t: int) -> Learner:
        """What trains a player in generation t, by the player's name."""
        part = f"learners.{player}" if player in self.learners else "learner"
        return at(self.learner_of(player), self.by_generation.get(part, {}), t)

    @property
    def playing(self) -> dict[str, Player]:
        """The players as they play: those that learn in their learner's precision."""
        return {
            name: player.carrying(self.learner_of(name).on(player).carried_precision())
            if player.learns
            else player
            for name, player in self.players.items()
        }

    @property
    def learning(self) -> list[str]:
        """The names of the players that learn, in order."""
        return [name for name, player in self.players.items() if player.learns]

    def plays(self, t: int) -> bool:
        """Whether generation t has matches; not where the data brings all that it teaches."""
        trainers = map(self.learner_of, self.learning)
        by_pairs = all(trainer.needs in ("pairs", "answers") for trainer in trainers)
        return not by_pairs or self.pairs.plays(t)
