"""What judges share that ask a language model: a template, quoted texts, and the
model's reply read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

from pydantic import Field

from equipoise.judges.base import JudgeContext
from equipoise.judges.quoting import block, code_of
from equipoise.judges.seated import UNREADABLE, Reading, Seated
from equipoise.judges.template import JudgeTemplate
from equipoise.judges.verdicts import Unread
from equipoise.types import Move, Prompt, View, user

FAILED = "the judge's move failed"


class Asking(Seated):
    """Settings of every judge that asks a model, and the question as the model sees it.

    The model sees one user's message: the template with every text that others wrote
    quoted under the question's code. It never sees who wrote what.
    """

    placeholders: ClassVar[tuple[str, ...]] = (
        "question",
        "criteria",
        "reference",
        "code",
    )
    needed: ClassVar[tuple[str, ...]] = ()
    verdict: ClassVar[str] = "score"

    text: str = Field(
        description="the question's template: a file, or the name of a packaged one"
    )
    criteria: str = Field(
        default="", description="what counts in an answer, in words for the judge"
    )
    reference_fact: str | None = Field(
        default=None,
        description="the prompt's fact that the judge is shown as a reference; absent facts are left out",
    )
    longest: int = Field(
        default=20_000,
        ge=1,
        description="characters of a quoted text that are shown; the rest is cut",
    )
    control_tokens: tuple[str, ...] = Field(
        default=(),
        description="control tokens of the judging model to break up in quoted text, besides the known ones",
    )

    def at(self, judge_context: JudgeContext) -> Self:
        """This judge, knowing the bench. Raises DataError for a template that cannot be
        used.
        """
        _ = self.template  # a faulty template is said before anything is asked
        return super().at(judge_context)

    @cached_property
    def template(self) -> JudgeTemplate:
        """The question's template. Raises DataError."""
        return JudgeTemplate(
            self.text, self.needed, (*type(self).placeholders, *self._numbers())
        )

    def view(
        self, prompt: Prompt, quoted: Mapping[str, tuple[str, str]], seed: int
    ) -> View:
        """The question with `quoted`: placeholder -> (label of the block, text). `seed`
        is the question's.
        """
        code = code_of(seed)
        fact = prompt.facts.get(self.reference_fact) if self.reference_fact else None
        texts = {
            "reference": ("reference", "" if fact is None else str(fact)),
            **quoted,
        }
        blocks = {
            name: block(label, text, code, self.longest, self.control_tokens)
            if text or name != "reference"
            else ""
            for name, (label, text) in texts.items()
        }
        words = self.template.render(
            criteria=self.criteria, code=code, **self._numbers(), **blocks
        )
        return View(
            (user(words),),
            schema=self._schema()
            if f'"{self.verdict}"' in self.template.source
            else None,
        )

    def code(self, seed: int) -> str:
        """The code that the verdict on the question must carry; "" where the template
        does not ask for one.
        """
        return code_of(seed) if "code" in self.template.uses else ""

    def _numbers(self) -> dict[str, float | str]:
        """Further placeholders and what fills them."""
        return {}

    def _schema(self) -> dict[str, Any]:
        names = ["reason", self.verdict] + (
            ["code"] if "code" in self.template.uses else []
        )
        kinds = {
            name: self._verdict_schema() if name == self.verdict else {"type": "string"}
            for name in names
        }
        return {
            "type": "object",
            "properties": kinds,
            "required": names,
            "additionalProperties": False,
        }

    def _verdict_schema(self) -> dict[str, Any]:
        return {"type": "number"}


def reading(move: Move, parse: Callable[[str], float | Unread]) -> Reading:
    """What a judge's move says by `parse`, with what it took."""
    tokens = move.prompt_tokens + move.tokens
    if move.finish == "error":
        return Reading(None, f"{FAILED}: {move.error}", tokens, move.cost)
    found = parse(move.text)
    if isinstance(found, Unread):
        return Reading(None, f"{UNREADABLE}: {found.reason}", tokens, move.cost)
    return Reading(found, "", tokens, move.cost)
