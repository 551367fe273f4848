"""What evaluations measure of leagues whose tables are given, and all that is shown of it: the
record, headlines, changes, lines for trackers, sections and warnings; the reports on judges.
"""

import random

import msgspec
import pytest
from readable_values import shown

from equipoise.blocks.section import SampleSize
from equipoise.environments.matrix.game import Matrix
from equipoise.errors import EquipoiseError
from equipoise.evaluation.base import Evaluation
from equipoise.evaluation.exact import Finite, TwoSeats
from equipoise.evaluation.held_out_measures import HeldOut
from equipoise.evaluation.judge_opinions import agreement_between
from equipoise.evaluation.judge_report import judge_report
from equipoise.evaluation.judge_sections import judge_sections
from equipoise.evaluation.last_test import Criterion, SelectionRecord, selection_section
from equipoise.evaluation.measures import History, Measurement, Records, changes_told
from equipoise.evaluation.meta_game import MetaGame
from equipoise.games.answers import Answers
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.table import Meeting
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, Vote, user
from tests.evaluation import test_exact, test_held_out_measures, test_held_out_roles, test_meta_game

BIASED = Matrix(name="biased_rock_paper_scissors")
ROCK, PAPER, SCISSORS = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
EVEN, MOST = [1 / 3, 1 / 3, 1 / 3], [0.5, 0.3, 0.2]


def finite():
    arena = test_exact.Table(BIASED, policy=[EVEN, MOST, ROCK], other=[PAPER, MOST, EVEN])
    arena.faced = {"policy": {("other", 1): 0.25, ("policy", 1): 0.75}}
    return Finite(tau=0.1), arena, ("policy", "other")


def one_learner():
    return Finite(), test_exact.Table(BIASED, policy=[EVEN, MOST, SCISSORS]), ("policy",)


def two_seats():
    policies = {
        "guard": [[0.25] * 4, [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]],
        "raider": [EVEN, ROCK, MOST],
    }
    arena = test_exact.Table(test_exact.UNEVEN, **policies)
    return TwoSeats(seats={"row": "guard", "column": "raider"}), arena, ("guard", "raider")


def one_league():
    arena = test_meta_game.League(BIASED, "zero_sum", policy=[ROCK, PAPER, MOST])
    return MetaGame(), arena, ("policy",)


def two_leagues():
    policies = {"ann": [[1, 0], [0.5, 0.5], [0, 1]], "ben": [ROCK, PAPER, SCISSORS]}
    roles = {"row": "ann", "column": "ben"}
    arena = test_meta_game.League(test_meta_game.LANES, "projected_replicator", roles, **policies)
    return MetaGame(), arena, ("ann", "ben")


def scored():
    return HeldOut(samples=2), test_held_out_measures.Table(policy=[1.0, 5.0, 3.0]), ("policy",)


def several():
    levels = {
        "a": [1.0, 2.0, 4.0],
        "b": [1.5, 0.5, 3.5],
        "c": [2.0, 2.0, 9.0],
        "d": [0.0, 7.0, 8.0],
    }
    return HeldOut(), test_held_out_measures.Table(**levels), tuple(levels)


def compared():
    arena = test_held_out_measures.Table(True, weak=[0.0, 1.0, 0.5], strong=[8.0, 9.0, 7.0])
    arena.opponent_weights = lambda learner, t: {PlayerId("strong", t): 0.75, learner: 0.25}
    return HeldOut(), arena, ("weak", "strong")


def two_roles():
    ages = ({"d": t, "g": t} for t in range(2))
    arenas = [test_held_out_roles.Arena(age) for age in ages]
    unjudged = [(("d@1", "g@1"), "p1")]
    arenas.append(test_held_out_roles.Arena({"d": 1, "g": 1}, learns=("d",), unjudged=unjudged))
    return HeldOut(samples=2), arenas, ("d", "g")


class Cycle(test_held_out_measures.Table):
    """Each generation beats the one before it and loses to the one after it, all in a circle."""

    def meetings(self, first, second, samples, judge):
        won = (0.0, 1.0, -1.0)[(first.generation - second.generation) % 3]
        return [Meeting(str(first), str(second), won, p) for p in test_held_out_measures.PROMPTS]


def going_round():
    return HeldOut(), Cycle(True, policy=[1.0, 2.0, 3.0]), ("policy",)


LEAGUES = (
    going_round,
    two_roles,
    finite,
    one_learner,
    two_seats,
    one_league,
    two_leagues,
    scored,
    several,
    compared,
)


def _measured(evaluation, arena, t):
    ages = getattr(arena, "ages", {})  # of learners that are not as old as the run
    return msgspec.structs.replace(evaluation.measure(arena, t), ages=ages)


@pytest.mark.parametrize(
    "league",
    [pytest.param(each, marks=[pytest.mark.long] * (each is two_leagues)) for each in LEAGUES],
    ids=lambda league: league.__name__,
)
def test_a_league_is_measured_and_shown(league, as_recorded):
    evaluation, arena, learners = league()
    arenas = arena if isinstance(arena, list) else [arena] * 3
    measured = tuple(Measurement(t, _measured(evaluation, arenas[t], t)) for t in range(3))
    kind = type(measured[0].measures)
    game, roles = arenas[0].game, test_held_out_roles.ROLES
    history = History(learners, measured, game, "judge", rating_unit="points", roles=roles)
    empty = History(learners, (), game)
    last = measured[-1].measures
    parts = {
        "record": [each.measures.facts(each.measures.ages) for each in measured],
        "watched": last.watched(),
        "tracked": last.tracked(2),
        "numbers": last.all_numbers(),
        "gets": [msgspec.to_builtins(last.gets(a, b)) for a in last.players for b in last.players],
        "headlines": list(kind.headlines(history)),
        "changes": list(kind.changes(history)),
        "told": changes_told(history, kind.rows(history)),
        "warnings": list(kind.warnings(history, Records())),
        "unmeasured": [*kind.headlines(empty), *kind.changes(empty)],
        "cells": [
            row.cell(last, brief)
            for row in kind.rows(history)
            for brief in (False, True)
            if not isinstance(row.value(last), dict)
        ],
    }
    text = "\n\n".join(f"{part}\n{shown(value)}" for part, value in parts.items())
    sections = [*kind.sections(history, Records()), *kind.sections(empty, Records())]
    text += "\n\n" + "\n\n".join(map(shown, sections))
    as_recorded(f"measured/{league.__name__}.txt", text)


def test_what_cannot_be_measured_is_said(as_recorded):
    texts = []
    uneven = test_exact.Table(test_exact.UNEVEN, guard=[[0.25] * 4], raider=[EVEN])
    answers = test_exact.Table(Answers(), a=[EVEN])
    lanes = test_exact.Table(test_meta_game.LANES, a=[[0, 1]], b=[EVEN])
    for evaluation, arena in (
        (Finite(), uneven),
        (Finite(), answers),
        (TwoSeats(seats={"row": "guard"}), uneven),
        (TwoSeats(seats={"row": "guard", "column": "nobody"}), uneven),
        (TwoSeats(seats={"row": "a", "column": "a"}), answers),
        (TwoSeats(seats={"row": "a", "column": "b"}), lanes),
    ):
        with pytest.raises(EquipoiseError) as raised:
            evaluation.measure(arena, 0)
        texts.append(f"{evaluation.kind}: {raised.value}")
    as_recorded("measured/refused.txt", "\n".join(texts))


def test_who_is_chosen_and_tested(as_recorded):
    def arena():
        return test_held_out_measures.Table(test=["x"], a=[1.0, 9.0, 3.0], b=[2.0, 0.0, 1.0])

    records = [HeldOut(samples=2).select(arena(), t) for t in (0, 2)]
    scores = {PlayerId("a", t): Interval(0.5 - 0.1 * t, 0.1, 0.8, 5) for t in range(3)}
    for lower in (False, True):
        criterion = Criterion(scores, "greedy", lower)
        records.append(Evaluation.build("held_out").select(arena(), 2, criterion))
        records.append(SelectionRecord.of(criterion))
    assert all(SelectionRecord.read(record.facts()) == record for record in records)
    told = [[record.facts(), *record.headlines(), selection_section(record)] for record in records]
    as_recorded("measured/chosen.txt", "\n\n".join(shown(one) for each in told for one in each))


VOTERS = ("p@1", "q@0", "rule")


def records_of_judges():
    """Matches of three players, drawn; three voters that score and compare, not always readable,
    and a rule that scores alone.
    """
    dice = random.Random(7)
    matches, judgements = [], []
    for n in range(24):
        names = dice.choices(("p@1", "q@0", "r@2"), k=2) if n % 4 else ["r@2", "r@2"]
        seats = dict(zip("ab", map(PlayerId.parse, names), strict=True))
        chat = (user(f"question {n % 9}"),)
        turns = tuple(Turn(seat, View(chat), Move("x" * dice.randrange(5, 60))) for seat in seats)
        match = Match(f"m{n}", 0, "train", "answers", f"p{n % 9}", seats, n, turns)
        matches.append(match)
        votes = []
        for voter in VOTERS:
            if n % 2:
                for first, second in ("ab", "ba")[: 1 + (n % 3 > 0)]:
                    value = dice.choice([0.0, 0.2, 0.5, 0.8, 1.0, None])
                    votes.append(Vote(voter, first, value, second, tokens=n, cost=0.25))
            else:
                for seat in seats:
                    value = dice.choice([1.0, 4.0, 6.5, 9.0, None])
                    votes.append(Vote(voter, seat, value, tokens=3 * (voter != "rule")))
        scores = {
            seat: {"score": dice.random(), "other": 1.0} for seat in seats if dice.random() < 0.9
        }
        judgements.append(Judgement(f"j{n}", match.id, "panel", scores, "", tuple(votes)))
        even = {seat: {"score": dice.random()} for seat in seats}
        judgements.append(Judgement(f"e{n}", match.id, "even", even))
        if n % 3:
            given = {seat: {"score": float(dice.randrange(-2, 5))} for seat in seats}
            judgements.append(Judgement(f"k{n}", match.id, "alone", given if n % 5 else None, "no"))
    return matches, judgements


def test_judges_are_reported(as_recorded):
    matches, judgements = records_of_judges()
    reports = judge_report(matches, judgements)
    by_judge = {name: [j for j in judgements if j.judge == name] for name in reports}
    few = judge_report(matches, by_judge["alone"][:1])
    parts = [
        *({name: msgspec.to_builtins(report)} for name, report in reports.items()),
        *judge_sections(reports, SampleSize(24, 240)),
        *judge_sections(few, SampleSize(24, 24)),
        *judge_sections({"even": reports["even"]}, SampleSize(24, 24)),
        *judge_sections(judge_report(matches, judgements, "other"), SampleSize(24, 24)),
        msgspec.to_builtins(agreement_between(by_judge["panel"], by_judge["alone"])),
    ]
    assert not list(judge_sections({}, SampleSize(0, 0)))
    as_recorded("measured/judges.txt", "\n\n".join(map(shown, parts)))
