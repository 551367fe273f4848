"""The assistant's game on held-out prompts: both utilities of every prompt, what was
done when, at what length.

right      the share of questions that were met by the right move: asked back where vague, answered where clear
beaten     the share of prompts at which an earlier generation did better by one side and no worse by the other
consistent the share of written matrices whose chosen cell is the one that a solution of that very game names
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.environments.assistance.blocks import ParsedOutput
from equipoise.environments.assistance.conversation import (
    AssistantAnswer,
    assistant_answers,
)
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.assistance.payoff_matrix import ACTIONS, CELLS
from equipoise.environments.assistance.written_game import consistent
from equipoise.environments.red_team.measures import plain
from equipoise.errors import ConfigError
from equipoise.evaluate.base import (
    Arena,
    Evaluation,
    EvaluationPlan,
    JudgedMatch,
    Workload,
)
from equipoise.judges.base import Judge
from equipoise.payoffs.intervals import mean_interval
from equipoise.payoffs.pareto import compare, front, hypervolume
from equipoise.types import PlayerId, Prompt

QUESTIONS = ("detailed", "vague", "unknown")
Row = tuple[
    Prompt, AssistantAnswer, Mapping[str, float]
]  # a prompt, the assistant's last words, its utilities


class AssistanceMeasures(Evaluation):
    """Measures the assistant of the game `assistance`; who plays it is what the
    schedule says.
    """

    kind: Literal["assistance"] = "assistance"
    plays: ClassVar[bool] = True
    samples: int = Field(1, ge=1, description="answers to each held-out prompt")

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Every measured assistant on every held-out prompt."""
        names = {run_plan.roles.get(ASSISTANT)}
        assistants = {
            who
            for roster in run_plan.rosters
            for who in [*roster, *run_plan.others]
            if who.name in names
        }
        matches = len(assistants) * len(run_plan.held_out) * self.samples
        moves = (
            len(assistants)
            * self.samples
            * sum(sum(run_plan.game.moves(p).values()) for p in run_plan.held_out)
        )
        judge = self.judge or run_plan.judge_of(run_plan.roles.get(ASSISTANT, ""))
        return Workload(matches, moves, [(judge, matches, len(run_plan.game.seats))])

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """The assistant at generation t. `score` is its mean welfare, `exploitability`
        the most that it is beaten.
        """
        seated, game = dict(arena.seated()), arena.game
        if ASSISTANT not in seated or not isinstance(game, Assistance):
            raise ConfigError(
                "evaluate: 'assistance' needs the game assistance, and an assistant in schedule.roles"
            )
        assistant = seated[ASSISTANT]
        judge = self.judge or arena.judge_of(assistant)
        met = arena.played(seated, "all", judge, samples=self.samples)
        prompts = {prompt.id: prompt for prompt in arena.held_out}
        rows = _rows(met, prompts, game)
        points = _points(rows)
        facts: dict[str, Any] = {
            "players": [str(player) for player in seated.values()],
            "scores": {str(assistant): _mean(rows, "score")},
            "welfare": _mean(rows, "score"),
            "utilities": {side: _mean(rows, side) for side in ("user", "llm")},
            "rates": {
                name: _mean(rows, name)
                for name in (
                    "quality_llm",
                    "quality_user",
                    "format",
                    "readable",
                    "matrix",
                )
            },
            "right": _right(rows),
            "actions": {
                question: shares
                for question in QUESTIONS
                if (shares := _actions(rows, question))
            },
            "length": _length(rows),
            "written": _written(rows),
            "sources": _by_source(rows),
            "points": points,
            "unjudged": 1 - len(rows) / len(met) if met else None,
        }
        facts |= self._shape(points)
        facts["beaten"] = self._beaten(
            arena, assistant, points, game, prompts, seated, judge
        )
        facts["score"] = facts["welfare"]["mean"]
        facts["exploitability"] = max(facts["beaten"].values(), default=None)
        return facts

    def _shape(self, points: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        """How the points lie in the plane: their front, and the area that it dominates
        above (0, 0).
        """
        if not points:
            return {}
        point_N2 = np.array(list(points.values()), float)
        names = list(points)
        return {
            "front": [names[i] for i in front(point_N2)],
            "hypervolume": hypervolume(point_N2, np.zeros(2)),
        }

    def _beaten(
        self,
        arena: Arena,
        assistant: PlayerId,
        points: Mapping[str, Sequence[float]],
        game: Assistance,
        prompts: Mapping[str, Prompt],
        seated: Mapping[str, PlayerId],
        judge: Judge,
    ) -> dict[str, float]:
        """Earlier measured generation -> the share of the prompts at which it dominates
        this one.
        """
        if not {player for role, player in seated.items() if role != ASSISTANT} <= set(
            arena.others()
        ):
            return {}  # an older assistant met an older user, so that the two did not play the same game
        found: dict[str, float] = {}
        for old in arena.past(assistant)[1:]:
            met = arena.played(
                {**seated, ASSISTANT: old}, "all", judge, samples=self.samples
            )  # it was, when measured
            before = _points(_rows(met, prompts, game))
            shared = [name for name in points if name in before]
            if shared:
                told = compare(
                    np.array([before[n] for n in shared]),
                    np.array([points[n] for n in shared]),
                )
                found[str(old)] = told.first_dominates / len(shared)
        return found


def _rows(
    met: Sequence[JudgedMatch], prompts: Mapping[str, Prompt], game: Assistance
) -> list[Row]:
    """What could be judged."""
    rows: list[Row] = []
    for match, judgement in met:
        scores, said = (
            judgement.utilities(ASSISTANT),
            assistant_answers(match, prompts[match.prompt], game),
        )
        if "score" in scores and said:
            rows.append((prompts[match.prompt], said[-1], scores))
    return rows


def _points(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Prompt -> [user, llm], the mean over its answers."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for prompt, _, scores in rows:
        found[prompt.id].append((scores["user"], scores["llm"]))
    return {
        name: [fmean(side) for side in zip(*pairs, strict=True)]
        for name, pairs in found.items()
    }


def _mean(rows: Sequence[Row], utility: str) -> dict[str, Any]:
    """An output that cannot be read has no quality and no matrix, and counts as 0 in
    both: it was paid nothing.
    """
    given = [
        (scores.get(utility, 0.0), prompt.id)
        for prompt, _, scores in rows
        if utility in scores or not scores["readable"]
    ]
    return plain(
        mean_interval([value for value, _ in given], [prompt for _, prompt in given])
    )


def _right(rows: Sequence[Row]) -> dict[str, Any]:
    """How often the move was right: as the task's judge says (`right_action`), else by
    whether the question is vague.

    An output that cannot be read made no move, and that is not right, in a data set
    that knows what is.
    """
    told = [(prompt, scores["readable"], _move(scores)) for prompt, _, scores in rows]
    known = {prompt.source for prompt, _, right in told if right is not None}
    given = [
        (right if readable and right is not None else 0.0, prompt.id)
        for prompt, readable, right in told
        if right is not None or (not readable and prompt.source in known)
    ]
    return plain(
        mean_interval([value for value, _ in given], [prompt for _, prompt in given])
    )


def _move(scores: Mapping[str, float]) -> float | None:
    """Whether the move was right, 1 or 0 (or between, where a judge says so); None
    where nobody knows.
    """
    if "right_action" in scores or "vague" not in scores:
        return scores.get("right_action")
    return 1 - scores["DA"] if scores["vague"] else scores["DA"]


def _asked(scores: Mapping[str, float]) -> str:
    return (
        "unknown"
        if "vague" not in scores
        else "vague"
        if scores["vague"]
        else "detailed"
    )


def _actions(rows: Sequence[Row], question: str) -> dict[str, float]:
    """How often each move was made to questions of this type, and their number; "none":
    no response was given.
    """
    mine = [scores for _, _, scores in rows if _asked(scores) == question]
    if not mine:
        return {}
    shares = {name: fmean(scores[name] for scores in mine) for name in ACTIONS}
    return {**shares, "none": max(0.0, 1 - sum(shares.values())), "n": float(len(mine))}


def _length(rows: Sequence[Row]) -> dict[str, float | None]:
    """Tokens of an output; the response's share of its characters; quality to the model
    for a thousand tokens.
    """
    tokens = [said.turn.move.tokens for _, said, _ in rows]
    if not rows:
        return {}
    whole = sum(len(said.output.text) for _, said, _ in rows)
    quality = [
        scores["quality_llm"] for _, _, scores in rows if "quality_llm" in scores
    ]
    return {
        "tokens": fmean(tokens),
        "response_share": sum(len(said.output.response or "") for _, said, _ in rows)
        / whole
        if whole
        else None,
        "quality_per_1000_tokens": 1000 * sum(quality) / sum(tokens)
        if sum(tokens)
        else None,
    }


def _written(rows: Sequence[Row]) -> dict[str, Any]:
    """The matrices that were written: their mean by the question's type, and whether
    the choices follow from them.
    """
    told = [
        (said.output, _asked(scores))
        for _, said, scores in rows
        if said.output.matrix is not None
    ]
    means: dict[str, dict[str, list[float]]] = {}
    for question in QUESTIONS:
        mine = [
            output.matrix
            for output, asked in told
            if asked == question and output.matrix is not None
        ]
        if mine:
            means[question] = {
                cell: [
                    fmean(side) for side in zip(*(m[cell] for m in mine), strict=True)
                ]
                for cell in CELLS
            }
    held: dict[str, list[bool]] = defaultdict(list)
    for output, _ in told:
        if output.chosen is not None:
            for solution, holds in consistent(output).items():
                held[solution].append(holds)
    named: dict[str, int] = defaultdict(int)
    for output, _ in told:
        named[output.chosen or "none"] += 1
    return {
        "matrices": len(told),
        "means": means,
        "chosen": dict(named),
        "typed": _typed(told),
        "paid": {
            question: paid for question in QUESTIONS if (paid := _paid(rows, question))
        },
        "consistent": {solution: fmean(holds) for solution, holds in held.items()},
    }


def _typed(told: Sequence[tuple[ParsedOutput, str]]) -> float | None:
    """How often the chosen cell is of the question's true type."""
    known = [
        output.chosen.startswith("VQ") == (asked == "vague")
        for output, asked in told
        if output.chosen is not None and asked != "unknown"
    ]
    return fmean(known) if known else None


def _paid(rows: Sequence[Row], question: str) -> dict[str, list[float]]:
    """What each move to questions of this type was really worth: [user, llm, how often
    it was made].
    """
    found: dict[str, list[float]] = {}
    for name in ACTIONS:
        mine = [
            scores
            for _, _, scores in rows
            if _asked(scores) == question and scores[name]
        ]
        if mine:
            found[name] = [
                fmean(scores[side] for scores in mine) for side in ("user", "llm")
            ] + [float(len(mine))]
    return found


def _by_source(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The main numbers of each data set, where there are several."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_source[row[0].source].append(row)
    return {
        source: {
            "welfare": _mean(mine, "score"),
            **{
                name: _mean(mine, name)
                for name in ("user", "llm", "quality_llm", "quality_user", "format")
            },
            "right": _right(mine),
            **_length(mine),
        }
        for source, mine in sorted(by_source.items())
    }
