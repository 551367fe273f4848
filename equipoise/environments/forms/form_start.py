"""A start that answers in each of the three forms about as often, in the model's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.api.own_statements import MODULE, own_statements
from equipoise.api.warm_start import (
    ChatTokens,
    Gate,
    StartModel,
    Training,
    WarmStart,
    ended_gate,
    fine_tuning,
    need_rows,
)
from equipoise.environments.forms.answer_forms import BULLETS, FORMS, SENTENCE, TITLE, form_shares
from equipoise.environments.forms.topic_questions import TOPICS, TopicQuestions
from equipoise.learners.sft_learner import Example

MARKS = {BULLETS: "- ", TITLE: "# ", SENTENCE: ""}
WORDS = (4, 10)  # fewest and most of a statement
PAUSES = (", ", "; ", " that ", " which ", " because ", " and ", " where ", " with ", " in ")


class FormStart(WarmStart):
    """Teaches `policy` to answer in one form, each as often: its own statements, put in form.

    The gates are measured on test topics, which neither a run trains on nor measures by.
    """

    kind: Literal["forms"] = "forms"
    max_length: ChatTokens = 192
    training: Training = fine_tuning(1e-3, 16, 2)
    count: int = Field(
        96, ge=8, le=400, description="training questions that the model answers itself"
    )
    forms_of_each: int = Field(2, ge=1, le=3, description="forms in which each is learned")
    answer_tokens: int = Field(40, ge=8, description="most tokens of an answer at the gates")

    def files(self) -> Sequence[Path]:
        return (TOPICS, MODULE)

    def rows(self, model: StartModel) -> Mapping[str, Sequence[Example]]:
        """Raises NoSignal where too few of the model's own answers hold a statement."""
        prompts = TopicQuestions.model_validate({}).load().training[: self.count]
        chats = [prompt.messages for prompt in prompts]
        moves = model.answers(chats, max_new_tokens=40)
        examples: list[Example] = []
        turn = 0
        for prompt, move in zip(prompts, moves, strict=True):
            statements = own_statements(move.text, WORDS, PAUSES, to_the_comma=True)
            if not statements:
                continue
            statement = statements[0]
            for _ in range(self.forms_of_each):
                form = FORMS[turn % len(FORMS)]
                turn += 1
                examples.append((prompt.messages, written_in(form, statement)))
        need_rows(len(examples), len(prompts) // 2, len(prompts), "hold a short statement")
        return {"policy": examples}

    def gates(self, model: StartModel, adapters: Mapping[str, Path]) -> list[Gate]:
        prompts = TopicQuestions.model_validate({"test": 68}).load().test or []
        chats = [prompt.messages for prompt in prompts]
        moves = model.answers(
            chats,
            adapter=adapters["policy"],
            temperature=0.8,
            max_new_tokens=self.answer_tokens,
            seed=1,
        )
        shares = form_shares(move.text for move in moves)
        count = len(moves)
        has_one = sum(shares[form] for form in FORMS)
        return [
            ended_gate(moves),
            *(Gate(f"share of {form}", shares[form], 0.1, 0.6, count) for form in FORMS),
            Gate("answers of one form", has_one, 0.8, 1.0, count),
        ]


def written_in(form: str, statement: str) -> str:
    """A statement as an answer of this form: forms differ by a mark and by nothing else.

    >>> written_in("title", "Bees make honey.")
    '# Bees make honey.'
    """
    return MARKS[form] + statement
