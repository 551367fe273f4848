"""Several runs of the assistant's game over one another: n × n tables, as GTAlign's heat maps."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from equipoise.environments.assistance.comparison import MeasuredRun, shared_points
from equipoise.errors import ConfigError
from equipoise.payoffs import pareto

MEASURES = {
    "dominates": "share of prompts at which the row's run dominates the column's",
    "coverage": "ε-coverage of the joint front, row less column",
    "regret": "regret, column less row",
    "hypervolume": "hypervolume above both runs' lowest point, row less column",
}
"""A table's field -> what a cell says; more is better for the row in each."""


class DominanceTable(msgspec.Struct, frozen=True):
    """For each two of N runs the advantage of the row over the column, in the units of MEASURES.

    `prompts` are the prompts that both measured; the diagonal holds 0, and of `prompts` its own.
    """

    runs: tuple[str, ...]
    generations: tuple[int, ...]
    eps: float
    prompts: list[list[int]]
    dominates: list[list[float]]
    coverage: list[list[float]]
    regret: list[list[float]]
    hypervolume: list[list[float]]

    def facts(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)


def dominance_table(runs: Sequence[MeasuredRun], eps: float = 0.0) -> DominanceTable:
    """Every two of the runs on the prompts that both were asked.

    eps: of dominance in units of the pay-off, of coverage as a share of its range. Raises
    ConfigError for fewer than two runs, RunError where two share no prompt.
    """
    if len(runs) < 2:
        raise ConfigError("dominance: name two runs or more, such as runs/a runs/b runs/c@30")
    size = len(runs)
    prompts_NN = np.diag([len(run.measures.points) for run in runs])
    tables = {name: np.zeros((size, size)) for name in MEASURES}
    for i in range(size):
        for j in range(i + 1, size):
            row_P2, column_P2 = shared_points(runs[i], runs[j])
            compared = pareto.compare(row_P2, column_P2, eps)
            low_2 = np.minimum(row_P2.min(axis=0), column_P2.min(axis=0))
            area = pareto.hypervolume(row_P2, low_2) - pareto.hypervolume(column_P2, low_2)
            advantages = {
                "coverage": compared.first.coverage - compared.second.coverage,
                "regret": compared.second.regret - compared.first.regret,
                "hypervolume": area,
            }
            for name, advantage in advantages.items():
                tables[name][i, j] = advantage
                tables[name][j, i] = -advantage
            tables["dominates"][i, j] = compared.first_dominates / len(row_P2)
            tables["dominates"][j, i] = compared.second_dominates / len(row_P2)
            prompts_NN[i, j] = prompts_NN[j, i] = len(row_P2)
    return DominanceTable(
        runs=tuple(run.name for run in runs),
        generations=tuple(run.generation for run in runs),
        eps=eps,
        prompts=prompts_NN.tolist(),
        **{name: table.tolist() for name, table in tables.items()},
    )
