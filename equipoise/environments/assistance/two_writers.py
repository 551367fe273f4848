"""A teacher of two models: one thinks, chooses and answers, the other writes the pay-offs.

A model that writes the matrix of its own answer writes one in which that answer is best. Source:
GTAlign (arXiv 2510.08872), the traces of its cold start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from equipoise.environments.assistance.blocks import find_block, parse, write
from equipoise.environments.assistance.game import PACKAGE
from equipoise.environments.assistance.payoff_matrix import (
    MatrixError,
    PayoffMatrix,
    read_matrix,
    write_matrix,
)
from equipoise.judges.quoting import transcript
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.question_template import Template
from equipoise.seeds import child
from equipoise.system.effects import TemplateText
from equipoise.system.user_parts import is_only_read
from equipoise.types import Move, View, user


class TwoWriters(Player):
    """Writes four blocks: `writer` the thoughts, `matrix_writer` the pay-offs, `writer` the rest.

    A step that fails, or whose blocks cannot be read, is a move that failed.
    """

    kind: Literal["two_writers"] = "two_writers"
    writer: Player = Field(description="the player that thinks, chooses and answers")
    matrix_writer: Player = Field(description="the player that writes the matrix")
    matrix_text: TemplateText = Field(
        "matrix_writer",
        description="the matrix writer's instruction: a template's file, or a packaged one",
    )
    rest_text: TemplateText = Field(
        "after_matrix",
        description="the writer's second instruction: a template's file, or a packaged one",
    )

    @model_validator(mode="after")
    def _is_not_trained(self) -> TwoWriters:
        if self.learns:
            raise ValueError("learns: two writers teach, and are not trained")
        return self

    @model_validator(mode="after")
    def _texts_can_be_used(self) -> TwoWriters:
        if not is_only_read():  # a stranger's run reads no file before its reader agrees
            _ = self._about_matrix, self._about_rest
        return self

    @cached_property
    def _about_matrix(self) -> Template:
        known = ("question", "thinking")
        return Template(self.matrix_text, PACKAGE, "matrix_text", known, known)

    @cached_property
    def _about_rest(self) -> Template:
        known = ("question", "thinking", "matrix")
        return Template(self.rest_text, PACKAGE, "rest_text", ("matrix",), known)

    def matrix_view(self, draft: Draft) -> View:
        text = self._about_matrix.render(
            question=transcript(draft.view.messages), thinking=draft.thinking
        )
        return View((user(text),))

    def rest_view(self, draft: Draft) -> View:
        """The writer's view once there is a matrix: the chat with all that has been written."""
        assert draft.matrix is not None
        *earlier, last = draft.view.messages
        text = self._about_rest.render(
            question=last.content, thinking=draft.thinking, matrix=write_matrix(draft.matrix)
        )
        return View((*earlier, user(text)))

    def open(self, weights: Path | None, resources: Resources) -> TwoWritersActor:
        return TwoWritersActor(
            self,
            self.writer.open(self.writer.start, resources),
            self.matrix_writer.open(self.matrix_writer.start, resources),
        )


@dataclass(slots=True)
class Draft:
    """One output in the making; `spent` are the moves that went into it."""

    view: View
    seed: int
    spent: list[Move]
    thinking: str = ""
    matrix: PayoffMatrix | None = None
    text: str = ""
    error: str = ""

    def fail(self, reason: str) -> None:
        self.error = self.error or reason

    def take(self, move: Move, step: str) -> bool:
        """Add the move of a step; False if it failed."""
        self.spent.append(move)
        if move.finish == "error":
            self.fail(f"{step}: {move.error}")
        return not self.error

    def move(self) -> Move:
        """The output as one move, with the cost of all steps."""
        last = self.spent[-1]
        finish = "error" if self.error else last.finish
        return Move(
            "" if self.error else self.text,
            finish,
            prompt_tokens=sum(move.prompt_tokens for move in self.spent),
            error=self.error,
            completion_tokens=sum(move.tokens for move in self.spent),
            cost=sum(move.cost for move in self.spent),
        )


class TwoWritersActor:
    def __init__(self, player: TwoWriters, writer: Actor, matrix_writer: Actor) -> None:
        self.player = player
        self.writer = writer
        self.matrix_writer = matrix_writer

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One output per view; each step asks for all of them in one batch."""
        drafts = [Draft(view, seed, []) for view, seed in zip(views, seeds, strict=True)]
        self._think(drafts)
        self._weigh([draft for draft in drafts if not draft.error])
        self._answer([draft for draft in drafts if not draft.error])
        return [draft.move() for draft in drafts]

    def _think(self, drafts: Sequence[Draft]) -> None:
        moves = _ask(self.writer, drafts, [draft.view for draft in drafts], "think")
        for draft, move in zip(drafts, moves, strict=True):
            if not draft.take(move, "the writer"):
                continue
            draft.thinking = parse(move.text).thinking or ""
            if not draft.thinking:
                draft.fail("the writer gave no <thinking>")

    def _weigh(self, drafts: Sequence[Draft]) -> None:
        views = [self.player.matrix_view(draft) for draft in drafts]
        moves = _ask(self.matrix_writer, drafts, views, "matrix")
        for draft, move in zip(drafts, moves, strict=True):
            if not draft.take(move, "the matrix's writer"):
                continue
            block = find_block(move.text, "payoff")
            try:
                draft.matrix = read_matrix(block.content if block else move.text.strip())
            except MatrixError as error:
                draft.fail(f"the matrix's writer: its matrix {error}")

    def _answer(self, drafts: Sequence[Draft]) -> None:
        views = [self.player.rest_view(draft) for draft in drafts]
        moves = _ask(self.writer, drafts, views, "answer")
        for draft, move in zip(drafts, moves, strict=True):
            if not draft.take(move, "the writer"):
                continue
            parsed = parse(move.text)
            if parsed.analyze is None or parsed.response is None:
                draft.fail("the writer gave no <analyze> and <response>")
                continue
            assert draft.matrix is not None
            draft.text = write(draft.thinking, draft.matrix, parsed.analyze, parsed.response)

    def close(self) -> None:
        self.writer.close()
        self.matrix_writer.close()


def _ask(actor: Actor, drafts: Sequence[Draft], views: Sequence[View], step: str) -> list[Move]:
    """A move for each draft, with dice of the step's own."""
    if not drafts:
        return []
    return actor.act(views, [child(draft.seed, "two_writers", step) for draft in drafts])
