"""Given answers that a policy keeps learning beside its rewards (PPO-ptx, arXiv 2203.02155).

    learner: {kind: policy_gradient, pretraining: {path: helpful.jsonl, weight: 0.5}}

Each optimizer step adds weight · (−log p of the next rows' answers, a mean over their tokens) to
the loss. The rows come in a shuffled order that the seed and the step's number decide, so that a
resumed run sees the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from equipoise import seeds
from equipoise.component import Settings
from equipoise.errors import DataError
from equipoise.system.effects import ReadPath

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.packing import PromptAnswers


class PretrainingLoss(Settings):
    """The likelihood of given answers as a term of a policy gradient's loss."""

    path: ReadPath = Field(
        description="a file of chats and answers, in any schema that `equipoise rows` reads"
    )
    weight: float = Field(
        1.0, gt=0, description="of the mean of −log p of their tokens, beside the policy's loss"
    )
    rows: int = Field(8, ge=1, description="rows in an optimizer step")


class PretrainingRows:
    """The rows of a file, in the order in which optimizer steps take them."""

    def __init__(self, settings: PretrainingLoss, encoding: Encoding, seed: int) -> None:
        """Raises DataError for a file without an answer that fits the player's `max_length`."""
        from equipoise.learners.sft_learner import fitting_rows, read_examples

        examples, left_out = read_examples(settings.path)
        counts: dict[str, int] = {}
        made = fitting_rows(examples, encoding, "drop", counts)
        if not made:
            raise DataError(
                f"learner.pretraining: {settings.path}: every row is longer than the player's "
                f"max_length, {encoding.max_length} tokens"
            )
        self.answers: list[PromptAnswers] = [row.answers for row in made]
        self.left_out = counts["dropped_rows"] + sum(map(len, left_out.values()))
        self.settings, self.seed = settings, seed

    def of_step(self, step: int) -> list[PromptAnswers]:
        """The rows of an optimizer step, counted from 0; every row comes once in a pass."""
        count = self.settings.rows
        chosen: list[PromptAnswers] = []
        for number in range(step * count, (step + 1) * count):
            passed, place = divmod(number, len(self.answers))
            order = seeds.generator(self.seed, "pretraining", passed).permutation(len(self.answers))
            chosen.append(self.answers[order[place]])
        return chosen
