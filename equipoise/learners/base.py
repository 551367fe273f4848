"""The base of learners, which make a player's next generation from a training batch."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from equipoise.component import Component
from equipoise.data.joined_pairs import JoinedPairs
from equipoise.games.base import Game
from equipoise.learners.launch import Launch
from equipoise.losses.base import PreferenceLoss
from equipoise.matches.base import Schedule
from equipoise.models.resources import Resources
from equipoise.players.base import Player, Precision
from equipoise.types import Episode, Pair, PlayerId, Turn

FEW_STEPS = 50
"""Optimizer steps below which a language model hardly moves."""


class OtherPlayer(NamedTuple):
    """Another player of the run, and the folder of its generation; None: as it was given."""

    player: Player
    weights: Path | None


class Standing(Protocol):
    """Processes that stay from training to training."""

    def learn(self, learner: "Learner", launch: Launch, batch: "TrainingBatch") -> dict[str, float]:
        """`learner.learn(batch)`, computed by them."""
        ...


@dataclass(frozen=True)
class TrainingBatch:
    """Everything that is needed to make the next generation of `learner`.

    learner: the player that learns, at the generation that it is in; `player` is its
        configuration.
    weights: the folder of that generation; None: as given.
    output: an empty folder to write the next generation into.
    scratch: a folder for checkpoints that outlives a crash.
    pairs: pairs of answers; SFT takes the better answers alone.
    opponents: the loss's opponents, with their weights.
    opponent_chosen_KB, opponent_rejected_KB: the sums of their token log-probabilities
        on the pairs' answers, in nats.
    past_weights: the folders of the learner's generations, newest first, for learners
        that need the policies themselves.
    other_players: the run's other players by name, as they were when this generation
        of the loop began, even if they have learned since.
    player_of_role: role -> the player that has it, where the schedule says so.
    mixture_of_role: role -> the opponents that the learner may meet in it, with weights,
        where the schedule draws them from a mixture.
    episodes, turns: the rewards of the learner's moves, and the moves.
    state: the folder of the state that a policy trainer takes up first, where other
        processes train and do not have it yet; `first_seed` is the seed of its first
        weights.
    launched: true in the processes that were started for this batch.
    standing: the processes of `launch` that stay from training to training; None: they are
        started for this one.
    resources: the models open in this process, to share a base with those who play.
    log: takes one line of metrics.
    """

    learner: PlayerId
    player: Player
    weights: Path | None
    output: Path
    scratch: Path
    seed: int
    game: Game
    loss: PreferenceLoss | None = None
    pairs: list[Pair] = field(default_factory=list)
    opponents: list[tuple[PlayerId, float]] = field(default_factory=list)
    opponent_chosen_KB: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    opponent_rejected_KB: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    past_weights: list[Path | None] = field(default_factory=list)
    other_players: dict[str, OtherPlayer] = field(default_factory=dict)
    player_of_role: dict[str, str] = field(default_factory=dict)
    mixture_of_role: dict[str, list[tuple[OtherPlayer, float]]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    state: Path | None = None
    first_seed: int = 0
    launched: bool = False
    standing: Standing | None = None
    resources: Resources = field(default_factory=Resources)
    log: Callable[[dict[str, Any]], None] = lambda line: None


class Learner(Component):
    """Trains a player.

    `needs` names its examples, so that the run prepares those and no more:

        game      the rules alone (exact gradients on a finite game)
        answers   the texts of the winners
        pairs     pairs, and the opponents' log-probabilities on them
        episodes  its own moves and their rewards
    """

    KINDS: ClassVar = {
        "tabular": "equipoise.learners.tabular_learner:TabularLearner",
        "proximal": "equipoise.learners.proximal:Proximal",
        "best_reply": "equipoise.learners.best_reply:BestReply",
        "sft": "equipoise.learners.sft_learner:SFT",
        "preference": "equipoise.learners.preference_learner:Preference",
        "policy_gradient": "equipoise.learners.policy_gradient_learner:PolicyGradient",
    }

    READ: ClassVar = ("needs", "by_loss")

    needs: ClassVar[Literal["game", "answers", "pairs", "episodes"]] = "pairs"
    by_loss: ClassVar[bool] = True
    """True if it minimises the run's `loss`, where it learns from pairs or from the game."""

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        """Reasons why it cannot train this player in this game, one message each."""
        return iter(())

    def faults_of_opponents(
        self, learner: str, players: Mapping[str, Player], schedule: Schedule, game: Game
    ) -> Iterator[str]:
        """Reasons why it cannot train `learner` against the players opposite, one message each."""
        return iter(())

    def notes(self) -> tuple[str, ...]:
        """Notes for a plan."""
        return ()

    def steps(self, examples: int) -> int:
        """The number of optimizer steps that learning from `examples` takes, over all processes."""
        return 1

    def share_of_outcome(self, later: int) -> float:
        """The share of an outcome paid to a move with `later` more by its seat."""
        return 1.0

    def joined_pairs(self) -> JoinedPairs | None:
        """The ways in which it reads pairs as plain text; None: by the chat template."""
        return None

    def carried_precision(self) -> Precision | None:
        """The precision in which its player has to play; None: that of the player's settings."""
        return None

    def resolve_auto(self, player: Player) -> Self:
        """Settle what is `auto`, for this player on its device. Raises ModelError."""
        return self

    def shared_key(self, player: Player) -> Hashable | None:
        """The key of a model shared with those who play, to be kept open; None for none."""
        return None

    def extra_bytes(self, parameters: int, adapter: bool) -> int:
        """Bytes kept besides a policy of so many parameters, gradients and optimizer."""
        return 0

    @abstractmethod
    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`; returns the training's summary."""
