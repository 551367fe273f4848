"""Old sections of facts."""

from __future__ import annotations

from equipoise.report.elements import SampleSize
from equipoise.report.population import warned
from equipoise.report.training_ratings import (
    match_ups_section,
    training_ratings_section,
)


def standing(facts):
    if len(facts.pool) < 2 or (facts.roles and not facts.standing):
        return None
    return training_ratings_section(facts.standing, facts.standing_unit, warned(facts))


def match_ups(facts):
    if len(facts.pool) < 2 or (facts.roles and facts.met is None):
        return None
    return match_ups_section(facts.met, facts.met_judge, SampleSize(*facts.sample))


def sampled(facts):
    return SampleSize(*facts.sample).note()
