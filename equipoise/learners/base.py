"""What a learner is: it makes of a player and a training batch the player's next generation, on
disk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.losses.base import PreferenceLoss
from equipoise.matches.base import Schedule
from equipoise.models.resources import Resources
from equipoise.players.base import Player, Precision
from equipoise.types import Episode, Pair, PlayerId, Turn


class OtherPlayer(NamedTuple):
    """Another player of the run, and the folder of the generation that it is in.

    `weights` is None where the player is as it was given.
    """

    player: Player
    weights: Path | None


@dataclass(frozen=True)
class TrainingBatch:
    """Everything that one learner needs to make the next generation of `learner`.

    learner: the player that learns, at the generation that it is in; `player` is its
        configuration.
    weights: the folder of that generation; None: as given.
    output: an empty folder to write the next generation into.
    scratch: a folder for checkpoints that outlives a crash.
    pairs: what is learned from pairs; SFT takes the better answers alone.
    opponents: those that the loss asked for, with their weights.
    opponent_chosen_KB, opponent_rejected_KB: the sums of their token log-probabilities
        on the pairs' answers, in nats.
    past_weights: the folders of the learner's generations, newest first, for learners
        that need the policies themselves.
    other_players: the run's other players by name, as they were when this generation
        of the loop began, even if they have learned since.
    player_of_role: role -> the player that has it, where the schedule says so.
    met: role -> whom the learner may meet in it, with weights, where the schedule draws
        opponents from a mixture.
    episodes, turns: what the learner's moves were paid, and the moves.
    state: the folder of the state that a policy trainer takes up first, where other
        processes train and do not have it yet; `first_seed` is what its first weights
        are drawn from.
    resources: what is open in this process, to share a base with those who play.
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
    met: dict[str, list[tuple[OtherPlayer, float]]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    state: Path | None = None
    first_seed: int = 0
    resources: Resources = field(default_factory=Resources)
    log: Callable[[dict[str, Any]], None] = lambda line: None


class Learner(Component):
    """Trains a player.

    `needs` is what it learns from, so that the run prepares that and no more:

        game      the rules alone (exact gradients on a finite game)
        answers   the texts of the winners
        pairs     pairs, and the opponents' log-probabilities on them
        episodes  its own moves and what they were paid
    """

    KINDS: ClassVar = {
        "tabular": "equipoise.learners.tabular:TabularLearner",
        "proximal": "equipoise.learners.proximal:Proximal",
        "best_reply": "equipoise.learners.best_reply:BestReply",
        "sft": "equipoise.learners.sft:SFT",
        "preference": "equipoise.learners.preference:Preference",
        "policy_gradient": "equipoise.learners.policy_gradient:PolicyGradient",
    }

    READ: ClassVar = ("needs", "by_loss")

    needs: ClassVar[Literal["game", "answers", "pairs", "episodes"]] = "pairs"
    by_loss: ClassVar[bool] = True
    """Whether it minimises the run's `loss`, where it learns from pairs or from the game."""

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        """What keeps it from training this player in this game, one message each."""
        return iter(())

    def faults_of_opponents(
        self, learner: str, players: Mapping[str, Player], schedule: Schedule, game: Game
    ) -> Iterator[str]:
        """What keeps it from teaching the player named `learner` against those of `players` whom
        the schedule seats opposite, one message each.
        """
        return iter(())

    def steps(self, examples: int) -> int:
        """How many optimizer steps learning from `examples` takes."""
        return 1

    def share_of_outcome(self, later: int) -> float:
        """What share of a match's outcome a move is paid that so many moves of the same seat
        follow.
        """
        return 1.0

    def carried_precision(self) -> Precision | None:
        """In which precision its player has to play, to be what was trained.

        None: whatever the player's own settings say.
        """
        return None

    def on(self, player: Player) -> Self:
        """With nothing left to `auto`, for this player on its device."""
        return self

    def shares(self, player: Player) -> Hashable | None:
        """The key of what it shares with those who play in this process, so that it is not let go
        before it trains.
        """
        return None

    def kept(self, parameters: int, adapter: bool) -> int:
        """Bytes that it keeps besides a policy of so many parameters, its gradients and its
        optimizer.
        """
        return 0

    @abstractmethod
    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`.

        Returns the numbers that sum the training up.
        """
