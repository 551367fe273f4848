"""Tasks of lm-eval as a named set: `{kind: lm_eval, tasks: [arc_easy], limit: 50}`."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace
from pydantic import model_validator

from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.harnesses.base import Scores
from equipoise.evaluation.harnesses.lm_eval_harness import LmEval
from equipoise.evaluation.sets.base import Benchmark
from equipoise.judges.base import JudgeContext
from equipoise.ledger.item_scores import Answers, Item, Items, ItemScores, Judged

IDLE = {  # settings of sets that lm-eval does not take -> what to write instead
    "judge": "its tasks have rules of their own",
    "samples": "its tasks say how often they sample",
    "temperature": "write gen_kwargs: {temperature: …}",
    "max_new_tokens": "write gen_kwargs: {max_gen_toks: …}",
}


class LmEvalSet(LmEval, Benchmark):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Tasks that lm-eval asks and scores itself, with the generation's own weights.

    One task is one result under the set's name; several have a result each, `SET/TASK`.
    """

    kind: Literal["lm_eval"] = "lm_eval"

    @model_validator(mode="after")
    def _has_no_idle_settings(self) -> "LmEvalSet":
        for name, instead in IDLE.items():
            if getattr(self, name) != Benchmark.model_fields[name].default:
                raise ValueError(f"{name}: is no setting of lm_eval; {instead}")
        return self

    @property
    def headline(self) -> str:
        """Stands for the first metric of a task, which only the results name."""
        return "score"

    @property
    def has_one_task(self) -> bool:
        """True for the name of a single task, no pattern of names."""
        return len(self.tasks) == 1 and not set(self.tasks[0]) & set("*?[")

    def items(self) -> list[Item]:
        """None: lm-eval reads its tasks' documents itself."""
        return []

    def load(self) -> list[Item]:
        return []

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
        """The fault of an lm-eval that is not installed, or lacks a task."""
        try:
            _ = self.prepared
        except ConfigError as error:
            yield str(error)

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        raise DataError("lm-eval scores its tasks itself")

    def in_this_set(self, name: str, measured: Sequence[Scores]) -> list[Scores]:
        """What lm-eval measured as results of the set `name`, with the set's settings.

        A set that was not named, but for a sweep, is called as its tasks.
        """
        base, bracket, varied = name.partition("[")
        scores = []
        for result, items in measured:
            title = base
            if base == self.kind:
                title = result.name
            elif len(measured) > 1:
                title = f"{base}/{result.name}"
            own = replace(
                result,
                name=f"{title}{bracket}{varied}",
                part=self.part,
                settings={**result.settings, **self.settings()},
            )
            scores.append(Scores(own, items))
        return scores
