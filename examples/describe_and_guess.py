"""A game of our own, in one file: a describer puts a number into a question, a guesser
must find it.

It brings its rules, its judge, its prompts, its measure and its section of the report.
Run it from this folder:

    equipoise run describe_and_guess.yaml
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.blocks.section import Section, Table
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, Workload
from equipoise.evaluation.measures import History, Measures, Records
from equipoise.games.base import Ask, Game, Referee
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import mean_interval
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Judgement, Match, Prompt, View, record_id, user


class Numbers(Prompts):
    """Cards with a secret number from 2 to `largest`, which is also a prompt's fact."""

    kind: Literal["numbers"] = "numbers"
    cards: int = Field(512, ge=1, description="cards to train on")
    largest: int = Field(18, ge=2, description="the largest secret number")

    def load(self, folder: Path = Path()) -> PromptSource:
        """`cards` cards to train on, and held-out ones."""
        return PromptSource(self._cards(0, self.cards), self._cards(self.cards, self.held_out))

    def _cards(self, first: int, count: int) -> list[Prompt]:
        return [self._card(number) for number in range(first, first + count)]

    def _card(self, number: int) -> Prompt:
        secret = 2 + number % (self.largest - 1)
        text = f"Card {number}. The number is {secret}"
        return Prompt(record_id("card", number), (user(text),), {"secret": secret}, "numbers")


class DescribeAndGuess(Game):
    """The describer sees the secret and writes a text; the guesser sees the text alone."""

    kind: Literal["describe_and_guess"] = "describe_and_guess"

    @property
    def seats(self) -> tuple[str, ...]:
        """The describer moves first."""
        return ("describer", "guesser")

    @property
    def symmetric(self) -> bool:
        """The two seats play different roles."""
        return False

    def referee(self, prompt: Prompt) -> Referee:
        """One description, one guess."""
        description = yield Ask("describer", View(prompt.messages))
        assert not isinstance(description, list)
        yield Ask("guesser", View((user(description.text),)))


def describe(view: View, seed: int) -> str:
    """A scripted describer: it asks for a sum that gives the secret."""
    secret = int(view.messages[-1].content.split()[-1])
    first = Random(seed).randint(1, secret - 1)
    return f"What is {first} + {secret - first}?"


class Understood(Judge):
    """Both sides get 1 for a right guess, else 0; a describer that names the secret gets 0."""

    kind: Literal["understood"] = "understood"

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement a match; a match that broke off is unjudged."""
        return [self._judge(match, prompts[match.prompt]) for match in matches]

    def _judge(self, match: Match, prompt: Prompt) -> Judgement:
        moves = {turn.seat: turn.move for turn in match.turns}
        if len(moves) < 2 or any(move.finish == "error" for move in moves.values()):
            return self.judgement(match, None, "a side did not move")
        secret = str(prompt.facts["secret"])
        right = float(moves["guesser"].text.strip() == secret)
        named = secret in moves["describer"].text.split()
        scores = {"describer": {"score": 0.0 if named else right}, "guesser": {"score": right}}
        return self.judgement(match, scores)


class UnderstandingMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """How often the guesser was right, over all secrets and by their size."""

    right: Estimate
    by_size: dict[str, Estimate]

    @classmethod
    def sections(
        cls, history: History[UnderstandingMeasures], records: Records
    ) -> Iterable[Section]:
        """The curve of scores, and a table by the size of the secret."""
        yield from super().sections(history, records)
        rows = tuple(
            (f"{size}, generation {found.generation}", estimate.interval.percent())
            for found in history.measurements
            for size, estimate in found.measures.by_size.items()
        )
        table = Table(("secrets", "right guesses"), rows, title="Right guesses by size")
        yield Section("understanding", "What was understood", (table,))


class Understanding(Evaluation):
    """Right guesses on the held-out secrets, the players in the roles that they have."""

    kind: Literal["understanding"] = "understanding"
    plays: ClassVar[bool] = True
    measures: ClassVar[type[Measures]] = UnderstandingMeasures

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """One match on every held-out secret at each measurement."""
        matches = len(run_plan.held_out) * len(run_plan.rosters)
        judge = self.judge or run_plan.judges[0]
        return Workload(matches, 2 * matches, [(judge, matches, 2)])

    def measure(self, arena: Arena, t: int) -> UnderstandingMeasures:
        """Play the held-out secrets once with the players as they are now."""
        roles = arena.players_by_role(t)
        guesser = roles["guesser"]
        judge = self.judge or arena.judge_of(guesser)
        played = arena.play(roles, arena.held_out, judge, t, "all")
        secrets = {prompt.id: prompt.facts["secret"] for prompt in arena.held_out}
        rows = [
            ("up to 9" if secrets[match.prompt] <= 9 else "10 and more", score, match.prompt)
            for match, judgement in played
            if (score := judgement.score("guesser", "score")) is not None
        ]
        right = _estimate(rows)
        sizes = sorted({size for size, _, _ in rows})
        return UnderstandingMeasures(
            scores={str(guesser): right},
            score=right.mean,
            right=right,
            by_size={size: _estimate([row for row in rows if row[0] == size]) for size in sizes},
        )


def _estimate(rows: Sequence[tuple[str, float, str]]) -> Estimate:
    values = [score for _, score, _ in rows]
    return Estimate.of(mean_interval(values, [prompt for _, _, prompt in rows]))
