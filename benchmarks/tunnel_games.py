"""The exact games of the wind tunnel, many of a family at once.

A rule sees a game as rows: one row for each place at which somebody decides, in each of the games
of a batch. It may ask what every action of every row gains against the policies of all rows, in
units of the whole range of the pay-offs (so a probability to win, where the pay-off is one). The
gap is what a best reply gains in the same unit, the mean over the players; 0 at an equilibrium.

G games, R rows (games times places), A actions, C criteria. Log-probabilities of actions that a
row does not have are `ABSENT`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit, logsumexp

from benchmarks.cyclic_preferences import game as preference_game
from equipoise import seeds
from equipoise.environments.text_games.game_tree import GameTree, game_tree
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.solvers.zero_sum import nash

ABSENT = -1000.0
ACTIONS = 9
CRITERIA = 3


def normalised(logit_RA: np.ndarray) -> np.ndarray:
    """Log-probabilities of logits; what a row does not have stays `ABSENT`.

    >>> np.exp(normalised(np.log([[1.0, 3.0]]))).round(2)
    array([[0.25, 0.75]])
    """
    log_RA = logit_RA - logsumexp(logit_RA, axis=1, keepdims=True)
    return np.maximum(log_RA, ABSENT)


class Games(ABC):
    """A batch of games of one family.

    evaluations: what was asked of it, which is at most `budget`. records: the newest questions with
    their answers, which are not asked again, as a run reads its recorded judgements.
    """

    start_RA: np.ndarray
    """The log-probabilities from which every rule begins."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.budget = 1
        self.records: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def time(self) -> float:
        """The share of the budget that is spent."""
        return min(1.0, self.evaluations / self.budget)

    def wins(self, log_RA: np.ndarray) -> np.ndarray:
        """The gain of every action against these policies, [R, A], in [0, 1]. One evaluation, but
        none of policies that it was asked about lately.
        """
        for asked_RA, gain_RA in self.records:
            if np.array_equal(asked_RA, log_RA):
                return gain_RA
        gain_RA = self.gains(log_RA)
        self.evaluations += 1
        self.records = [*self.records[-1:], (log_RA, gain_RA)]
        return gain_RA

    def criteria(self, log_RA: np.ndarray) -> np.ndarray:
        """The gains by each criterion apart, [C, R, A]. One evaluation; most games have one."""
        gain_CRA = self.criteria_gains(log_RA)
        self.evaluations += 1
        return gain_CRA

    def pairs(self, log_RA: np.ndarray) -> np.ndarray:
        """P(the row's action a is preferred to its action b), [R, A, A]. One evaluation.

        Of two actions that are not compared with each other but each paid by win or loss, the one
        that wins alone is preferred and otherwise a coin: ½ + (gain_a − gain_b)/2.
        """
        gain_RA = self.wins(log_RA)
        return 0.5 + (gain_RA[:, :, None] - gain_RA[:, None, :]) / 2

    def criteria_gains(self, log_RA: np.ndarray) -> np.ndarray:
        """As `criteria`, without counting."""
        return self.gains(log_RA)[None]

    @abstractmethod
    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        """As `wins`, without counting."""

    @abstractmethod
    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        """How far the policies are from an equilibrium of the game, [G]."""

    def average(self, log_TRA: Sequence[np.ndarray]) -> np.ndarray:
        """The policy of a player who draws one of these beforehand, [R, A]."""
        return np.exp(log_TRA).mean(axis=0)

    def support(self) -> np.ndarray | None:
        """True for the actions that an equilibrium plays, [R, A]; None where it is not known."""
        return None


class Preferences(Games):
    """One policy meets itself: win_GAA[g, a, b] = P(a beats b)."""

    def __init__(self, win_GAA: np.ndarray, start_GA: np.ndarray) -> None:
        super().__init__()
        self.win_GAA = win_GAA
        self.start_RA = normalised(start_GA)

    def now(self) -> np.ndarray:
        """P(a beats b) at this time."""
        return self.win_GAA

    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        return (self.now() @ np.exp(log_RA)[..., None])[..., 0]

    def pairs(self, log_RA: np.ndarray) -> np.ndarray:
        win_GAA = self.now()
        self.evaluations += 1
        return win_GAA

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        beaten_G = (self.win_GAA @ policy_RA[..., None])[..., 0].max(axis=1)
        return np.maximum(beaten_G - 0.5, 0.0)

    def support(self) -> np.ndarray | None:
        return np.array([nash(2 * win_AA - 1)[0] > 0.01 for win_AA in self.win_GAA])


class Changing(Preferences):
    """Preferences by HRC's form, P = σ(r_a − r_b + w·v_aᵀWv_b), whose w grows from 0 to 1 over the
    budget; the gap is that of the last game.
    """

    def __init__(self, ranked_GAA: np.ndarray, cyclic_GAA: np.ndarray, start_GA: np.ndarray):
        super().__init__(expit(ranked_GAA + cyclic_GAA), start_GA)
        self.ranked_GAA = ranked_GAA
        self.cyclic_GAA = cyclic_GAA

    def now(self) -> np.ndarray:
        return expit(self.ranked_GAA + self.time * self.cyclic_GAA)


class ManyCriteria(Preferences):
    """As `Preferences` by several criteria, whose mean a rule gets that asks for one number.

    The gap is by how much less a policy secures than the best one does: the least, over criteria
    and replies, of P(the policy is preferred).
    """

    def __init__(self, win_CGAA: np.ndarray, start_GA: np.ndarray) -> None:
        super().__init__(win_CGAA.mean(axis=0), start_GA)
        self.win_CGAA = win_CGAA
        games = range(win_CGAA.shape[1])
        tables = [np.concatenate(list(win_CGAA[:, g]), axis=1) for g in games]
        self.best_G = np.array([nash(win_AM)[2] for win_AM in tables])

    def criteria_gains(self, log_RA: np.ndarray) -> np.ndarray:
        return (self.win_CGAA @ np.exp(log_RA)[..., None])[..., 0]

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        beaten_CRA = (self.win_CGAA @ policy_RA[..., None])[..., 0]
        secured_G = 1 - beaten_CRA.max(axis=(0, 2))
        return np.maximum(self.best_G - secured_G, 0.0)

    def support(self) -> None:
        return None


class TwoRoles(Games):
    """A row player and a column player; the rows are [row of game 0, column of game 0, …]."""

    def __init__(self, row_GAA: np.ndarray, column_GAA: np.ndarray, start_RA: np.ndarray) -> None:
        super().__init__()
        self.row_GAA = row_GAA
        self.column_GAA = column_GAA
        self.start_RA = normalised(start_RA)
        self.zero_sum = np.allclose(row_GAA + column_GAA, 1)

    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        policy_G2A = np.exp(log_RA).reshape(len(self.row_GAA), 2, -1)
        row_GA = np.einsum("gab,gb->ga", self.row_GAA, policy_G2A[:, 1])
        column_GA = np.einsum("gab,ga->gb", self.column_GAA, policy_G2A[:, 0])
        return np.stack([row_GA, column_GA], axis=1).reshape(log_RA.shape)

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        gain_RA = self.gains(np.log(np.maximum(policy_RA, 1e-300)))
        better_R = gain_RA.max(axis=1) - (gain_RA * policy_RA).sum(axis=1)
        return np.maximum(better_R.reshape(-1, 2).mean(axis=1), 0.0)

    def support(self) -> np.ndarray | None:
        if not self.zero_sum:
            return None
        played = []
        for win_AA in self.row_GAA:
            row_A, column_A, _ = nash(win_AA)
            played += [row_A > 0.01, column_A > 0.01]
        return np.array(played)


class Contextual(Games):
    """An adversary writes one of M prompts, a defender that sees it answers: a row of the defender
    for each prompt, then one of the adversary. (GPO's game)
    """

    def __init__(self, payoff_GAM: np.ndarray, start_RA: np.ndarray) -> None:
        super().__init__()
        self.payoff_GAM = payoff_GAM
        self.start_RA = normalised(start_RA)

    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        games, _, prompts = self.payoff_GAM.shape
        policy_GSA = np.exp(log_RA).reshape(games, prompts + 1, -1)
        answer_GMA = self.payoff_GAM.transpose(0, 2, 1)
        safe_GM = (policy_GSA[:, :prompts] * answer_GMA).sum(axis=2)
        gain_GSA = np.concatenate([answer_GMA, 1 - safe_GM[:, None]], axis=1)
        return gain_GSA.reshape(log_RA.shape)

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        games, _, prompts = self.payoff_GAM.shape
        policy_GSA = policy_RA.reshape(games, prompts + 1, -1)
        safe_GM = (policy_GSA[:, :prompts] * self.payoff_GAM.transpose(0, 2, 1)).sum(axis=2)
        best_G = (policy_GSA[:, -1] * self.payoff_GAM.max(axis=1)).sum(axis=1)
        return np.maximum(best_G - safe_GM.min(axis=1), 0.0) / 2


class Poker(Games):
    """A game of OpenSpiel: a row for each information state, in copies with starts of their own.

    An action's gain is the mean outcome of the hands in which its state is reached.
    """

    def __init__(self, tree: GameTree, start_RA: np.ndarray) -> None:
        super().__init__()
        self.tree = tree
        sizes = [len(state.moves) for state in tree.states]
        self.states = len(sizes)
        self.actions = max(sizes)
        self.present_SA = np.arange(self.actions) < np.array(sizes)[:, None]
        self.copies = len(start_RA) // self.states
        present_RA = np.tile(self.present_SA, (self.copies, 1))
        self.start_RA = normalised(np.where(present_RA, start_RA, ABSENT))
        utility_ZP = tree.utility_ZP
        self.range = float(np.ptp(utility_ZP))
        self.utility_ZP = (utility_ZP - utility_ZP.min()) / self.range
        self.depth_S = (tree.path_SD < len(tree.state_F)).sum(axis=1)

    def flat(self, policy_SA: np.ndarray) -> np.ndarray:
        """A policy as the tree writes it, [F]."""
        return policy_SA[self.present_SA]

    def outcomes(self, policy_F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each move: the sum of outcomes of its own player over the ends behind it, weighed by
        chance, the others and the own later moves; and the weight of reaching its state. [F], [F]
        """
        tree = self.tree
        moves = len(tree.state_F)
        padded_F = np.append(policy_F, 1.0)
        step_ZPD = padded_F[tree.path_ZPD]
        reach_ZP = step_ZPD.prod(axis=2)
        total_F = np.zeros(moves + 1)
        weight_F = np.zeros(moves + 1)
        later_ZPD = np.cumprod(step_ZPD[:, :, ::-1], axis=2)[:, :, ::-1]
        ones = np.ones_like(later_ZPD[:, :, :1])
        behind_ZPD = np.concatenate([later_ZPD[:, :, 1:], ones], axis=2)
        for player in range(reach_ZP.shape[1]):
            others_Z = tree.chance_Z * np.delete(reach_ZP, player, axis=1).prod(axis=1)
            weight_ZD = others_Z[:, None] * behind_ZPD[:, player]
            places_ZD = tree.path_ZPD[:, player]
            outcome_ZD = weight_ZD * self.utility_ZP[:, player, None]
            total_F += np.bincount(places_ZD.ravel(), outcome_ZD.ravel(), moves + 1)
            weight_F += np.bincount(places_ZD.ravel(), weight_ZD.ravel(), moves + 1)
        return total_F[:moves], weight_F[:moves]

    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        policy_GSA = np.exp(log_RA).reshape(self.copies, self.states, self.actions)
        gain_GSA = np.zeros_like(policy_GSA)
        for copy, policy_SA in enumerate(policy_GSA):
            total_F, weight_F = self.outcomes(self.flat(policy_SA))
            gain_GSA[copy][self.present_SA] = total_F / np.maximum(weight_F, 1e-300)
        return gain_GSA.reshape(log_RA.shape)

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        policy_GSA = policy_RA.reshape(self.copies, self.states, self.actions)
        return np.array([self.gap_of(self.flat(policy_SA)) for policy_SA in policy_GSA])

    def gap_of(self, policy_F: np.ndarray) -> float:
        """What a best reply gains, the mean over both players, by backward induction over the own
        decisions.
        """
        tree = self.tree
        players_S = np.array([state.player for state in tree.states])
        value_P = self.value(policy_F, policy_F)
        gain = 0.0
        for player in range(self.utility_ZP.shape[1]):
            reply_F = policy_F.copy()
            for depth in range(int(self.depth_S.max()), -1, -1):
                total_F, _ = self.outcomes(reply_F)
                for state in np.flatnonzero((players_S == player) & (self.depth_S == depth)):
                    first = tree.states[state].first
                    own = slice(first, first + len(tree.states[state].moves))
                    reply_F[own] = 0.0
                    reply_F[first + int(total_F[own].argmax())] = 1.0
            profile = [policy_F, policy_F]
            profile[player] = reply_F
            gain += self.value(*profile)[player] - value_P[player]
        return max(0.0, gain / 2)

    def value(self, first_F: np.ndarray, second_F: np.ndarray) -> np.ndarray:
        """The players' mean outcomes, [P]."""
        first_Z = self.tree.reach_ends(first_F)[0]
        second_Z = self.tree.reach_ends(second_F)[1]
        return (self.tree.chance_Z * first_Z * second_Z) @ self.utility_ZP

    def average(self, log_TRA: Sequence[np.ndarray]) -> np.ndarray:
        shape = (len(log_TRA), self.copies, self.states, self.actions)
        policy_TGSA = np.exp(log_TRA).reshape(shape)
        mixed_GSA = np.zeros(shape[1:])
        weight_T = np.full(len(log_TRA), 1 / len(log_TRA))
        for copy in range(self.copies):
            policy_TF = policy_TGSA[:, copy][:, self.present_SA]
            mixed_GSA[copy][self.present_SA] = self.tree.mixture(policy_TF, weight_T)
        return mixed_GSA.reshape(-1, self.actions)


class Judged(Games):
    """The games of another batch, whose gains are estimated as a run would estimate them.

    samples: answers of the opponents that every action is compared with, once each (0: exact).
    flipped: the share of comparisons that the judge reports the wrong way round. saturated: the
    judge says 1 or 0, whichever is likelier. The gap is that of the games as they are.
    """

    def __init__(
        self, games: Preferences, samples: int, flipped: float, saturated: bool, seed: int
    ) -> None:
        super().__init__()
        self.games = games
        self.start_RA = games.start_RA
        self.samples = samples
        win_GAA = games.win_GAA
        if saturated:
            win_GAA = np.where(np.isclose(win_GAA, 0.5), 0.5, np.round(win_GAA))
        self.told_GAA = flipped + (1 - 2 * flipped) * win_GAA
        self.seed = seed

    def gains(self, log_RA: np.ndarray) -> np.ndarray:
        policy_RA = np.exp(log_RA)
        if not self.samples:
            return (self.told_GAA @ policy_RA[..., None])[..., 0]
        dice = seeds.generator(self.seed, "samples", self.evaluations)
        count_RA = dice.multinomial(self.samples, policy_RA / policy_RA.sum(axis=1, keepdims=True))
        wins_RAA = dice.binomial(count_RA[:, None, :], self.told_GAA)
        return wins_RAA.sum(axis=2) / self.samples

    def pairs(self, log_RA: np.ndarray) -> np.ndarray:
        """As the judge says it; of few samples by the gains that they give."""
        if not self.samples:
            self.evaluations += 1
            return self.told_GAA
        return super().pairs(log_RA)

    def gap(self, policy_RA: np.ndarray) -> np.ndarray:
        return self.games.gap(policy_RA)

    def support(self) -> np.ndarray | None:
        return self.games.support()


def starts(family: str, numbers: Sequence[int], places: int, actions: int) -> np.ndarray:
    """Normal logits, [games × places, A]."""
    drawn = [
        seeds.generator(n, "tunnel", family, "start").normal(size=(places, actions))
        for n in numbers
    ]
    return np.concatenate(drawn)


def preferences(family: str) -> Callable[[Sequence[int]], Games]:
    """The maker of a family of `benchmarks.cyclic_preferences`."""

    def made(numbers: Sequence[int]) -> Games:
        payoff_GAA = np.array([preference_game(family, ACTIONS, n) for n in numbers])
        return Preferences((1 + payoff_GAA) / 2, starts(family, numbers, 1, ACTIONS))

    return made


def random_preferences(numbers: Sequence[int]) -> Games:
    """P(a beats b) uniform."""
    win_GAA = np.array([random_wins(n, "random") for n in numbers])
    return Preferences(win_GAA, starts("random", numbers, 1, ACTIONS))


def random_wins(number: int, name: str) -> np.ndarray:
    """P(a beats b), uniform above the diagonal, [A, A]."""
    dice = seeds.generator(number, "tunnel", name)
    upper_AA = np.triu(dice.uniform(-1, 1, (ACTIONS, ACTIONS)), 1)
    return (1 + upper_AA - upper_AA.T) / 2


def hrc_logits(reward_A: np.ndarray, vector_AD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parts of HRC's log-odds that a is preferred to b: r_a − r_b, and v_aᵀWv_b with W turning
    each two of the D numbers by a right angle, [A, A] each. The general preference model has the
    second alone.
    """
    pairs = vector_AD.shape[1] // 2
    turn_DD = np.kron(np.eye(pairs), [[0.0, 1.0], [-1.0, 0.0]])
    return np.subtract.outer(reward_A, reward_A), vector_AD @ turn_DD @ vector_AD.T


def changing(numbers: Sequence[int]) -> Games:
    """By HRC's form with vectors of four numbers; the cyclic part ends with twice the spread."""
    ranked, cyclic = [], []
    for n in numbers:
        dice = seeds.generator(n, "tunnel", "changing")
        reward_A = dice.normal(size=ACTIONS)
        vector_AD = dice.normal(size=(ACTIONS, 4))
        ranked_AA, cyclic_AA = hrc_logits(reward_A, vector_AD)
        ranked.append(ranked_AA / ranked_AA.std())
        cyclic.append(2 * cyclic_AA / cyclic_AA.std())
    return Changing(np.array(ranked), np.array(cyclic), starts("changing", numbers, 1, ACTIONS))


def contextual(numbers: Sequence[int]) -> Games:
    """Uniform pay-offs of as many prompts as answers."""
    payoffs = [
        seeds.generator(n, "tunnel", "contextual").uniform(0, 1, (ACTIONS, ACTIONS))
        for n in numbers
    ]
    return Contextual(np.array(payoffs), starts("contextual", numbers, ACTIONS + 1, ACTIONS))


def two_roles(numbers: Sequence[int]) -> Games:
    """Uniform pay-offs of the row player, the rest of 1 for the column player."""
    row_GAA = np.array([bimatrix(n)[0] for n in numbers])
    return TwoRoles(row_GAA, 1 - row_GAA, starts("two roles", numbers, 2, ACTIONS))


def general_sum(numbers: Sequence[int]) -> Games:
    """Uniform pay-offs of both."""
    row_GAA, column_GAA = np.array([bimatrix(n) for n in numbers]).swapaxes(0, 1)
    return TwoRoles(row_GAA, column_GAA, starts("general sum", numbers, 2, ACTIONS))


def bimatrix(number: int) -> np.ndarray:
    """Uniform pay-offs of two players, [2, A, A]."""
    return seeds.generator(number, "tunnel", "roles").uniform(0, 1, (2, ACTIONS, ACTIONS))


def criteria(numbers: Sequence[int]) -> Games:
    """Criteria that agree in part: each a third of a common ranking, the rest its own game."""
    wins = []
    for n in numbers:
        common_AA = (1 + preference_game("transitive", ACTIONS, n)) / 2
        own = [random_wins(n, f"criterion {c}") for c in range(CRITERIA)]
        wins.append([common_AA / 3 + 2 * win_AA / 3 for win_AA in own])
    win_CGAA = np.array(wins).swapaxes(0, 1)
    return ManyCriteria(win_CGAA, starts("criteria", numbers, 1, ACTIONS))


def poker(name: str) -> Callable[[Sequence[int]], Games]:
    """The maker of copies of an OpenSpiel game, with starts of their own."""

    def made(numbers: Sequence[int]) -> Games:
        tree = game_tree(OpenSpiel.model_validate({"name": name}), 100_000)
        actions = max(len(state.moves) for state in tree.states)
        return Poker(tree, starts(name, numbers, len(tree.states), actions))

    return made


FAMILIES: dict[str, Callable[[Sequence[int]], Games]] = {
    "transitive": preferences("transitive"),
    "cyclic": preferences("cyclic"),
    "mixed": preferences("mixed"),
    "random": random_preferences,
    "changing": changing,
    "criteria": criteria,
    "contextual": contextual,
    "two roles": two_roles,
    "general sum": general_sum,
    "kuhn": poker("kuhn_poker"),
    "leduc": poker("leduc_poker"),
}
"""Family -> the batch of its games of these numbers."""
