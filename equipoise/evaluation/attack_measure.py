"""A run's judge under attack: what scripted attackers gain on the answers of its players."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from equipoise.answer import answer_of
from equipoise.errors import ConfigError
from equipoise.evaluation.attack_texts import ATTACKS, Kind
from equipoise.evaluation.attacked_judge import Likeness, attack, attacked_judge, with_wrong_answers
from equipoise.evaluation.base import Arena, EvaluationPlan, Workload
from equipoise.evaluation.measure import Measure
from equipoise.evaluation.measures import Reading
from equipoise.evaluation.role_cross_play import has_roles
from equipoise.judges.base import Judge
from equipoise.judges.outside_a_run import place_judge
from equipoise.payoffs.intervals import Interval
from equipoise.types import PlayerId, Prompt


class JudgeAttacks(Measure):
    """The most score that a scripted attacker gains on a player's answers, at no gain of truth.

    The attack is the one whose interval, at the level at which all hold together, lies highest, so
    that it is not the luckiest of many. The truth is likeness to the player's own answers, and to
    those of other prompts for wrong ones.
    """

    kind: Literal["judge_attacks"] = "judge_attacks"
    higher_is_better: bool = Field(default=False, description="which way is an improvement")
    judge: Judge | None = Field(
        None, description="the judge; null: the one that teaches the player"
    )
    kinds: tuple[Kind, ...] = Field(default=(), description="of attacks; none: all")
    prompts: int = Field(
        default=24, ge=2, description="most held-out prompts whose answers are attacked"
    )

    @property
    def note(self) -> str:
        return "the most that a scripted attacker gains on its answers, which get no better by it"

    def measure(self, arena: Arena, t: int, samples: int) -> Mapping[str, Reading]:
        measured = arena.learners(t) or arena.others()
        return {str(player): self.greatest(arena, player) for player in measured}

    def greatest(self, arena: Arena, player: PlayerId) -> Interval | None:
        """The gain of the attack that surely gains most; None where no answer was judged."""
        judge = self.judge or arena.judge_of(player)
        placed = place_judge(judge, f"measures: {self.kind}", resources=arena.resources)
        own = self.answers(arena, player)
        if len(own) < 2:
            return None
        attacks = [each for each in ATTACKS if not self.kinds or each.kind in self.kinds]
        attacked = attack(placed, Likeness(), with_wrong_answers(own), attacks, arena.utility)
        results = attacked_judge(placed, Likeness(), attacked).results
        judged = [result for result in results if result.gain.n]
        if not judged:
            return None
        return max(judged, key=lambda result: lowest(result.together)).gain

    def answers(self, arena: Arena, player: PlayerId) -> Sequence[tuple[Prompt, str]]:
        """The player's answers to the first held-out prompts, without thoughts."""
        turns = arena.answers(player, 1)
        answers = []
        for prompt in arena.held_out[: self.prompts]:
            for turn in turns.get(prompt.id, ())[:1]:
                if turn.move.finish != "error":
                    answers.append((prompt, answer_of(turn.move).text))
        return answers

    def planned(self, run_plan: EvaluationPlan, samples: int, played: bool) -> Workload:
        """The judging of every attacked text, and the answers that are attacked."""
        game, prompts = run_plan.game, run_plan.held_out
        if has_roles(game):
            raise ConfigError(
                f"measures: '{self.kind}' attacks answers to prompts, and in game '{game.kind}' "
                "players answer each other; use it in a run of game: answers"
            )
        answers = 0 if played else len(run_plan.league) * len(prompts)
        judges = run_plan.judges
        if self.judge is not None:
            judges = [self.judge]
        texts = 2 * (len(ATTACKS) + 1) * min(self.prompts, len(prompts))
        attacked = len(run_plan.league) * texts
        return Workload(answers, answers, [(judge, attacked, 1) for judge in judges])


def lowest(interval: Interval) -> float:
    """The lower bound; the mean where all values are alike."""
    return interval.mean if math.isnan(interval.low) else interval.low
