"""Old sections of facts."""

from __future__ import annotations

import numpy as np

from equipoise.payoffs.cycles import cyclic_warning
from equipoise.report.league import (
    LEAST,
    caution,
    equilibrium_section,
    payoffs_section,
    ratings_section,
)

__all__ = ["LEAST"]


def _quiet(facts, section):
    return None if facts.roles and not section.blocks else section


def payoffs(facts):
    payoff_NN = np.zeros((0, 0)) if facts.payoff_NN is None else facts.payoff_NN
    return _quiet(
        facts,
        payoffs_section(facts.players, payoff_NN, facts.se_NN, facts.count_NN),
    )


def equilibrium(facts):
    triples = facts.cyclic_triples if len(facts.players) > 2 else None
    return _quiet(
        facts,
        equilibrium_section(
            facts.exploitability, facts.gaps, facts.mixture, facts.cycle_share, triples
        ),
    )


def ratings(facts):
    return _quiet(
        facts, ratings_section(facts.ratings, facts.rating_unit, warned(facts))
    )


def warned(facts):
    return caution(cyclic_warning(facts.cyclic_triples or 0.0))
