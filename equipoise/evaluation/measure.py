"""Measures beside those of `evaluate`: one number of every measured player, each a part of its own.

    measures:
      - length                                    # words an answer
      - polite.py                                 # your function (prompt, text) -> number
      - {judge: {kind: rubric, model: …}, title: helpfulness}

Every measure has a headline, a change from the start with its interval, a curve, a column of the
tables and a line in trackers. One of your own is a class with `measure`, named by its import path.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from equipoise.answer import answer_of
from equipoise.component import Component, import_object
from equipoise.evaluation.base import Arena, EvaluationPlan, Scores, Workload
from equipoise.evaluation.league_measures import mean_score
from equipoise.evaluation.measures import Estimate, Quantity, Reading, interval_of
from equipoise.evaluation.role_cross_play import has_roles, role_scores, role_turns
from equipoise.judges.base import Judge
from equipoise.payoffs.intervals import Interval
from equipoise.system.effects import Text
from equipoise.system.given_functions import given_name
from equipoise.system.user_parts import stays_unimported
from equipoise.types import PlayerId, Turn


class Measure(Component):
    """Measures one number of every player that is measured."""

    KINDS: ClassVar = {
        "judge": "equipoise.evaluation.measure:JudgeScore",
        "length": "equipoise.evaluation.measure:AnswerLength",
        "judge_attacks": "equipoise.evaluation.attack_measure:JudgeAttacks",
    }

    title: Text = Field(
        "", description="its name in the report, tables and trackers; empty: the kind's own"
    )
    unit: Text | None = Field(
        None, description="what is counted; null: % where all numbers are shares between 0 and 1"
    )
    higher_is_better: bool = Field(True, description="which way is an improvement")
    samples: int | None = Field(
        None, ge=1, description="answers to each held-out prompt; null: as many as `evaluate` reads"
    )

    @classmethod
    def build(cls, value: Any) -> Any:
        """The measure for a mapping, a kind, or whatever names a judge: its scores are measured."""
        if isinstance(value, Mapping) and "judge" in value and "kind" not in value:
            value = {**value, "kind": "judge"}
        is_function = isinstance(value, Mapping) and "source" in value
        if is_function or (isinstance(value, str) and not cls.names_a_measure(value)):
            value = {"kind": "judge", "judge": value}
        return super().build(value)

    @classmethod
    def names_a_measure(cls, name: str) -> bool:
        """True for a measure's kind and for the import path of a measure's class."""
        if name in cls.known_kinds():
            return True
        if ":" not in name or "://" in name or stays_unimported(name):
            return False
        try:
            part = import_object(name)
        except PydanticCustomError:
            return False  # the judge of this name says what is wrong with it
        return isinstance(part, type) and issubclass(part, Measure)

    @property
    def name(self) -> str:
        """The title; without one the kind, of a class of one's own its name."""
        return self.title or self.kind.rpartition(":")[2]

    @property
    def note(self) -> str:
        """A sentence under its headline and its curve."""
        return ""

    @property
    def quantity(self) -> Quantity:
        """The row by which it is shown."""
        return Quantity(
            title=self.name,
            read=lambda measures: measures.added.get(self.name, {}),
            unit=self.unit,
            higher_is_better=self.higher_is_better,
            note=self.note,
        )

    def sample_count(self, evaluation: Any) -> int:
        """The answers to each prompt: its own number, or that of the run's evaluation."""
        return self.samples or getattr(evaluation, "samples", 1)

    def planned(self, run_plan: EvaluationPlan, samples: int, played: bool) -> Workload:
        """An upper bound of its work in a run, beside that of `evaluate`.

        played: `evaluate` plays as many answers to the held-out prompts itself.
        """
        return Workload()

    @abstractmethod
    def measure(self, arena: Arena, t: int, samples: int) -> Mapping[str, Reading]:
        """The number of every measured player of generation t, by its name as `str(player)`.

        samples: answers to each held-out prompt. An `Interval` or an `Estimate` is shown with its
        interval; None is not known.
        """

    def recorded(self, arena: Arena, t: int, samples: int) -> dict[str, Estimate]:
        """`measure`, as it is recorded."""
        estimates = {}
        for player, reading in self.measure(arena, t, samples).items():
            interval = interval_of(reading)
            if interval is not None:
                estimates[str(player)] = Estimate.of(interval)
        return estimates


class AnswersMeasure(Measure):
    """A mean over the held-out answers; prompts are clusters. Base of measures of answers."""

    @abstractmethod
    def scores(self, arena: Arena, player: PlayerId, t: int, samples: int) -> Scores:
        """Prompt id -> the numbers of the player's answers, None where there is none."""

    def measure(self, arena: Arena, t: int, samples: int) -> dict[str, Interval]:
        measured = arena.learners(t) or arena.others()
        if has_roles(arena.game):
            seated = arena.players_by_role(t).values()
            measured = [player for player in measured if player in seated]
        return {
            str(player): mean_score(self.scores(arena, player, t, samples)) for player in measured
        }

    def planned(self, run_plan: EvaluationPlan, samples: int, played: bool) -> Workload:
        """Everyone who is measured answers the held-out prompts, unless it has already."""
        return Workload() if played else self.answered(run_plan, samples)

    def answered(self, run_plan: EvaluationPlan, samples: int) -> Workload:
        """The matches in which everyone who is measured answers."""
        game, league, prompts = run_plan.game, run_plan.league, run_plan.held_out
        if has_roles(game):
            moves = sum(sum(game.moves(prompt).values()) for prompt in prompts)
            meetings = len(league) * samples
            return Workload(meetings * len(prompts), meetings * moves)
        rounds = -(-samples // len(game.seats))
        matches = len(league) * len(prompts) * rounds
        return Workload(matches, matches * len(game.seats))


class JudgeScore(AnswersMeasure):
    """The mean score of a judge that only measures; a function is a judge, too.

    It may be any judge that scores an answer alone. What it cannot judge counts nowhere.
    """

    kind: Literal["judge"] = "judge"
    judge: Judge = Field(
        description="the judge, or the path of a function (prompt, text) -> number"
    )

    @property
    def name(self) -> str:
        own = self.judge.name
        if given_name(str(getattr(self.judge, "function", ""))):
            own = self.judge.title
        return self.title or own

    def planned(self, run_plan: EvaluationPlan, samples: int, played: bool) -> Workload:
        new = super().planned(run_plan, samples, played)
        judged = self.answered(run_plan, samples).matches
        return Workload(new.matches, new.moves, [(self.judge, judged, len(run_plan.game.seats))])

    def scores(self, arena: Arena, player: PlayerId, t: int, samples: int) -> Scores:
        if has_roles(arena.game):
            return role_scores(arena, t, player, samples, self.judge)
        return arena.scores(player, samples, self.judge)


class AnswerLength(AnswersMeasure):
    """The mean number of words of an answer, without its thoughts."""

    kind: Literal["length"] = "length"
    counts: Literal["words", "characters"] = Field("words", description="what is counted")

    @property
    def note(self) -> str:
        return "of an answer, without thoughts; neither way is better in itself"

    @property
    def quantity(self) -> Quantity:
        return replace(super().quantity, unit=self.unit or self.counts)

    def scores(self, arena: Arena, player: PlayerId, t: int, samples: int) -> Scores:
        answers: Mapping[str, Sequence[Turn]]
        if has_roles(arena.game):
            answers = role_turns(arena, t, player, samples, arena.judge_of(player))
        else:
            answers = arena.answers(player, samples)
        return {
            prompt: [self.length(answer_of(turn.move).text) for turn in turns]
            for prompt, turns in answers.items()
        }

    def length(self, text: str) -> float:
        """The length of a text."""
        return float(len(text) if self.counts == "characters" else len(text.split()))
