"""A judge behind a gate: what does not pass gets the lowest score, and is not judged further."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Literal, Self

import msgspec
from pydantic import Field, model_validator

from equipoise.component import has_stand_ins, nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.no_tricks import NoTricks
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Prompt, Vote

CLOSED = "gate"  # the utility that says whether an answer passed


class Gated(Judge):
    """Scores as `judge` does what passes the `gate`, and anything else by `floor`.

    An answer passes where the gate scores it `passes_from`; the utility `gate` is 1 there, else 0.
    What fails is not shown to the judge, which is asked less. In a comparison it loses to whatever
    passes, and ties with what fails, too. An answer that the gate cannot judge is unjudged. A judge
    that reads whole matches is shown them whole, and what fails gets the floor afterwards.
    """

    kind: Literal["gated"] = "gated"
    judge_of_answers: Judge = Field(description="the judge of answers that pass")
    gate: Judge = Field(default_factory=NoTricks, description="scores each answer alone")
    passes_from: float = Field(
        default=1.0, description="the gate's score from which on an answer passes"
    )
    floor: float | None = Field(
        default=None,
        description="the score of what fails; null: the least that the judge can give, where that "
        "is known and finite",
    )
    roles: tuple[Text, ...] | None = Field(
        default=None,
        description="whose answers the gate is for, by their roles in the game, as [debater]; "
        "null: everybody's",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.gate.compares:
            raise ValueError(f"gate: '{self.gate.kind}' compares answers; a gate scores each alone")
        if self.judge_of_answers.compares and self.floor is not None:
            raise ValueError("floor: is not read where the judge compares; what fails loses")
        if self.lowest is None and not has_stand_ins(self.judge_of_answers):
            raise ValueError(
                f"floor: the least score of '{self.judge_of_answers.title}' is not known; set floor"
            )
        return self

    @property
    def lowest(self) -> float | None:
        """The score of what fails; None where it is not known."""
        if self.floor is not None:
            return self.floor
        limits = self.judge_of_answers.score_range
        if limits is None or not math.isfinite(limits[0]):
            return None
        return limits[0]

    @property
    def compares(self) -> bool:  # type: ignore[override]
        return self.judge_of_answers.compares

    @property
    def whole_matches(self) -> bool:  # type: ignore[override]
        return self.judge_of_answers.whole_matches

    @property
    def known_utilities(self) -> tuple[str, ...] | None:  # type: ignore[override]
        inner = self.judge_of_answers.known_utilities
        return None if inner is None else tuple(dict.fromkeys((*inner, CLOSED)))

    @property
    def title(self) -> str:
        return f"{self.judge_of_answers.title} behind {self.gate.title}"

    @property
    def score_range(self) -> tuple[float, float] | None:
        limits = self.judge_of_answers.score_range
        if limits is None or self.lowest is None:
            return None
        low, high = limits
        return min(low, self.lowest), max(high, self.lowest)

    def inner_judges(self) -> Sequence[Judge]:
        return [self.judge_of_answers, self.gate]

    def at(self, judge_context: JudgeContext) -> Self:
        self._check_roles(judge_context.game)
        inner = self.judge_of_answers.at(judge_context)
        gate = self.gate.at(judge_context)
        placed = super().at(judge_context)
        return placed.model_copy(update={"judge_of_answers": inner, "gate": gate})

    def _check_roles(self, game: Game) -> None:
        """Raises ConfigError where it is unclear who is gated, or what the judge would be shown."""
        for role in self.roles or ():
            if role not in game.roles:
                raise ConfigError(
                    f"judge.roles: game '{game.kind}' has no role '{role}'; "
                    f"{nearest(role, list(game.roles))}"
                )
        if not self.whole_matches:
            return
        name = self.judge_of_answers.kind
        if self.compares:
            raise ConfigError(
                f"judge.judge_of_answers: '{name}' compares the seats of whole matches, and a gate "
                "takes some away; put the gate beside it: kind: panel, how: majority"
            )
        if self.roles is None and len(game.roles) > 1:
            raise ConfigError(
                f"judge.roles: '{name}' reads whole matches, in which some write no answers; say "
                f"whose the gate is for, as roles: [{game.roles[0]}]; game '{game.kind}' has "
                f"{', '.join(game.roles)}"
            )

    def judged_seats(self, match: Match) -> Collection[str]:
        return self.judge_of_answers.judged_seats(match)

    def questions(self, seats: int, pool: int) -> int:
        to_judge = self.judge_of_answers.questions(seats, pool)
        return to_judge + self.gate.questions(seats, pool)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        return self.judge_of_answers.why_unjudgeable(prompt) or self.gate.why_unjudgeable(prompt)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        gates = self.gate.checked_judgements(matches, prompts)
        shown = list(matches)
        if not self.whole_matches:
            shown = [self.passed(match, gate) for match, gate in zip(matches, gates, strict=True)]
        to_judge = [match for match in shown if match.turns]
        answered = self.judge_of_answers.checked_judgements(to_judge, prompts)
        inner = {judgement.match: judgement for judgement in answered}
        judgements = []
        for match, gate in zip(matches, gates, strict=True):
            judgements.append(self.combined(match, gate, inner.get(match.id)))
        return judgements

    def passed(self, match: Match, gate: Judgement) -> Match:
        """The match with those seats alone whose answers passed."""
        scores = gate.by_seat("score")
        kept = [
            seat
            for seat in match.seats
            if not self._gates(seat) or scores.get(seat, -math.inf) >= self.passes_from
        ]
        turns = tuple(turn for turn in match.turns if turn.seat in kept)
        seats = {seat: match.seats[seat] for seat in kept}
        return msgspec.structs.replace(match, seats=seats, turns=turns)

    def _gates(self, seat: str) -> bool:
        """True where the gate is for this seat's answers."""
        return self.roles is None or self.judge_context.game.role(seat) in self.roles

    def combined(self, match: Match, gate: Judgement, inner: Judgement | None) -> Judgement:
        """The judgement of a match by its gate and, of what passed, by the judge."""
        by_gate = {
            seat: score for seat, score in gate.by_seat("score").items() if self._gates(seat)
        }
        judged = (inner and inner.scores) or {}
        failing = [seat for seat in by_gate if by_gate[seat] < self.passes_from]
        passing = [seat for seat in match.seats if seat in by_gate and seat not in failing]
        passing += [seat for seat in match.seats if not self._gates(seat)]
        scores: dict[str, dict[str, float]] = {}
        for seat in failing:
            scores[seat] = {"score": self.score_of_failed(passing, failing), CLOSED: 0.0}
        for seat in passing:
            score = judged.get(seat, {}).get("score")
            if self.compares:
                score = share_of_wins(score, len(passing), len(failing))
            if score is not None:
                passed = {CLOSED: 1.0} if self._gates(seat) else {}
                scores[seat] = {**judged.get(seat, {}), "score": score, **passed}
        reasons = [gate.reason] if gate.reason else []
        if inner is not None and inner.reason and any(seat not in scores for seat in passing):
            reasons.append(inner.reason)
        votes = [] if inner is None else list(inner.votes)
        if self.compares:
            for winner, loser in product(passing, failing):
                votes.append(Vote(CLOSED, winner, 1.0, loser))
                votes.append(Vote(CLOSED, loser, 0.0, winner))
        reviews = () if inner is None else inner.reviews
        return self.judgement(match, scores or None, "; ".join(reasons), votes, reviews)

    def score_of_failed(self, passing: Sequence[str], failing: Sequence[str]) -> float:
        """The floor; of a comparison the mean of defeats by what passed and ties with the rest."""
        if not self.compares:
            assert self.lowest is not None
            return self.lowest
        others = len(passing) + len(failing) - 1
        return 0.5 * (len(failing) - 1) / others if others else 0.5


def share_of_wins(score: float | None, passing: int, failing: int) -> float | None:
    """The mean over all others of a score over those that passed and wins over those that failed.

    >>> share_of_wins(0.25, 3, 2)
    0.625
    """
    rivals = passing - 1
    if not failing:
        return score
    if not rivals:
        return 1.0
    if score is None:
        return None
    return (score * rivals + failing) / (rivals + failing)
