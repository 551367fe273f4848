"""Pairwise evaluations in Inspect: a model against rivals on any task, judged by any judge of
Equipoise; win rates, ratings and the equilibrium stand in Inspect's logs.

    inspect eval inspect_equipoise/versus --model openai-api/equipoise/policy@3 \\
      -T task=inspect_evals.persistbench:persistbench_sycophancy \\
      -T rivals=openai-api/equipoise/policy@0 -T judge=shorter
"""

from inspect_equipoise.metrics import league, rating, win_rate
from inspect_equipoise.pairwise import pairwise, preference, versus

__all__ = ["league", "pairwise", "preference", "rating", "versus", "win_rate"]
