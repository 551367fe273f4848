"""One judge for prompts of many tasks, which picks a rule by the prompt's facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from equipoise.judges.mathematics import looks_mathematical
from equipoise.judges.multiple_choice import Choice, options_of
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.judges.rules import Exact, Math, Refusal
from equipoise.types import Prompt

# The task_type of prompts whose answers only a model can compare.
UNCHECKED = "reward_model"


class Gold(Pointwise):
    """Judges each prompt by its facts: `harmful` by Refusal, `answer` by another rule.

    Choice is for prompts with `choices` and for answers that are true or false, Math for
    answers that look like mathematics, Exact for the others. A prompt with neither fact is
    unjudged. So is one whose `task_type` is reward_model: its `answer` is one good answer
    among many, to which no rule can compare another.
    """

    kind: Literal["gold"] = "gold"
    refusal: Refusal = Field(
        default_factory=Refusal, description="for prompts with the fact `harmful`"
    )
    mathematics: Math = Field(
        default_factory=Math, description="for prompts whose `answer` is mathematics"
    )
    choice: Choice = Field(
        default_factory=Choice,
        description="for prompts whose `answer` is one of given options",
    )
    exact: Exact = Field(
        default_factory=Exact, description="for prompts with any other `answer`"
    )

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """A verdict for each (prompt, text), in order.

        Each rule judges its own prompts in one batch.
        """
        verdicts: list[Verdict] = [_why_unjudged(prompt) for prompt, _ in answers]
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

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """The verdict of the rule that the prompt's facts call for; a batch is cheaper."""
        return self.scores([(prompt, text)])[0]

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


def _why_unjudged(prompt: Prompt) -> str:
    if prompt.facts.get("task_type") == UNCHECKED:
        return (
            "no rule can check this task (task_type reward_model); use a reward "
            "model or a judge that compares"
        )
    return "the prompt has none of the facts 'harmful' and 'answer'"
