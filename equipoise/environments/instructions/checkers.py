"""Checks that an answer follows an instruction, by `if-verifiable`'s of IFEval and IFBench.

Instructions have the benchmarks' names, such as `punctuation:no_comma`. Where NLTK's data is
missing, Punkt runs on a list of abbreviations (`payoffs/words.py`).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.payoffs.words import find_punkt
from equipoise.types import Prompt

MISSING = (
    "instructions are checked by the package if-verifiable; pip install 'equipoise[instructions]'"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict of one checker on one answer.

    `strict` is of the answer as it stands; `loose` forgives a first or last line too many, and
    Markdown's asterisks. Both are None where the checker failed; `problem` says why.
    """

    instruction: str
    strict: bool | None
    loose: bool | None
    problem: str = ""


@cache
def ifeval_checkers() -> Mapping[str, Any]:
    """instruction -> its checker, of IFEval. Raises ConfigError without the library."""
    try:
        import langdetect
        from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    langdetect.DetectorFactory.seed = 0  # it draws, and would answer otherwise each time
    find_punkt()
    return INSTRUCTION_DICT


@cache
def ifbench_checkers() -> Mapping[str, Any]:
    """instruction -> its checker, of IFBench; loaded without asking the network."""
    ifeval_checkers()
    import nltk

    download = nltk.download
    nltk.download = lambda *_, **__: False
    try:
        from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT
    finally:
        nltk.download = download
    return INSTRUCTION_DICT


def checker_of(instruction: str) -> Any:
    """The checker's class. Raises ConfigError that names the nearest known one."""
    known = ifeval_checkers()
    if instruction in known:
        return known[instruction]
    more = ifbench_checkers()
    if instruction in more:
        return more[instruction]
    hint = nearest(instruction, [*known, *more])
    raise ConfigError(f"unknown instruction '{instruction}'; {hint}")


def conflicts(instruction: str) -> set[str]:
    """The instructions that cannot stand beside this one in one prompt. Raises ConfigError."""
    ifeval_checkers()
    from if_verifiable.ifeval import instructions_registry

    table = instructions_registry.conflict_make(instructions_registry.INSTRUCTION_CONFLICTS)
    return table.get(instruction, {instruction})


def describe(instruction: str, arguments: Mapping[str, Any]) -> str:
    """The instruction as a sentence of a prompt, in the benchmark's own words."""
    return checker_of(instruction)(instruction).build_description(**arguments)


def check(
    instructions: Sequence[str], arguments: Sequence[Mapping[str, Any]], prompt: str, answer: str
) -> list[Check]:
    """One check for each instruction, in order; an empty answer follows none."""
    return [
        _check(name, settings, prompt, answer)
        for name, settings in zip(instructions, arguments, strict=True)
    ]


def _check(instruction: str, arguments: Mapping[str, Any], prompt: str, answer: str) -> Check:
    if not answer.strip():
        return Check(instruction, False, False)
    checker_class = checker_of(instruction)
    state = random.getstate()  # some checkers draw what they are not given
    try:
        random.seed(f"{instruction}\n{prompt}")
        checker = checker_class(instruction)
        settings = {name: value for name, value in arguments.items() if value is not None}
        checker.build_description(**settings)
        if "prompt" in (checker.get_instruction_args() or {}):
            checker.build_description(prompt=prompt)
        # the instruction may name a mark ("six exclamation marks"): where it is no letter, the
        # published checker would count a letter that it draws
        mark = settings.get("letter")
        if isinstance(mark, str) and len(mark) == 1 and not mark.isalpha():
            checker._letter = mark
        strict = bool(checker.check_following(answer))
        loose = strict or any(map(checker.check_following, _forgiving(answer)))
    except Exception as error:  # noqa: BLE001  a checker may fail on any text; it is reported
        problem = f"{instruction} could not be checked: {type(error).__name__}"
        return Check(instruction, None, None, problem)
    finally:
        random.setstate(state)
    return Check(instruction, strict, bool(loose))


def _forgiving(answer: str) -> list[str]:
    """The variants that the loose reading accepts, without the answer itself."""
    lines = answer.split("\n")
    parts = [lines, lines[1:], lines[:-1], lines[1:-1]]
    texts = ["\n".join(part).strip() for part in parts]
    plain = [text.replace("*", "") for text in texts]
    return [text for text in (*texts[1:], *plain) if text.strip()]


class FollowsInstructions(Pointwise):
    """Reads a prompt's facts `instruction_id_list` and `kwargs`, IFEval's columns.

    Utilities in [0, 1]: `score` (the share followed, or 1 only where all are, by `level`), `strict`
    and `loose` (shares), `all_strict` and `all_loose`. An answer of which an instruction could not
    be checked has no score, and the reason names it.
    """

    kind: Literal["instructions"] = "instructions"
    bounds: ClassVar = (0.0, 1.0)
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
        readings = ("strict", "loose")
        followed = {name: [bool(getattr(each, name)) for each in checks] for name in readings}
        share = {name: sum(row) / len(row) for name, row in followed.items()}
        every = {f"all_{name}": float(all(row)) for name, row in followed.items()}
        name = self.reading if self.level == "instruction" else f"all_{self.reading}"
        return {"score": {**share, **every}[name], **share, **every}

    def why_unjudgeable(self, prompt: Prompt) -> str:
        names = prompt.facts.get("instruction_id_list")
        if not names or not isinstance(names, list | tuple):
            return "the prompt carries no instructions (fact `instruction_id_list`)"
        arguments = prompt.facts.get("kwargs") or [{}] * len(names)
        if [isinstance(each or {}, Mapping) for each in arguments] != [True] * len(names):
            return "the prompt's fact `kwargs` must have an object for each instruction"
        return ""
