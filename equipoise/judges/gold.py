"""One judge for prompts of many tasks, which picks a rule by the prompt's facts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, field_validator

from equipoise.judges.base import Grades, Judge, JudgeContext
from equipoise.judges.math_in_answer import looks_mathematical
from equipoise.judges.multiple_choice import Choice, options_of
from equipoise.judges.pointwise import BatchPointwise, Pointwise, Verdict
from equipoise.judges.rules import Exact, Math, Refusal
from equipoise.types import Judgement, Match, Prompt, Vote

# The task_type of prompts whose answers only a model can compare.
UNCHECKED = "reward_model"


class Gold(BatchPointwise):
    """Judges each prompt by its facts: `harmful` by Refusal, `answer` by another rule.

    Choice is for prompts with `choices` and for answers that are true or false, Math for answers
    that look like mathematics, Exact for the others. A prompt with neither fact, or with
    `task_type` reward_model (whose `answer` is one good answer among many), is unjudged, or goes to
    `otherwise`, whose scores have a scale of their own.
    """

    kind: Literal["gold"] = "gold"
    refusal: Refusal = Field(
        default_factory=Refusal, description="for prompts with the fact `harmful`"
    )
    mathematics: Math = Field(
        default_factory=Math, description="for prompts whose `answer` is mathematics"
    )
    choice: Choice = Field(
        default_factory=Choice, description="for prompts whose `answer` is one of given options"
    )
    exact: Exact = Field(default_factory=Exact, description="for prompts with any other `answer`")

    otherwise: Judge | None = Field(
        None, description="judges the prompts that no rule can: a rubric, a reward_model, …"
    )

    @field_validator("otherwise")
    @classmethod
    def _scores_alone(cls, otherwise: Judge | None) -> Judge | None:
        if otherwise is not None and otherwise.compares:
            raise ValueError(
                f"'{otherwise.kind}' compares answers, and gold scores each alone; "
                "name a judge that does, like rubric or reward_model"
            )
        return otherwise

    def at(self, judge_context: JudgeContext) -> Self:
        seated = super().at(judge_context)
        if self.otherwise is None:
            return seated
        otherwise = self.otherwise.at(judge_context)
        return seated.model_copy(update={"otherwise": otherwise})

    def questions(self, seats: int, pool: int) -> int:
        """The questions of `otherwise`, as if no rule could judge any prompt."""
        return 0 if self.otherwise is None else self.otherwise.questions(seats, pool)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        if self.otherwise is None:
            return super().judge(matches, prompts)
        by_rule = [match for match in matches if self.rule(prompts[match.prompt])]
        others = [match for match in matches if not self.rule(prompts[match.prompt])]
        judgements = {each.match: each for each in super().judge(by_rule, prompts)}
        for match, other in zip(
            others, self.otherwise.checked_judgements(others, prompts), strict=True
        ):
            judgements[match.id] = self.judgement(
                match, other.scores, other.reason, other.votes, other.reviews
            )
        return [judgements[match.id] for match in matches]

    def reweigh(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        other = self.otherwise if judgement.votes else None
        return judgement if other is None else other.reweigh(judgement, ratings)

    def grades_by_votes(self, votes: Sequence[Vote]) -> Grades:
        return (self.otherwise or super()).grades_by_votes(votes)

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        verdicts: list[Verdict] = [self._why_no_rule(prompt) for prompt, _ in answers]
        places: dict[str, list[int]] = defaultdict(list)
        for place, (prompt, _) in enumerate(answers):
            places[self.rule(prompt)].append(place)
        rules: dict[str, Pointwise] = {
            "refusal": self.refusal,
            "choice": self.choice,
            "mathematics": self.mathematics,
            "exact": self.exact,
        }
        for name in [name for name in rules if name in places]:
            by_rule = rules[name].scores([answers[place] for place in places[name]])
            for place, verdict in zip(places[name], by_rule, strict=True):
                verdicts[place] = verdict
        return verdicts

    @property
    def whole_matches(self) -> bool:  # type: ignore[override]
        return self.otherwise is not None and self.otherwise.whole_matches

    @property
    def score_range(self) -> tuple[float, float] | None:
        if self.otherwise is None:
            return 0.0, 1.0
        limits = self.otherwise.score_range
        return limits and (min(0.0, limits[0]), max(1.0, limits[1]))

    def why_unjudgeable(self, prompt: Prompt) -> str:
        name = self.rule(prompt)
        if not name and self.otherwise is not None:
            return self.otherwise.why_unjudgeable(prompt)
        if not name:
            return self._why_no_rule(prompt)
        rule: Pointwise = getattr(self, name)
        return rule.why_unjudgeable(prompt)

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        if self.otherwise is not None:
            rest = [prompt for prompt in prompts if not self.rule(prompt)]
            yield from self.otherwise.faults_of_prompts(rest)

    def rule(self, prompt: Prompt) -> str:
        """The setting whose judge the prompt's facts call for; "" where none can judge it."""
        if prompt.facts.get(self.refusal.fact) is not None:
            return "refusal"
        gold = prompt.facts.get(self.exact.fact)
        if gold is None or prompt.facts.get("task_type") == UNCHECKED:
            return ""
        if options_of(prompt.facts.get(self.choice.choices), gold) is not None:
            return "choice"
        return "mathematics" if looks_mathematical(gold) else "exact"

    def _why_no_rule(self, prompt: Prompt) -> str:
        if prompt.facts.get("task_type") == UNCHECKED:
            return (
                "no rule can check this task (task_type reward_model); use a reward "
                "model or a judge that compares"
            )
        return f"the prompt has none of the facts '{self.refusal.fact}' and '{self.exact.fact}'"
