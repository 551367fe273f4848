"""From scores to preference pay-offs: P(i beats j) − P(j beats i), in [−1, 1].

Only the order of two scores counts, so judges with different scales agree on the game that the
players play.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.payoffs.table import PayoffTable

Scores = Mapping[str, Mapping[str, Sequence[float | None]]]


def meeting(score_a: float | None, score_b: float | None) -> float | None:
    """What a gets from meeting b: sign(score_a − score_b), so +1 a win, 0 a tie, −1 a loss; None
    when unjudged.

    Raises ValueError for a score that is NaN or infinite.
    """
    for score in (score_a, score_b):
        if score is not None and not np.isfinite(score):
            raise ValueError(f"a score is {score}; it must be finite, or None when unjudged")
    if score_a is None or score_b is None:
        return None
    return float(np.sign(score_a - score_b))


def cross_play(scores: Scores) -> PayoffTable:
    """Every player's answers against every other's, on the prompts that both answered.

    payoff[i, j] = mean over prompts p of mean over answer pairs (a of i, b of j) of sign(s_i,p,a −
    s_j,p,b). se[i, j] = standard deviation of the prompts' means / sqrt(prompts): answers to one
    prompt are not independent.

    `scores`: {player: {prompt id: [score of each answer, None where unjudged]}}. Returns a
    constant-sum table that counts answer pairs; a pair with an unjudged answer is unjudged. A
    player does not meet itself: the diagonal is 0 with count 0. Raises ValueError for a score that
    is NaN or infinite. Source: the preference game of Munos et al. 2023, arXiv 2312.00886, §3, with
    P − ½ doubled.
    """
    players = list(scores)
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    dense = [_dense(player, scores[player], prompts) for player in players]
    shape = (len(players), len(players))
    payoff_NN, se_NN = np.full(shape, np.nan), np.full(shape, np.nan)
    count_NN, unjudged_NN, clusters_NN = np.zeros((3, *shape), np.int64)
    np.fill_diagonal(payoff_NN, 0.0)
    np.fill_diagonal(se_NN, 0.0)
    for i in range(len(players)):
        for j in range(i):
            (score_i_PA, answers_i_P), (score_j_PA, answers_j_P) = dense[i], dense[j]
            sum_P, pairs_P = _meet(score_i_PA, score_j_PA)
            mean_P = sum_P[pairs_P > 0] / pairs_P[pairs_P > 0]
            unjudged_P = answers_i_P * answers_j_P - pairs_P
            count_NN[i, j] = count_NN[j, i] = pairs_P.sum()
            unjudged_NN[i, j] = unjudged_NN[j, i] = unjudged_P.sum()
            clusters_NN[i, j] = clusters_NN[j, i] = len(mean_P)
            if len(mean_P):
                payoff_NN[i, j] = mean_P.mean()
                payoff_NN[j, i] = 0.0 - payoff_NN[i, j]
            if len(mean_P) > 1:
                se_NN[i, j] = se_NN[j, i] = mean_P.std(ddof=1) / np.sqrt(len(mean_P))
    return PayoffTable(players, payoff_NN, count_NN, unjudged_NN, clusters_NN, se_NN)


def cross_play_by_prompt(scores: Scores) -> np.ndarray:
    """payoff_PNN: what player i gets from player j on each prompt, as in `cross_play`.

    NaN where no answers of the two to the prompt were judged; the diagonal is 0.
    """
    players = list(scores)
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    dense = [_dense(player, scores[player], prompts)[0] for player in players]
    payoff_PNN = np.zeros((len(prompts), len(players), len(players)))
    for i in range(len(players)):
        for j in range(i):
            sum_P, pairs_P = _meet(dense[i], dense[j])
            with np.errstate(invalid="ignore"):
                payoff_PNN[:, i, j] = sum_P / pairs_P
            payoff_PNN[:, j, i] = 0.0 - payoff_PNN[:, i, j]
    return payoff_PNN


def _dense(
    player: str, by_prompt: Mapping[str, Sequence[float | None]], prompts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """(score_PA padded with NaN, answers per prompt [P])."""
    answers = [by_prompt.get(prompt, ()) for prompt in prompts]
    score_PA = np.full((len(prompts), max(map(len, answers), default=0)), np.nan)
    for row_A, prompt, given in zip(score_PA, prompts, answers, strict=True):
        judged = [score for score in given if score is not None]
        if not np.isfinite(judged).all():
            raise ValueError(
                f"'{player}', prompt '{prompt}': scores must be finite, "
                f"or None when unjudged: {given}"
            )
        row_A[: len(judged)] = judged
    return score_PA, np.array(list(map(len, answers)), np.int64)


def _meet(score_i_PA: np.ndarray, score_j_PA: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per prompt: the sum of signs over all judged answer pairs, and how many pairs those are."""
    sum_P = np.zeros(len(score_i_PA))
    # One answer of i against all of j's at a time, so that memory stays that of the scores.
    for score_P in score_i_PA.T:
        sum_P += np.nansum(np.sign(score_P[:, None] - score_j_PA), axis=1)
    pairs_P = (~np.isnan(score_i_PA)).sum(1) * (~np.isnan(score_j_PA)).sum(1)
    return sum_P, pairs_P
