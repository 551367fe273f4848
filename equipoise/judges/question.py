"""The question to a judging model: its template, its quotes, and reading the reply."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

from pydantic import Field

from equipoise.answer import UNFINISHED, answer_of
from equipoise.component import Component, Settings
from equipoise.judges.quoting import CODE_DIGITS, block, code_of, code_shown, harmless, verdict_code
from equipoise.judges.read_verdict import Abstained, Unread
from equipoise.players.base import Actor, Tokenizing
from equipoise.question_template import Template
from equipoise.system.effects import TemplateText, Text
from equipoise.types import Judgement, Move, Prompt, View, Vote, user

FAILED = "the judge's move failed"
UNREADABLE = "the judge's verdict could not be read"
CUT = "the reply was cut at max_new_tokens"
PACKAGE = "equipoise.judges"
PLACEHOLDERS = ("question", "criteria", "reference", "code")

Block = tuple[str, str]
"""(label of a block, the text in it)."""
Quotes = Mapping[str, Block | list[Block]]
"""Placeholder -> the block that fills it, or several."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A judge's reply as a number, or None and why; tokens and cost of question and reply."""

    value: float | None
    reason: str = ""
    tokens: int = 0
    cost: float = 0.0

    def vote(self, by: str, seat: str, other: str = "") -> Vote:
        """The vote of `by` on the answer of `seat`, or on it against that of `other`."""
        if not (self.tokens or self.cost):
            return Vote(by, seat, self.value, other, self.reason)
        return Vote(by, seat, self.value, other, self.reason, self.tokens, self.cost)


class QuestionSettings(Settings):
    """Settings of every judge that asks a model."""

    part: ClassVar[str] = "judge"  # of the recipe, for messages

    text: TemplateText = Field(
        description="the question's template: a file, or the name of a packaged one"
    )
    criteria: Text = Field(
        default="", description="what counts in an answer, in words for the judge"
    )
    reference_fact: Text | None = Field(
        default=None,
        description="the prompt's fact that the judge is shown as a reference; "
        "absent facts are left out",
    )
    longest: int = Field(
        default=20_000,
        ge=1,
        description="characters of a quoted text that are shown; the rest is cut",
    )
    control_tokens: tuple[Text, ...] = Field(
        default=(),
        description="control tokens of the judging model to break up in quoted text, "
        "besides the known ones",
    )

    def reference(self, prompt: Prompt) -> str:
        """The prompt's fact `reference_fact` as text; "" where it is absent."""
        fact = prompt.facts.get(self.reference_fact) if self.reference_fact else None
        return "" if fact is None else str(fact)

    def question_with(
        self,
        quoted: Collection[str],
        constants: Mapping[str, str] | None = None,
        needed: Collection[str] = (),
        package: str = PACKAGE,
        setting: str = "text",
    ) -> Question:
        """The question that these settings describe; `setting` names its template.

        `quoted` and `constants` are placeholders that the template may use besides PLACEHOLDERS,
        `needed` those that it must. Packaged templates lie in texts/ of `package` or the judges.
        Raises DataError.
        """
        constants = constants or {}
        known = (*PLACEHOLDERS, *quoted, *constants)
        source: str = getattr(self, setting)
        where = f"{self.part}.{setting}"
        template = Template(source, package, where, needed, known, elsewhere=[PACKAGE])
        return Question(
            template, {"criteria": self.criteria, **constants}, self.longest, self.control_tokens
        )


@dataclass(frozen=True, slots=True)
class Question:
    """The wording of a judge's questions, and the form of the verdicts.

    The model sees one user's message: the template with others' texts quoted under the question's
    code, never their names. constants: placeholders alike in all questions. longest: characters of
    a quoted text, with `control_tokens` broken up. verdict: its name in the reply's JSON object.
    verdict_schema: its JSON schema.
    """

    template: Template
    constants: Mapping[str, str]
    longest: int
    control_tokens: tuple[str, ...] = ()
    verdict: str = "score"
    verdict_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "number"})

    def view(self, quotes: Quotes, seed: int, control_tokens: Sequence[str] = ()) -> View:
        """The question with these quotes, whose `control_tokens` are broken up."""
        blocks_of: dict[str, list[Block]] = {}
        for placeholder, quoted in quotes.items():
            several = quoted if isinstance(quoted, list) else [quoted]
            # An empty answer is shown as one; a reference that nobody gave is left out.
            blocks_of[placeholder] = [
                (label, text) for label, text in several if text or placeholder != "reference"
            ]
        code = self._new_code(blocks_of, seed)
        broken = (*self.control_tokens, *control_tokens)
        fields = {"reference": "", "code": code, **self.constants}
        for placeholder, blocks in blocks_of.items():
            shown = [block(label, text, code, self.longest, broken) for label, text in blocks]
            fields[placeholder] = "\n".join(shown)
        asks_for_json = f'"{self.verdict}"' in self.template.source
        return View(
            (user(self.template.render(**fields)),),
            schema=self._schema() if asks_for_json else None,
        )

    def _new_code(self, blocks_of: Mapping[str, Sequence[Block]], seed: int) -> str:
        if not self.asks_for_code:
            return code_of(seed)
        texts: list[str] = []
        for placeholder, blocks in blocks_of.items():
            texts.append(placeholder)
            texts += chain.from_iterable(blocks)
        return verdict_code(seed, texts)

    def quoted_text(self, text: str, view: View) -> str:
        """A quoted text as this question shows it."""
        code = code_shown(view.messages[0].content)
        return harmless(text, code, self.longest, self.control_tokens)

    def code(self, view: View) -> str:
        """The code that the verdict on this question must carry; "" where it asks for none.

        It is read from the question itself, so a recorded reply is read alike by everybody.
        """
        if not self.asks_for_code:
            return ""
        shown = code_shown(view.messages[0].content) if view.messages else ""
        return shown or secrets.token_hex(CODE_DIGITS // 2)  # which no reply has

    @property
    def asks_for_code(self) -> bool:
        """True if a verdict must carry the question's code."""
        return "code" in self.template.uses

    def _schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "reason": {"type": "string"},
            self.verdict: dict(self.verdict_schema),
        }
        if self.asks_for_code:
            properties["code"] = {"type": "string"}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def control_tokens_of(actor: Actor) -> tuple[str, ...]:
    """The special tokens of a judging model; none where its tokenizer is not here."""
    return actor.control_tokens if isinstance(actor, Tokenizing) else ()


def read_move(move: Move, read: Callable[[str, str], float | Unread], code: str) -> Reading:
    """The reading of a move; read: takes the reply and its verdict's code, "" for none."""
    tokens = move.prompt_tokens + move.tokens
    if move.finish == "error":
        return Reading(None, f"{FAILED}: {move.error}", tokens, move.cost)
    answer = answer_of(move)
    if answer.unfinished:
        return Reading(None, f"{UNREADABLE}: {UNFINISHED}", tokens, move.cost)
    verdict = read(answer.text, code)
    if isinstance(verdict, Unread):
        if isinstance(verdict, Abstained):
            return Reading(None, verdict.reason, tokens, move.cost)
        cut = f" ({CUT})" if move.finish == "length" else ""
        return Reading(None, f"{UNREADABLE}: {verdict.reason}{cut}", tokens, move.cost)
    return Reading(verdict, "", tokens, move.cost)


def brief_reason(reason: str) -> str:
    """The reason without the text of an unreadable reply, which differs between replies."""
    return UNREADABLE if reason.startswith(UNREADABLE) else reason


def unread_reply(judgements: Iterable[Judgement]) -> str:
    """Why a verdict could not be read, with the reply: of the first such vote; "" for none."""
    votes = chain.from_iterable(judgement.votes for judgement in judgements)
    reasons = (vote.reason for vote in votes if vote.reason.startswith(UNREADABLE))
    return next(reasons, "").removeprefix(f"{UNREADABLE}: ")


def advice(judge: Component, unread: str) -> str:
    """The settings that may help where a judge's replies cannot be read, such as `unread`."""
    fields = type(judge).model_fields
    hints = []
    if any(reason in unread for reason in (CUT, UNFINISHED, "the reply is empty")):
        hints.append("more max_new_tokens for the judging model, or no thoughts before its verdict")
    if "verdict" in fields and getattr(judge, "text", "") == "rubric":
        hints.append("the judge's text: rubric_compact, for small models")
    if getattr(judge, "unreadable", "") == "missing":
        hints.append("unreadable: midpoint, so that such a reply counts as the middle grade")
    return f"What may help: {'; '.join([*hints, 'a stronger judging model'])}"
