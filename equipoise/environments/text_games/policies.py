"""The policy of a language model, read off at every information state of a small game.

A model's probability of a move is that of its text as the whole answer, the end of its turn
included: softmax of the logits at temperature 1, whatever the player samples with. At each state
the legal moves' probabilities are renormalised; what they lack of 1 is the mass on answers that are
no legal move written as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.environments.text_games.tree import GameTree
from equipoise.types import Message

Answer = tuple[tuple[Message, ...], str]  # a chat and an answer to it


class ReadPolicy(NamedTuple):
    """policy_F: probabilities of the legal moves, renormalised; illegal_S: the mass on other
    answers at each information state.
    """

    policy_F: np.ndarray
    illegal_S: np.ndarray


class Reading(NamedTuple):
    """What to ask a model: `answers`, each once, and which of them each place in a policy is,
    place_F.
    """

    answers: list[Answer]
    place_F: np.ndarray

    @classmethod
    def of(cls, tree: GameTree) -> Reading:
        """All moves at all states; states that are asked alike are read once."""
        write = tree.game.answer_form.write
        places: dict[Answer, int] = {}
        place_F = [
            places.setdefault((state.view.messages, write(move)), len(places))
            for state in tree.states
            for move in state.view.actions
        ]
        return cls(list(places), np.array(place_F))

    def policy(self, tree: GameTree, logprobs: Sequence[float]) -> ReadPolicy:
        """The policy of a model that gives the answers these log-probabilities, in nats."""
        logprob_F = np.asarray(logprobs, float)[self.place_F]
        # as large as they can be, so that the least probable moves are no 0/0
        highest_S = np.full(len(tree.states), -np.inf)
        np.maximum.at(highest_S, tree.state_F, logprob_F)
        policy_F = tree.normalised(np.exp(logprob_F - highest_S[tree.state_F]))
        legal_S = np.bincount(tree.state_F, np.exp(logprob_F))
        return ReadPolicy(policy_F, np.clip(1 - legal_S, 0, 1))


def written_down(game: OpenSpiel, most: int) -> GameTree:
    """The game's tree, made once. Raises ConfigError as `GameTree.of` does."""
    return _written_down(game.model_dump_json(), most)


@lru_cache(maxsize=2)
def _written_down(settings: str, most: int) -> GameTree:
    return GameTree.of(OpenSpiel.model_validate_json(settings), most)
