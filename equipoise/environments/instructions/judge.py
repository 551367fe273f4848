"""The judge of instructions that a rule can check: the share of them that is followed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise.environments.instructions.checkers import check
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt


class FollowsInstructions(Pointwise):
    """Reads a prompt's facts `instruction_id_list` and `kwargs`, IFEval's columns.

    Utilities in [0, 1]: `score` (the share followed, or 1 only where all are, by `level`), `strict`
    and `loose` (shares), `all_strict` and `all_loose`. An answer of which an instruction could not
    be checked has no score, and the reason names it.
    """

    kind: Literal["instructions"] = "instructions"
    reading: Literal["strict", "loose"] = Field(
        "strict", description="loose: `score` forgives an extra first or last line"
    )
    level: Literal["instruction", "prompt"] = Field(
        "instruction", description="`score`: the share followed, or 1 where all of a prompt's are"
    )

    def score(self, prompt: Prompt, text: str) -> Verdict:
        reason = self.why_unjudgeable(prompt)
        if reason:
            return reason
        names = prompt.facts["instruction_id_list"]
        question = prompt.messages[-1].content if prompt.messages else ""
        arguments = prompt.facts.get("kwargs") or [{}] * len(names)
        checks = check(names, [dict(each or {}) for each in arguments], question, text)
        problems = [verdict.problem for verdict in checks if verdict.problem]
        if problems:
            return "; ".join(problems)
        followed = {
            "strict": [bool(verdict.strict) for verdict in checks],
            "loose": [bool(verdict.loose) for verdict in checks],
        }
        share = {name: sum(row) / len(row) for name, row in followed.items()}
        every = {f"all_{name}": float(all(row)) for name, row in followed.items()}
        chosen = share if self.level == "instruction" else every
        name = self.reading if self.level == "instruction" else f"all_{self.reading}"
        return {"score": chosen[name], **share, **every}

    @property
    def score_range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """The reason that the prompt carries no instructions, else ""."""
        if not prompt.facts.get("instruction_id_list"):
            return "the prompt carries no instructions (fact `instruction_id_list`)"
        return ""
