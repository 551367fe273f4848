"""Pay-offs where a judge sits at the table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, Literal, Self

from pydantic import Field

from equipoise.environments.verdicts.game import JUDGE, Judged
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.multiple_choice import options_of
from equipoise.types import Judgement, Match, Prompt, Turn, Vote


class StandsForAnswer(Judge):
    """Scores 1 the seat that was told to stand for the prompt's `answer`, the other 0."""

    kind: Literal["stands_for_answer"] = "stands_for_answer"
    whole_matches: ClassVar[bool] = True
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        return [self._judge(match, prompts[match.prompt]) for match in matches]

    def _judge(self, match: Match, prompt: Prompt) -> Judgement:
        gold = str(prompt.facts.get("answer"))
        right = (options_of(prompt.facts.get("choices"), gold) or {}).get(gold)
        sides = self.judge_context.game.stands_for(prompt)
        scores = {seat: {"score": float(text == right)} for seat, text in sides.items()}
        return self.judgement(match, scores or None, "" if scores else "nobody stands for anything")


class Verdict(Judge):
    """Scores the seats of the game `judged` by the verdicts given there, and those who gave them.

        compared seats:  the mean of the readable verdicts, P(this one did better); with
                         `pays: gold` what `gold` gives them
        a judge:         1 − |v − g|: v its verdict, in {0, ½, 1}; g = 1, ½ or 0 where `gold`
                         scores the first above, as or below the second; without `gold`, the mean
                         verdict of the other judges. An unreadable verdict is paid 0;
                         the utility `readable` says how many were not.

    Seats of other roles get what `gold` gives them, if anything. Votes are by the judges. A match
    with a failed move is unjudged; where `gold` or the other judges say nothing, so is the judge.
    """

    kind: Literal["verdict"] = "verdict"
    whole_matches: ClassVar[bool] = True
    known_utilities: ClassVar = ("score", "readable")
    gold: Judge | None = Field(
        None,
        description="whose scores of the inner game judges are paid to foretell: a rule, a model, "
        "a panel; null: the other judges",
    )
    pays: Literal["verdict", "gold"] = Field(
        "verdict", description="what pays the compared seats: the verdicts, or gold"
    )

    def at(self, judge_context: JudgeContext) -> Self:
        game = judge_context.game
        if not isinstance(game, Judged):
            raise ConfigError(f"judge: 'verdict' is for the game judged; this is {game.kind}")
        if self.gold is None and (game.judges < 2 or self.pays == "gold"):
            raise ConfigError(
                "judge.gold: name the judge that says who is right, such as gold: exact; without "
                "one, and with pays: verdict, two judges (game.judges) can be paid for agreeing"
            )
        gold = self.gold and self.gold.at(replace(judge_context, game=game.game))
        return super().at(judge_context).model_copy(update={"gold": gold})

    @property
    def score_range(self) -> tuple[float, float] | None:
        return self.gold.score_range if self.gold and self.pays == "gold" else (0.0, 1.0)

    def questions(self, seats: int, pool: int) -> int:
        return self.gold.questions(seats, pool) if self.gold else 0

    def inner_judges(self) -> Sequence[Judge]:
        return [self.gold] if self.gold else []

    def why_unjudgeable(self, prompt: Prompt) -> str:
        return self.gold.why_unjudgeable(prompt) if self.gold else ""

    @property
    def game(self) -> Judged:
        """The game that is played."""
        assert isinstance(self.judge_context.game, Judged)
        return self.judge_context.game

    def judged_seats(self, match: Match) -> Collection[str]:
        return (*self.game.compared, *self.game.judge_seats, *self._others(match))

    def _others(self, match: Match) -> list[str]:
        """The seats that gold pays: of roles that are neither compared nor a judge's."""
        roles = {JUDGE, *map(self.game.role, self.game.compared)}
        return [seat for seat in match.seats if self.gold and self.game.role(seat) not in roles]

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        inner = list(map(self.game.before_judges, matches))
        golds: Sequence[Judgement | None] = [None] * len(matches)
        if self.gold is not None:
            golds = self.gold.checked_judgements(inner, prompts)
        return [
            self._judge(match, prompts[match.prompt], before.turns, gold)
            for match, before, gold in zip(matches, inner, golds, strict=True)
        ]

    def _judge(
        self, match: Match, prompt: Prompt, turns: Sequence[Turn], gold: Judgement | None
    ) -> Judgement:
        for turn in match.turns:
            if turn.move.finish == "error":
                return self.judgement(match, None, f"the move failed: {turn.move.error}")
        votes: list[Vote] = []
        wins: dict[str, float | None] = {}  # a judge's seat -> P(the first of the pair did better)
        for turn in match.turns[len(turns) :]:
            shown, reading = self.game.verdict(prompt, turns, turn)
            p = reading.value
            if p is not None and shown != self.game.compared:
                p = 1 - p
            wins[turn.seat] = p
            votes.append(reading.vote(str(match.seats[turn.seat]), *shown))
        known = [p for p in wins.values() if p is not None]
        paid = [fmean(known), 1 - fmean(known)] if known else []
        reasons = [] if known else ["no judge gave a readable verdict"]
        right: float | None = None
        golden = gold.by_seat("score") if gold is not None else {}
        if gold is not None:
            both = [golden[seat] for seat in self.game.compared if seat in golden]
            reasons += [gold.reason] if len(both) < 2 else []
            right = _lead(*both) if len(both) == 2 else None
            if self.pays == "verdict":
                paid = paid
            elif right is not None:
                paid = both
            else:
                paid = []
        scores = dict(zip(self.game.compared, paid, strict=False))
        scores |= {seat: golden[seat] for seat in self._others(match) if seat in golden}
        for seat, p in wins.items():
            others = [q for name, q in wins.items() if name != seat and q is not None]
            g = fmean(others) if gold is None and others else right
            if p is None:
                scores[seat] = 0.0
            elif g is not None:
                scores[seat] = 1 - abs(p - g)
            elif gold is None:
                reasons.append("no other judge gave a readable verdict")
        by_seat = {seat: {"score": score} for seat, score in scores.items()}
        for seat in wins.keys() & by_seat.keys():
            by_seat[seat]["readable"] = float(wins[seat] is not None)
        return self.judgement(match, by_seat or None, "; ".join(reasons), votes)


def _lead(first: float, second: float) -> float:
    return (1 + (first > second) - (first < second)) / 2
