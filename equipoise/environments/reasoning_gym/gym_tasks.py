"""A hundred procedural tasks with their scorers, from the library reasoning-gym.

A prompt carries a task's name, settings, seed and number, so that the judge draws it again. Source:
Stojanovski et al. 2025, Reasoning Gym, arXiv 2505.24760.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from equipoise import seeds
from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.system.effects import Text, effect_in
from equipoise.types import Message, Prompt, record_id, user

FACT = "reasoning_gym"
MISSING = "these tasks come from a package: pip install 'equipoise[reasoning]'"
Tasks = dict[Text, dict[Text, Annotated[Any, effect_in("reasoning-gym")]]]


class TaskPrompts(Prompts):
    """Prompts drawn from one task or several, equally many of each.

    Facts: `reasoning_gym` (to draw the task again) and `answer`. ConfigError for an unknown task.
    """

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    task: Tasks = Field(
        description="a task's name, a list of names, or name: {its settings}, as the "
        "library's gallery has them"
    )
    count: int = Field(2000, ge=1, description="prompts to train on")
    style: Text | None = Field(
        "direct",
        description="the library's system prompt that asks for <answer> tags (direct, "
        "default, simple, chain_of_draft); null: the question alone",
    )
    seed: int = Field(0, ge=0, description="seed of the drawn tasks")

    @field_validator("task", mode="before")
    @classmethod
    def _from_names(cls, task: Any) -> Any:
        if isinstance(task, str):
            return {task: {}}
        if isinstance(task, list | tuple):
            return {name: {} for name in task}
        return task

    @field_validator("task")
    @classmethod
    def _check_named(cls, task: Tasks) -> Tasks:
        if not task:
            raise ValueError("name a task, as in task: chain_sum")
        return task

    def load(self, folder: Path = Path()) -> PromptSource:
        """`count` prompts, `held_out` and `test` others; the tasks take turns."""
        sizes = (self.count, self.held_out, self.test)
        parts: list[list[Prompt]] = []
        start = 0
        for size in sizes:
            parts.append([self._prompt(n, sum(sizes)) for n in range(start, start + size)])
            start += size
        training, held_out, test = parts
        return PromptSource(training, held_out, test)

    def _prompt(self, number: int, total: int) -> Prompt:
        names = list(self.task)
        name = names[number % len(names)]
        drawn = {
            "task": name,
            "settings": self.task[name],
            # the library counts up from a seed, so neighbours would share tasks
            "seed": seeds.child(self.seed, name) % 2**31,
            "size": -(-total // len(names)),
            "index": number // len(names),
        }
        entry = _entry(drawn)
        messages = (*_system(self.style), user(entry["question"]))
        facts = {FACT: drawn, "answer": entry["answer"]}
        identity = []
        for message in messages:
            identity.extend((message.role, message.content))
        return Prompt(record_id("prompt", *identity), messages, facts, name)


class SolvesTask(Pointwise):
    """Asks the task's own scorer. Reads a prompt's fact `reasoning_gym`.

    The answer stands in the last <answer> tags, or is the whole text where none were asked for.
    Utilities: `score` in [0, 1], and `solved`, 1 for the full score; unreadable answers have none.
    """

    kind: Literal["reasoning_gym"] = "reasoning_gym"

    def score(self, prompt: Prompt, text: str) -> Verdict:
        from reasoning_gym.utils import extract_answer

        drawn = prompt.facts.get(FACT)
        if not drawn:
            return f"the prompt carries no task (fact `{FACT}`)"
        entry = _entry(drawn)
        if entry["question"] != prompt.messages[-1].content:
            return "the installed reasoning-gym draws another task from the same seed"
        tagged = any(message.role == "system" for message in prompt.messages)
        answer = extract_answer(text) if tagged else text.strip()
        try:
            value = float(_dataset(task_key(drawn)).score_answer(answer, entry))
        except Exception as error:  # noqa: BLE001  a scorer may fail on any text; it is reported
            return f"{drawn['task']}: the scorer failed: {type(error).__name__}"
        return {"score": value, "solved": float(value == 1)}


def task_key(drawn: Mapping[str, Any]) -> str:
    known = ("task", "settings", "seed", "size")
    return json.dumps([drawn[name] for name in known])


def _entry(drawn: Mapping[str, Any]) -> dict[str, Any]:
    return _dataset(task_key(drawn))[drawn["index"]]


@cache
def _dataset(key: str) -> Any:
    name, settings, seed, size = json.loads(key)
    library = _library()
    known = library.factory.DATASETS
    if name not in known:
        hint = nearest(name, list(known))
        raise ConfigError(f"prompts.task: unknown reasoning-gym task '{name}'; {hint}")
    try:
        return library.create_dataset(name, seed=seed, size=size, **settings)
    except (TypeError, AssertionError, ValueError) as error:
        raise ConfigError(f"prompts.task.{name}: {error}") from error


def _system(style: str | None) -> tuple[Message, ...]:
    if style is None:
        return ()
    from reasoning_gym.utils import SYSTEM_PROMPTS

    if style not in SYSTEM_PROMPTS:
        hint = nearest(style, list(SYSTEM_PROMPTS))
        raise ConfigError(f"prompts.style: unknown style '{style}'; {hint}")
    return (Message("system", SYSTEM_PROMPTS[style]),)


@cache
def _library() -> Any:
    try:
        import reasoning_gym
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    return reasoning_gym
