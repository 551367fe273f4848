"""A start that answers in each of the three forms about as often, in the model's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.api.warm_start import Gate, StartModel, WarmStart
from equipoise.environments.forms.answer_forms import BULLETS, FORMS, TITLE, form_of, form_shares
from equipoise.environments.forms.topic_questions import TOPICS, TopicQuestions
from equipoise.errors import NoSignal
from equipoise.learners.sft_learner import SFT, Example
from equipoise.types import Prompt

WORDS = (4, 10)  # fewest and most of a statement
SENTENCE = re.compile(r"[^.!?\n]+[.!?]")
PAUSES = (", ", "; ", " that ", " which ", " because ", " and ", " where ", " with ", " in ")


class FormStart(WarmStart):
    """Teaches `policy` to answer in one form, each as often: its own statements, put in form.

    The gates are measured on test topics, which neither a run trains on nor measures by.
    """

    kind: Literal["forms"] = "forms"
    max_length: int = Field(192, ge=2, description="tokens of a chat and its answer")
    training: SFT = Field(
        default_factory=lambda: SFT.model_validate(
            {"learning_rate": 1e-3, "batch_size": 16, "epochs": 2}
        ),
        description="the fine-tuning",
    )
    count: int = Field(
        96, ge=8, le=400, description="training questions that the model answers itself"
    )
    forms_of_each: int = Field(2, ge=1, le=3, description="forms in which each is learned")
    answer_tokens: int = Field(40, ge=8, description="most tokens of an answer at the gates")

    def files(self) -> Sequence[Path]:
        return (TOPICS,)

    def rows(self, model: StartModel) -> Mapping[str, Sequence[Example]]:
        """Raises NoSignal where too few of the model's own answers hold a statement."""
        prompts = TopicQuestions.model_validate({}).load().training[: self.count]
        chats = [prompt.messages for prompt in prompts]
        moves = model.answers(chats, max_new_tokens=40)
        examples: list[Example] = []
        turn = 0
        for prompt, move in zip(prompts, moves, strict=True):
            statements = short_statements(move.text)
            if not statements:
                continue
            for _ in range(self.forms_of_each):
                form = FORMS[turn % len(FORMS)]
                turn += 1
                examples.append((prompt.messages, written_in(form, prompt, statements)))
        if len(examples) < len(prompts) // 2:
            raise NoSignal(
                f"only {len(examples)} rows from {len(prompts)} answers of the model: too few of "
                "them hold a short statement"
            )
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
        ended = sum(move.finish == "stop" for move in moves) / len(moves)
        shares = form_shares(move.text for move in moves)
        gates = [Gate("answers that end", ended, 0.85, 1.0, len(moves))]
        gates += [Gate(f"share of {form}", shares[form], 0.1, 0.6, len(moves)) for form in FORMS]
        has_one = sum(shares[form] for form in FORMS)
        return [*gates, Gate("answers of one form", has_one, 0.8, 1.0, len(moves))]


def written_in(form: str, prompt: Prompt, statements: Sequence[str]) -> str:
    """One or two statements as an answer of this form."""
    topic = str(prompt.facts["topic"])
    if form == BULLETS:
        second = statements[1] if len(statements) > 1 else f"Many people enjoy {topic}."
        text = f"- {statements[0]}\n- {second}"
    elif form == TITLE:
        text = f"# {topic.title()}\n{statements[0]}"
    else:
        text = statements[0]
    assert form_of(text) == form, text
    return text


def short_statements(text: str) -> list[str]:
    """The sentences of an answer as short statements, at most two; a long one ends at a pause.

    >>> short_statements("Bees make honey from nectar. Why? They live in hives, often of wood.")
    ['Bees make honey from nectar.', 'They live in hives.']
    """
    least, most = WORDS
    statements: list[str] = []
    for sentence in SENTENCE.findall(text):
        sentence = " ".join(sentence.split())
        if sentence.endswith("?") or not re.match(r"[A-Z]\w", sentence):
            continue
        plain = sentence.rstrip(".!")
        places = [place for pause in PAUSES for place in positions(plain, pause)]
        cuts = [plain[:place] for place in sorted(places, reverse=True)]
        comma = plain.partition(",")[0]
        for candidate in (comma, plain, *cuts):
            if least <= len(candidate.split()) <= most:
                statements.append(f"{candidate}.")
                break
    return statements[:2]


def positions(text: str, part: str) -> list[int]:
    """Every place at which `part` begins in `text`."""
    return [match.start() for match in re.finditer(re.escape(part), text)]
