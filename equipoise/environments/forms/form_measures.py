"""Shares of a policy's answers by form, and by how much the best form beats them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.environments.forms.answer_forms import FORMS, NONE, exploitability, form_of
from equipoise.evaluation.base import Arena, EvaluationPlan, Scores, Workload
from equipoise.evaluation.measure import AnswersMeasure, Measure
from equipoise.evaluation.measures import Reading
from equipoise.payoffs.intervals import Interval
from equipoise.types import PlayerId, Turn

DRAWS = 1000  # of prompts, for the interval


class FormShare(AnswersMeasure):
    """The share of held-out answers that have one form."""

    kind: Literal["form_share"] = "form_share"
    form: Literal["bullets", "title", "sentence", "none"] = Field(
        description="the form; none: no form, or several at once"
    )

    @property
    def name(self) -> str:
        return self.title or f"share of {self.form}"

    @property
    def note(self) -> str:
        return "of held-out answers; neither way is better in itself"

    def scores(self, arena: Arena, player: PlayerId, t: int, samples: int) -> Scores:
        return {
            prompt: [float(form_of(answer_of(turn.move).text) == self.form) for turn in turns]
            for prompt, turns in arena.answers(player, samples).items()
        }


class FormExploitability(Measure):
    """The exploitability of a policy by its shares of forms over all held-out prompts.

        max_a Σ_b share_b · P(a beats b) − ½         0: by nobody, ½: by a form that always wins

    The interval is of prompts drawn anew; it is biased upwards near 0, where luck alone makes the
    shares unequal.
    """

    kind: Literal["form_exploitability"] = "form_exploitability"
    higher_is_better: bool = Field(False, description="which way is an improvement")

    @property
    def name(self) -> str:
        return self.title or "exploitability by forms"

    @property
    def note(self) -> str:
        return "by the best of the three forms, exact from the shares of held-out answers; 0 to ½"

    def planned(self, run_plan: EvaluationPlan, samples: int, played: bool) -> Workload:
        if played:
            return Workload()
        rounds = -(-samples // len(run_plan.game.seats))
        matches = len(run_plan.league) * len(run_plan.held_out) * rounds
        return Workload(matches, matches * len(run_plan.game.seats))

    def measure(self, arena: Arena, t: int, samples: int) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        for player in arena.learners(t) or arena.others():
            share_PF = shares_by_prompt(list(arena.answers(player, samples).values()))
            readings[str(player)] = exploitability_interval(share_PF)
        return readings


def shares_by_prompt(turns_of_prompts: Sequence[Sequence[Turn]]) -> np.ndarray:
    """[P, F]: the share of each form among the answers to each prompt that has some."""
    rows: list[list[float]] = []
    for turns in turns_of_prompts:
        forms = [form_of(answer_of(turn.move).text) for turn in turns]
        if forms:
            rows.append([forms.count(form) / len(forms) for form in (*FORMS, NONE)])
    return np.array(rows)


def exploitability_interval(share_PF: np.ndarray) -> Interval | None:
    """The exploitability of the mean row, with the 95 % interval of rows drawn anew."""
    count = len(share_PF)
    if not count:
        return None
    dice = seeds.generator(0, "exploitability by forms")
    drawn = []
    for _ in range(DRAWS):
        rows = dice.integers(count, size=count)
        drawn.append(exploitability(share_PF[rows].mean(axis=0)))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(exploitability(share_PF.mean(axis=0)), float(low), float(high), count)
