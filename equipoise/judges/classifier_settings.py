"""The settings of judges that are sequence classification models, and their models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from equipoise.component import Settings
from equipoise.models.adapters import resolve
from equipoise.models.loading import Dtype, load_classifier
from equipoise.models.resources import Resources

if TYPE_CHECKING:
    from equipoise.models.sequence_scores import SequenceScores


class ClassifierSettings(Settings):
    """A sequence classification model: where it is, and how it is read."""

    model: str = Field(description="a folder or Hugging Face id of a sequence classification model")
    head: str | None = Field(
        None,
        description="what its weights call the last layer, where that is not the "
        "architecture's name (v_head)",
    )
    dtype: Dtype = Field(
        "auto",
        description="of the weights; auto: the model's own on an accelerator, "
        "float32 on a CPU. In bfloat16 rewards that are close become equal",
    )
    device: str = Field(
        "auto", description="auto (an accelerator if there is one), cpu, cuda, cuda:1 …"
    )
    attention: str = Field(
        "auto",
        description="kernel: auto, sdpa, eager, flash_attention_2 …, as transformers names it",
    )
    max_length: int | None = Field(
        None, ge=2, description="tokens of the whole text; null: the model's context, at most 2048"
    )
    batch_size: int = Field(16, ge=1, description="texts that are read at once")
    trust_remote_code: bool = Field(
        False, description="let Python code of the model's own folder run here"
    )

    def scorer(self, resources: Resources) -> SequenceScores:
        """The model, shared through `resources` and gone with them. Raises ModelError."""
        key = (
            resolve(self.model),
            self.dtype,
            self.device,
            self.attention,
            self.head,
            self.trust_remote_code,
        )
        return resources.get(("classifier", *key), self._load)

    def _load(self) -> SequenceScores:
        from equipoise.models.sequence_scores import SequenceScores

        model = load_classifier(
            self.model,
            dtype=self.dtype,
            device=self.device,
            attention=self.attention,
            head=self.head,
            trust_remote_code=self.trust_remote_code,
        )
        return SequenceScores(self.model, model)
