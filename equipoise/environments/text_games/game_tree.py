"""A whole small game of OpenSpiel, and policies of language models at all its information states.

Shapes: S information states of all players, F moves at them (in a row, state by state), Z ends of
the game, P players, N policies. A policy is a vector [F] of probabilities that add up to 1 at each
state. A move's is that of its text as the whole answer, the turn's end included, at temperature 1,
renormalised over the legal moves; the rest up to 1 is the mass on other answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from equipoise.environments.text_games.open_spiel import OpenSpiel, pyspiel
from equipoise.errors import ConfigError
from equipoise.types import Message, View

Answer = tuple[tuple[Message, ...], str]  # a chat and an answer to it


class InformationState(NamedTuple):
    """All that one player can know at one of its turns.

    The library's name for it, the player's view, the library's numbers of its moves in the order of
    the view's `actions`, and the first one's place in a policy.
    """

    key: str
    player: int
    view: View
    moves: tuple[int, ...]
    first: int


@dataclass(frozen=True)
class GameTree:
    """The game, written down.

    path_ZPD: the places in a policy of each player's moves to an end; F, of which a policy's
    probability counts 1, where there are no more. path_SD: likewise of a player's own moves to an
    information state. chance_Z: the probability that chance allows an end; utility_ZP: its
    pay-offs.
    """

    game: OpenSpiel
    states: list[InformationState]
    state_F: np.ndarray
    path_SD: np.ndarray
    path_ZPD: np.ndarray
    chance_Z: np.ndarray
    utility_ZP: np.ndarray

    @classmethod
    def of(cls, game: OpenSpiel, most: int) -> GameTree:
        """The tree. ConfigError beyond `most` positions, without perfect recall, or leaky views."""
        return _Walk(game, most).tree()

    def uniform(self) -> np.ndarray:
        """Every legal move is as likely as any other: [F]."""
        return 1 / np.bincount(self.state_F)[self.state_F]

    def normalise(self, weight_F: np.ndarray) -> np.ndarray:
        """Weights of moves as probabilities: [F]."""
        return weight_F / np.bincount(self.state_F, weight_F)[self.state_F]

    def reach(self, policy_F: np.ndarray) -> np.ndarray:
        """Probability that the policy's own moves lead to each information state: [S]."""
        return np.append(policy_F, 1.0)[self.path_SD].prod(-1)

    def mixture(self, policy_NF: np.ndarray, weight_N: np.ndarray) -> np.ndarray:
        """The behaviour policy that plays as one of these policies does, drawn by weight before the
        game begins: [F].

            p(a | s) = Σ_n w_n reach_n(s) p_n(a | s) / Σ_n w_n reach_n(s)

        A plain mean of probabilities plays another game, since policies reach a state unequally
        often; it stands only where none of them gets. Source: Kuhn 1953, realisation equivalence;
        fictitious self-play, Heinrich et al. 2015, eq. 1.
        """
        weight_N = np.asarray(weight_N, float) / np.sum(weight_N)
        reach_NS = np.stack([self.reach(policy_F) for policy_F in policy_NF])
        weight_NS = weight_N[:, None] * reach_NS
        weight_NS[:, weight_NS.sum(0) <= 0] = weight_N[:, None]
        mixture_F = (weight_NS[:, self.state_F] * np.asarray(policy_NF)).sum(0)
        return self.normalise(mixture_F)

    def reach_ends(self, policy_F: np.ndarray) -> np.ndarray:
        """Probability that each player's own moves lead to each end: [P, Z]."""
        return np.append(policy_F, 1.0)[self.path_ZPD].prod(-1).T

    def values(self, profile: Sequence[np.ndarray]) -> np.ndarray:
        """Pay-offs of the players when player p plays profile[p]: [P]."""
        likely_Z = self.chance_Z.copy()
        for player, policy_F in enumerate(profile):
            likely_Z *= self.reach_ends(policy_F)[player]
        return likely_Z @ self.utility_ZP

    def payoffs(self, policy_NF: Sequence[np.ndarray]) -> np.ndarray:
        """payoff_NN of a game of two: the mean of both seatings, in the game's units."""
        assert self.utility_ZP.shape[1] == 2, "only two can meet in a table"
        reach_NPZ = np.stack([self.reach_ends(policy_F) for policy_F in policy_NF])
        first_NZ = reach_NPZ[:, 0]
        second_NZ = reach_NPZ[:, 1]
        as_first_NN = (first_NZ * self.chance_Z * self.utility_ZP[:, 0]) @ second_NZ.T
        as_second_NN = (second_NZ * self.chance_Z * self.utility_ZP[:, 1]) @ first_NZ.T
        return (as_first_NN + as_second_NN) / 2

    def nash_conv(self, profile: Sequence[np.ndarray]) -> float:
        """Σ of the players' gains by a best reply (OpenSpiel's), in the game's units.

        profile: the policy of each player, which may be one for all.
        """
        table = {}
        for state in self.states:
            policy_F = profile[state.player]
            chosen = policy_F[state.first : state.first + len(state.moves)].tolist()
            table[state.key] = list(zip(state.moves, chosen, strict=True))
        return float(pyspiel().nash_conv(self.game.spiel, table))


@dataclass
class _Walk:
    game: OpenSpiel
    most: int
    known: dict[str, int] = field(default_factory=dict)
    states: list[InformationState] = field(default_factory=list)
    own_paths: list[tuple[int, ...]] = field(default_factory=list)
    ends: list[list[tuple[int, ...]]] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    utilities: list[list[float]] = field(default_factory=list)
    places: int = 0  # moves at the states so far
    positions: int = 0

    def tree(self) -> GameTree:
        if not self.game.spiel.get_type().provides_information_state_string:
            raise ConfigError(
                f"{self.game.name}: OpenSpiel does not say what its players know, so "
                "exploitability cannot be computed"
            )
        self._visit(self.game.spiel.new_initial_state(), 1.0, [()] * self.game.players)
        sizes = [len(state.moves) for state in self.states]
        ends: list[tuple[int, ...]] = []
        for paths in self.ends:
            ends.extend(paths)
        return GameTree(
            self.game,
            self.states,
            np.repeat(np.arange(len(sizes)), sizes),
            self._pad(self.own_paths),
            self._pad(ends).reshape(len(self.ends), self.game.players, -1),
            np.array(self.chances),
            np.array(self.utilities),
        )

    def _visit(self, state: Any, chance: float, paths: Sequence[tuple[int, ...]]) -> None:
        self.positions += 1
        if self.positions > self.most:
            raise ConfigError(
                f"{self.game.name}: has more than {self.most:,} positions, too many to "
                "read off a policy at all of them; raise `largest`, or measure it by "
                "matches"
            )
        if state.is_terminal():
            self.ends.append(list(paths))
            self.chances.append(chance)
            self.utilities.append(state.returns())
        elif state.is_chance_node():
            for outcome, probability in state.chance_outcomes():
                self._visit(state.child(outcome), chance * probability, paths)
        else:
            player = state.current_player()
            at = self.states[self._number(state, player, paths[player])]
            for place, move in enumerate(at.moves):
                path = (*paths[player], at.first + place)
                further = [*paths[:player], path, *paths[player + 1 :]]
                self._visit(state.child(move), chance, further)

    def _number(self, state: Any, player: int, path: tuple[int, ...]) -> int:
        key = state.information_state_string(player)
        if key not in self.known:
            view = self.game.view(state)
            moves = tuple(self.game.legal_moves(state).values())
            self.known[key] = len(self.states)
            self.states.append(InformationState(key, player, view, moves, self.places))
            self.own_paths.append(path)
            self.places += len(moves)
        number = self.known[key]
        if self.own_paths[number] != path:
            raise ConfigError(
                f"{self.game.name}: its players forget what they did, and a best reply "
                "to such players cannot be computed"
            )
        if self.states[number].view != self.game.view(state):
            raise ConfigError(f"{self.game.name}: what a player is shown says more than it knows")
        return number

    def _pad(self, paths: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Paths of equal length, [rows, D]; the place behind the last move fills up."""
        depth = max(1, max(map(len, paths), default=0))
        padded_rows = np.full((len(paths), depth), self.places)
        for row, path in zip(padded_rows, paths, strict=True):
            row[: len(path)] = path
        return padded_rows


class ReadPolicy(NamedTuple):
    """policy_F: of the legal moves, renormalised; illegal_S: the mass on other answers."""

    policy_F: np.ndarray
    illegal_S: np.ndarray


class TreeQuestions(NamedTuple):
    """Questions to a model: `answers`, each once, and place_F, their index by place."""

    answers: list[Answer]
    place_F: np.ndarray

    @classmethod
    def of(cls, tree: GameTree) -> TreeQuestions:
        """All moves at all states; states with the same view are read once."""
        write = tree.game.answer_form.write
        places: dict[Answer, int] = {}
        place_F = []
        for state in tree.states:
            for move in state.view.actions:
                answer = (state.view.messages, write(move))
                place_F.append(places.setdefault(answer, len(places)))
        return cls(list(places), np.array(place_F))

    def policy(self, tree: GameTree, logprobs: Sequence[float]) -> ReadPolicy:
        """The policy of a model that gives the answers these log-probabilities, in nats."""
        logprob_F = np.asarray(logprobs, float)[self.place_F]
        # as large as they can be, so that the least probable moves are no 0/0
        highest_S = np.full(len(tree.states), -np.inf)
        np.maximum.at(highest_S, tree.state_F, logprob_F)
        policy_F = tree.normalise(np.exp(logprob_F - highest_S[tree.state_F]))
        legal_S = np.bincount(tree.state_F, np.exp(logprob_F))
        return ReadPolicy(policy_F, np.clip(1 - legal_S, 0, 1))


def game_tree(game: OpenSpiel, most: int) -> GameTree:
    """The game's tree, made once. Raises ConfigError as `GameTree.of` does."""
    return _game_tree(game.model_dump_json(), most)


@lru_cache(maxsize=2)
def _game_tree(settings: str, most: int) -> GameTree:
    return GameTree.of(OpenSpiel.model_validate_json(settings), most)
