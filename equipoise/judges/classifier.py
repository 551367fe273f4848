"""The settings of judges that are sequence classification models, and how chats become such a model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from equipoise.component import Settings
from equipoise.errors import ConfigError, DataError, ModelError
from equipoise.players.adapters import resolve
from equipoise.players.base import Shelf
from equipoise.players.loading import Dtype, load_classifier, load_encoding
from equipoise.types import Message

if TYPE_CHECKING:
    from equipoise.judges.sequence_scores import SequenceScores
    from equipoise.players.encoding import Encoding


class Classifier(Settings):
    """A sequence classification model, and how texts become its tokens."""

    model: str = Field(description="a folder or Hugging Face id of a sequence classification model")
    head: str | None = Field(
        None, description="what its weights call the last layer, where that is not the architecture's name (v_head)"
    )
    dtype: Dtype = Field(
        "auto",
        description="of the weights; auto: the model's own on an accelerator, float32 on a CPU. In bfloat16 rewards "
        "that are close become equal",
    )
    device: str = Field("auto", description="auto (an accelerator if there is one), cpu, cuda, cuda:1 …")
    attention: str = Field(
        "auto", description="kernel: auto, sdpa, eager, flash_attention_2 …, as transformers names it"
    )
    max_length: int | None = Field(
        None, ge=2, description="tokens of the whole text; null: the model's context, at most 2048"
    )
    template: str | None = Field(None, description="a Jinja chat template's file, in place of the tokenizer's own")
    template_options: dict[str, Any] = Field(default_factory=dict, description="passed to the chat template")
    ending: str = Field(
        "", description="special tokens that are put behind the text, where the model reads its number at one"
    )
    truncate: bool = Field(
        False, description="cut a text that is too long at its end; false: such an answer is not judged"
    )
    batch_size: int = Field(16, ge=1, description="texts that are read at once")
    trust_remote_code: bool = Field(False, description="let Python code of the model's own folder run here")

    def scorer(self, shelf: Shelf) -> SequenceScores:
        """The model, shared through the shelf and gone with it. Raises ModelError."""
        makings = (self.dtype, self.device, self.attention, self.head, self.trust_remote_code)
        return shelf.get(("classifier", resolve(self.model), *makings), self._load)

    def encoding(self, shelf: Shelf) -> Encoding:
        """How chats become the model's tokens. Raises ModelError where it has no chat template."""
        options = repr(sorted(self.template_options.items()))
        spelling = (resolve(self.model), self.max_length, self.template, options, self.trust_remote_code)
        return shelf.get(("classifier's encoding", *spelling), self._encoding)

    def ids(self, encoding: Encoding, messages: Sequence[Message]) -> list[int]:
        """The tokens of a chat that is over. Raises DataError when it is too long, or the template refuses it."""
        ending = self.ending_ids(encoding)
        ids, room = encoding.chat_ids(messages), encoding.max_length - len(ending)
        if len(ids) > room and not self.truncate:
            raise DataError(
                f"prompt and answer take {len(ids)} tokens, more than the {room} that max_length = "
                f"{encoding.max_length} leaves them; raise max_length or set truncate: true"
            )
        return ids[:room] + ending

    def ending_ids(self, encoding: Encoding) -> list[int]:
        """The tokens of `ending`. Raises ConfigError where it is not made of special tokens alone."""
        ids = encoding.tokenizer.encode(self.ending, add_special_tokens=False)
        strange = [i for i in ids if i not in encoding.tokenizer.added_tokens_decoder]
        if strange:
            raise ConfigError(f"judge: ending = '{self.ending}' is not made of special tokens of '{self.model}'")
        return ids

    def _load(self) -> SequenceScores:
        from equipoise.judges.sequence_scores import SequenceScores

        model = load_classifier(
            self.model,
            dtype=self.dtype,
            device=self.device,
            attention=self.attention,
            head=self.head,
            trust_remote_code=self.trust_remote_code,
        )
        return SequenceScores(self.model, model)

    def _encoding(self) -> Encoding:
        encoding = load_encoding(
            self.model, self.max_length, self.template, self.template_options, self.trust_remote_code
        )
        if self.template is None and not encoding.tokenizer.chat_template:
            raise ModelError(
                f"model '{self.model}' has no chat template, and its numbers mean little for texts in another "
                "form than it was trained on; name a file in judge.template"
            )
        return encoding
