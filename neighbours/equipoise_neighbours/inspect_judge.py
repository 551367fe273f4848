"""Scorers of Inspect as judges."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.judges.base import last_answers
from equipoise.judges.pointwise import BatchPointwise, Verdict
from equipoise.system.effects import COMMAND, DeclaredEffect, Text, Url, effect_in
from equipoise.types import Judgement, Match, Message, Prompt
from equipoise_neighbours import inspect_worker
from equipoise_neighbours.interpreter import Interpreter


class Inspect(BatchPointwise):
    """A scorer of inspect_ai 0.3, which scores what each seat saw last and answered.

    It gets a TaskState of the view and the move; the target is the prompt's fact `target`, the
    other facts are metadata. Of letters C is 1, P ½, I and N 0; what Inspect leaves unscored is
    unjudged, with its reason.
    """

    kind: Literal["inspect"] = "inspect"
    scorer: Annotated[str, DeclaredEffect("executes", "runs the scorer {}")] = Field(
        pattern=r"^[\w.]+:\w+$", description="module:function that makes it"
    )
    options: Annotated[dict[str, Any], effect_in("Inspect")] = Field(
        default_factory=dict, description="arguments of that function"
    )
    python: Annotated[str | None, COMMAND] = Field(
        None, description="the interpreter that has inspect_ai and the scorer; null: this one"
    )
    model: Annotated[str | None, DeclaredEffect("sends", "asks Inspect's model {}")] = Field(
        None, description="the model that a grading scorer asks, by Inspect's name"
    )
    base_url: Url | None = Field(
        None, description="the address of that model's server; null: as Inspect finds it"
    )
    target: Text = Field("answer", description="the fact that is Inspect's target")
    value: Text | None = Field(
        None, description="which value is the score, of a scorer that gives several"
    )

    def prepare(self) -> None:
        """Make the scorer. Raises ConfigError."""
        self.process  # noqa: B018

    @property
    def process(self) -> "Worker":
        """The scorer at work, once in a run."""
        return self.judge_context.resources.get(self.model_dump_json(), lambda: Worker(self))

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        return self.process.verdicts(
            [self._answer(prompt, prompt.messages, text) for prompt, text in answers]
        )

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """As of all judges of single answers, but the scorer sees each seat's own view."""
        verdicts = iter(
            self.process.verdicts(
                [
                    self._answer(prompts[match.prompt], turn.view.messages, turn.move.text)
                    for match in matches
                    for turn in last_answers(match).values()
                ]
            )
        )
        return [self._judgement_by_verdicts(match, verdicts) for match in matches]

    def _answer(self, prompt: Prompt, chat: Sequence[Message], text: str) -> dict[str, Any]:
        target = prompt.facts.get(self.target, "")
        targets = target if isinstance(target, list | tuple) else [target]
        return {
            "messages": [{"role": each.role, "content": each.content} for each in chat],
            "text": text,
            "target": [str(each) for each in targets],
            "facts": prompt.facts,
        }


class Worker(Interpreter):
    """A scorer in a process of its own; see `inspect_worker`."""

    def __init__(self, judge: Inspect) -> None:
        """Raises ConfigError where the interpreter, inspect_ai or the scorer is missing."""
        python = judge.python or sys.executable
        super().__init__(python, inspect_worker.__file__, f"'{judge.scorer}'", "judge.python")
        job = judge.model_dump(
            mode="json", include={"scorer", "options", "model", "base_url", "value"}
        )
        if fault := self.begin("fault", **job, path=os.getcwd())["fault"]:
            raise ConfigError(f"judge: '{judge.scorer}' cannot be made in {python}: {fault}")

    def verdicts(self, answers: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """The utilities of each answer, or why there are none."""
        if not answers:
            return []
        verdicts = self.exchange("verdicts", answers=answers)["verdicts"]
        if not isinstance(verdicts, list) or len(verdicts) != len(answers):
            raise EquipoiseError(f"{self.what} did not judge each of {len(answers)} answers once")
        return verdicts
