"""Supervised fine-tuning of answers, within a run (`SFT`) or outside of one (`train_sft`)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from equipoise.data.truncation import TooLong
from equipoise.errors import ConfigError, DataError
from equipoise.games.answers import Answers
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import FineTuning, fine_tune, need_examples
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.row import sft_example
from equipoise.types import Message, PlayerId, Turns, text_of

if TYPE_CHECKING:
    import torch

    from equipoise.learners.answer_trainer import Row
    from equipoise.models.adapters import Lora
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.loading import Dtype


# A chat, and the answer to learn.
Example = tuple[Sequence[Message], str | Turns]


class SFT(FineTuning):
    """Minimises −log p of the winning answers' tokens, not prompts', in nats a token."""

    kind: Literal["sft"] = "sft"
    needs: ClassVar = "answers"

    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate of AdamW")

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Train on distinct winners of each prompt. Returns and raises as `Preference.learn`."""
        need_examples(batch.pairs, batch.learner)
        winners = dict.fromkeys(
            (pair.messages, pair.chosen, pair.chosen_cut)
            for pair in batch.pairs
            if pair.has("chosen")
        )
        examples = [(messages, text) for messages, text, _ in winners]
        cut = [was_cut for _, _, was_cut in winners]
        return fine_tune(
            self, batch, lambda encoding: answer_rows(examples, encoding, cut), AnswerObjective()
        )


def train_sft(
    model_folder: str | Path,
    examples: Sequence[Example],
    out: Path,
    settings: SFT | None = None,
    *,
    seed: int = 0,
    max_length: int | None = None,
    template: str | None = None,
    template_options: Mapping[str, Any] = MappingProxyType({}),
    lora: Lora | None = None,
    device: str = "auto",
    dtype: Dtype = "auto",
    too_long: TooLong = "drop",
    scratch: Path | None = None,
    resources: Resources | None = None,
    log: Callable[[dict[str, Any]], None] = lambda line: None,
) -> dict[str, float]:
    """Fine-tune a model on (chat, answer) examples and write it into `out`.

    `model_folder` may be a hub id; `max_length` is in tokens; `lora`: write an adapter of this
    shape, and leave the model as it is; `dtype`: of whole weights as they are written, auto: the
    model's own; `too_long`: what becomes of examples that do not fit; `scratch` keeps checkpoints
    through a crash; `resources`: the models open in this process, so that adapters which are made
    one after the other share their base. Returns the last line of metrics, with the numbers of rows
    that were cut to fit (`cut_rows`) and left out (`dropped_rows`). Raises NoSignal, ModelError,
    DataError, EquipoiseError.
    """
    settings = settings or SFT.model_validate({})
    if settings.launch is not None:
        raise ConfigError(
            "train_sft trains in the process that calls it; learner.launch is for a run's learner"
        )
    need_examples(examples, model_folder)
    model_settings = {
        "model": str(model_folder),
        "lora": lora,
        "max_length": max_length,
        "template": template,
        "template_options": dict(template_options),
        "device": device,
    }
    with tempfile.TemporaryDirectory() as temporary:
        batch = TrainingBatch(
            learner=PlayerId("model"),
            player=Local.model_validate(model_settings),
            weights=None,
            output=out,
            scratch=scratch or Path(temporary) / "scratch",
            seed=seed,
            game=Answers.model_validate({}),
            resources=resources or Resources(),
            log=log,
        )
        counts: dict[str, int] = {}

        def rows(encoding: Encoding) -> list[Row]:
            made = fitting_rows(examples, encoding, too_long, counts)
            need_examples(made, f"{model_folder}: every row is too long, so it")
            return made

        metrics = fine_tune(settings, batch, rows, AnswerObjective(), dtype=dtype)
        return {**metrics, **counts}


@dataclass(frozen=True)
class AnswerObjective:
    """−log p of answers, summed, over the number of their tokens."""

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """loss_B in nats an answer; the answers' log-probabilities are logged."""
        return -logprob_A, {"answer_logprob": logprob_A.detach()}

    def size(self, row: Row) -> float:
        return float(row.answers.counts()[0])  # a mean over tokens


def read_examples(path: str) -> tuple[list[Example], dict[str, list[str]]]:
    """(the chats and answers in a file that may be learned, reason -> the places of other rows).

    An answer that its row labels as not wanted, of weight 0, or blank is not learned. Raises
    DataError where there is none to learn.
    """
    source = Files.model_validate({"path": path})
    examples: list[Example] = []
    left_out: dict[str, list[str]] = {}
    first = ""
    for row in source.read_rows():
        example = sft_example(row)
        if example is None:
            reason = row.left_out("sft").partition(" (")[0]
            left_out.setdefault(reason, []).append(row.where)
            first = first or f"{row.where}: {reason}"
        else:
            examples.append(example)
    if not examples:
        raise DataError(
            f"{first}; no row has an answer to learn from: give `completion`, or `messages`"
        )
    return examples, left_out


def fitting_rows(
    examples: Sequence[Example], encoding: Encoding, too_long: TooLong, counts: dict[str, int]
) -> list[Row]:
    """A row for each (chat, answer) that fits `max_length`, whole or cut as `too_long` says.

    `cut_prompt` leaves a prompt half of the room at least; beyond that the answer is cut, too.
    `counts` gets `cut_rows` and `dropped_rows`. Raises DataError with `stop`.
    """
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    counts.update(cut_rows=0, dropped_rows=0)
    most = encoding.max_length
    rows = []
    for messages, text in examples:
        whole = encoding.answered_whole(messages, text)
        prompt, answer, learned = whole.prompt, whole.ids, whole.learned
        needed = len(prompt) + len(answer)
        if needed > most:
            if too_long == "stop":
                beginning = messages[0].content[:60] if messages else text_of(text)[:60]
                raise DataError(
                    f"a row needs {needed} tokens, more than max_length = {most} (it begins "
                    f"{beginning!r}); raise it, or let long rows be dropped or cut (too_long)"
                )
            if too_long == "drop" or (too_long == "cut_answer" and len(prompt) >= most):
                counts["dropped_rows"] += 1
                continue
            if too_long == "cut_prompt":
                prompt = prompt[-max(most - len(answer), most // 2) :]
            answer = answer[: most - len(prompt)]
            learned = None if learned is None else learned[: len(answer)]
            if learned is not None and not any(learned):  # no turn of the assistant's is left
                counts["dropped_rows"] += 1
                continue
            counts["cut_rows"] += 1
        rows.append(Row(PromptAnswers(prompt, [answer], [learned])))
    return rows


def answer_rows(
    examples: Sequence[Example], encoding: Encoding, cut: Sequence[bool] = ()
) -> list[Row]:
    """A row for each (chat, answer); those that were `cut` have no end."""
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    rows = []
    cuts = cut or [False] * len(examples)
    for (messages, answer), was_cut in zip(examples, cuts, strict=True):
        answered = encoding.answered(messages, answer, not was_cut)
        rows.append(Row(PromptAnswers(answered.prompt, [answered.ids], [answered.learned])))
    return rows
