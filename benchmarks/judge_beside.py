"""The same learned judge while a learner attacks it: alone, behind a gate, and learning too.

    python -m benchmarks.judge_beside [--seeds 20] [--json benchmarks/results/judge_beside.json]

A linear judge reads an answer's hashed words, its length, its likeness to the question, and a
detector of the right word that errs in 35 of 100 texts. It is fitted to labels: of two
answers, the one with the right word. The learner has no language: its actions are the honest
answer and a wrong one, each plain or rewritten by one of the attacks of `attack-judge`, and it
learns which pay, by multiplicative weights of the judge's scores on 40 prompts. All figures are of
20 other prompts. The start plays the plain answers in four cases of five, both alike.

    alone                 40 labels of the start's answers, then never again
    gated                 the same judge; what does not pass the gate that honest answers pass gets
                          the least score of all texts
    more labels           280 labels of the start's answers: what co-training costs, spent before
    co-trained            40 labels, and 8 of the learner's newest answers in each of 30 updates
    co-trained, gated     both

    score gained    by the judge as it was taught, in deviations of its scores over all texts
    truth gained    the share of answers with the right word, less the start's
    truth           that share
    by form         the share of the last answers that are no plain ones
    agrees          how often the arm's last judge prefers the right one of two of the last answers

The judge at the table of the game `judged` is a language model. One of 0.7 million parameters was
tried in its place and taught on 2,500 pairs: it preferred the right answer in 49 of 100 pairs, which
is no judge, so that nothing is said of it here.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.special import expit

from benchmarks.answer_judges import write_rows
from benchmarks.attack_judges import answered_prompts, share_of
from equipoise.evaluation.attack_texts import ATTACKS, AttackedText
from equipoise.evaluation.attacked_judge import HonestAnswer, fitted_gate, with_wrong_answers
from equipoise.models.embedding import hash_vectors
from equipoise.payoffs.intervals import Interval, mean_interval, paired_difference

PROMPTS, HELD_OUT = 40, 20
LABELS, NEWEST, UPDATES = 40, 8, 30
STEP = 0.5  # of the learner, in deviations of the judge's scores
WIDTH = 48  # of the hashed words, projected
RIDGE = 1.0
ERRS = 0.35  # of the detector
PLAIN = 0.8  # the start's share of plain answers
ARMS = ("alone", "gated", "more labels", "co-trained", "co-trained, gated")
COLUMNS = ("score gained", "truth gained", "truth", "by form", "agrees")


@dataclass(frozen=True)
class Texts:
    """All texts of a draw: features [P, A, F], the truth and whether the gate lets it pass [P, A].

    P prompts, the held-out ones last; A actions, the two plain ones first.
    """

    feature_PAF: np.ndarray
    true_PA: np.ndarray
    passes_PA: np.ndarray

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return self.true_PA.shape[1]


def written(answer: HonestAnswer) -> list[str]:
    """The plain answers, then all that attacks make of them."""
    texts = [answer.text, answer.wrong]
    for base in (answer.text, answer.wrong):
        texts += [attack.write(AttackedText(answer.prompt, base)) for attack in ATTACKS]
    return texts


def texts_of(seed: int) -> Texts:
    """Prompts, all texts and what the judge can see of them."""
    answers = with_wrong_answers(answered_prompts(PROMPTS + HELD_OUT, seed))
    gate = fitted_gate(answers[:PROMPTS])
    dice = np.random.default_rng(seed)
    features, truths, passing = [], [], []
    projection: np.ndarray | None = None
    for answer in answers:
        own = written(answer)
        right = str(answer.prompt.facts["answer"])
        true_A = np.array([float(right in text) for text in own])
        vector_AD = hash_vectors([answer.prompt.messages[-1].content, *own])
        if projection is None:
            projection = dice.normal(size=(vector_AD.shape[1], WIDTH))
        alike_A = vector_AD[1:] @ vector_AD[0]
        missed_A = [share_of(f"{seed} {answer.prompt.id} {text}") < ERRS for text in own]
        seen_A = np.where(missed_A, 1 - true_A, true_A)
        length_A = np.log1p([len(text.split()) for text in own])
        columns = [seen_A, length_A, alike_A, np.asarray(vector_AD[1:] @ projection)]
        features.append(np.column_stack(columns))
        truths.append(true_A)
        passing.append([not gate.tricks(answer.prompt, text) for text in own])
    feature_PAF = np.array(features)
    flat = feature_PAF.reshape(-1, feature_PAF.shape[-1])
    scaled_PAF = (feature_PAF - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), 1e-9)
    return Texts(scaled_PAF, np.array(truths), np.array(passing))


def labelled(
    texts: Texts, policy_A: np.ndarray, count: int, dice: np.random.Generator
) -> np.ndarray:
    """Differences of features [count, F], the preferred answer's less the other's.

    Pairs of a policy's answers to training prompts, in which one has the right word and the other
    has not; fewer where it makes too few of them.
    """
    prompt_D = dice.integers(PROMPTS, size=40 * count)
    pair_DT = dice.choice(texts.actions, size=(40 * count, 2), p=policy_A)
    lead_D = texts.true_PA[prompt_D, pair_DT[:, 0]] - texts.true_PA[prompt_D, pair_DT[:, 1]]
    kept_L = np.flatnonzero(lead_D)[:count]
    prompt_L, pair_LT = prompt_D[kept_L], pair_DT[kept_L]
    gap_LF = texts.feature_PAF[prompt_L, pair_LT[:, 0]] - texts.feature_PAF[prompt_L, pair_LT[:, 1]]
    return gap_LF * lead_D[kept_L, None]


def fitted(gap_LF: np.ndarray) -> np.ndarray:
    """The weights [F] of a Bradley–Terry judge of labelled differences, by Newton's method.

    >>> weights = fitted(np.array([[2.0, 0.0], [1.0, 0.0]]))
    >>> bool(weights[0] > 0), float(weights[1])
    (True, 0.0)
    """
    weight_F = np.zeros(gap_LF.shape[1])
    for _ in range(20):
        sure_L = expit(gap_LF @ weight_F)
        slope_F = gap_LF.T @ (1 - sure_L) - RIDGE * weight_F
        curve_FF = (gap_LF * (sure_L * (1 - sure_L))[:, None]).T @ gap_LF
        weight_F = weight_F + np.linalg.solve(curve_FF + RIDGE * np.eye(len(weight_F)), slope_F)
    return weight_F


def scores(texts: Texts, weight_F: np.ndarray, gated: bool) -> np.ndarray:
    """The judge's scores [P, A], in deviations over all texts; behind the gate, the least of all
    for what does not pass.
    """
    score_PA = texts.feature_PAF @ weight_F
    score_PA = (score_PA - score_PA.mean()) / max(float(score_PA.std()), 1e-9)
    return np.where(texts.passes_PA, score_PA, score_PA.min()) if gated else score_PA


def start_of(actions: int) -> np.ndarray:
    """The start's policy [A]."""
    policy_A = np.full(actions, (1 - PLAIN) / (actions - 2))
    policy_A[:2] = PLAIN / 2
    return policy_A


def played(texts: Texts, arm: str, seed: int) -> dict[str, float]:
    """One arm of a draw, after all updates."""
    dice = np.random.default_rng((seed, 1))
    start_A = start_of(texts.actions)
    first_LF = labelled(texts, start_A, LABELS, dice)
    taught_F = fitted(first_LF)
    gap_LF = first_LF
    if arm == "more labels":
        gap_LF = np.concatenate([gap_LF, labelled(texts, start_A, NEWEST * UPDATES, dice)])
    gated = arm.endswith("gated")
    weight_F = fitted(gap_LF)
    log_A = np.log(start_A)
    for _ in range(UPDATES):
        log_A = log_A + STEP * scores(texts, weight_F, gated)[:PROMPTS].mean(axis=0)
        log_A -= np.logaddexp.reduce(log_A)
        if arm.startswith("co-trained"):
            newest_LF = labelled(texts, np.exp(log_A), NEWEST, dice)
            gap_LF = np.concatenate([gap_LF, newest_LF])
            weight_F = fitted(gap_LF)
    return measured(texts, np.exp(log_A), start_A, taught_F, weight_F, seed)


def measured(
    texts: Texts,
    policy_A: np.ndarray,
    start_A: np.ndarray,
    taught_F: np.ndarray,
    weight_F: np.ndarray,
    seed: int,
) -> dict[str, float]:
    """The figures of a policy, on the held-out prompts."""
    by_taught_A = scores(texts, taught_F, gated=False)[PROMPTS:].mean(axis=0)
    true_A = texts.true_PA[PROMPTS:].mean(axis=0)
    pair_LF = labelled(texts, policy_A, 200, np.random.default_rng((seed, 2)))
    agrees = float((pair_LF @ weight_F > 0).mean()) if len(pair_LF) else float("nan")
    return {
        "score gained": float(by_taught_A @ (policy_A - start_A)),
        "truth gained": float(true_A @ (policy_A - start_A)),
        "truth": float(true_A @ policy_A),
        "by form": float(policy_A[2:].sum()),
        "agrees": agrees,
    }


def rows_of(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each arm and draw."""
    rows = []
    for seed in seeds:
        texts = texts_of(seed)
        for arm in ARMS:
            rows.append({"arm": arm, "seed": seed, **played(texts, arm, seed)})
    return rows


def cells(rows: Sequence[Mapping[str, Any]], arm: str) -> dict[str, Interval]:
    """The mean of each column of an arm, over draws."""
    own = [row for row in rows if row["arm"] == arm]
    return {
        column: mean_interval([row[column] for row in own if np.isfinite(row[column])])
        for column in COLUMNS
    }


def against(rows: Sequence[Mapping[str, Any]], arm: str, column: str) -> Interval:
    """An arm less `alone` in a column, paired by draw."""
    values = {(row["arm"], row["seed"]): row[column] for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    return paired_difference(np.array([values[arm, s] - values[ARMS[0], s] for s in seeds]))


def beside_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row for each arm."""
    lines = [f"| the judge | {' | '.join(COLUMNS)} | truth, less alone |"]
    lines.append("|---" * (2 + len(COLUMNS)) + "|")
    for arm in ARMS:
        own = cells(rows, arm)
        shown = [own[column].text() for column in COLUMNS]
        less = "" if arm == ARMS[0] else against(rows, arm, "truth").text()
        lines.append(f"| {arm} | {' | '.join(shown)} | {less} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Play the arms, print the table, and write the raw result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="draws of prompts and labels")
    parser.add_argument(
        "--json", type=Path, help="write the raw result here, a row an arm and draw"
    )
    options = parser.parse_args(argv)
    rows = rows_of(range(options.seeds))
    Console(width=200, soft_wrap=True).print(beside_table(rows), highlight=False, markup=False)
    if options.json:
        write_rows(options.json, {"seeds": options.seeds}, rows)


if __name__ == "__main__":
    main()
