"""A player that is a language model in this process: any causal model of transformers,
full weights or LoRA.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.models.adapters import holds_adapter, resolve
from equipoise.models.device import choose_device
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.players.local_actor import LocalActor
from equipoise.players.local_settings import LocalSettings
from equipoise.players.shared_base import SharedBase

if TYPE_CHECKING:
    from equipoise.models.encoding import Encoding


class Local(LocalSettings):
    """A causal language model by folder or Hugging Face id, sampled here in batches."""

    def open(self, weights: Path | None, resources: Resources) -> LocalActor:
        """The actor with `weights`.

        Adapters of one model share it through `resources`. Raises ModelError.
        """
        encoding = self.shared_encoding(resources)
        base, adapter = self.base(weights, resources)
        name = None if adapter is None else base.adapter(adapter)
        return LocalActor(self, encoding, lambda: base.lend(name))

    def shared_encoding(self, resources: Resources) -> Encoding:
        """The encoding that all players with this tokenizer, template and length share.

        Raises ModelError.
        """
        options = repr(sorted(self.template_options.items()))
        return resources.get(
            ("encoding", resolve(self.model), self.max_length, self.template, options),
            self.encoding,
        )

    def base(
        self, weights: Path | None, resources: Resources
    ) -> tuple[SharedBase, Path | None]:
        """The model in memory that `weights` need, shared through `resources`, and the
        folder of the adapter on it.

        None for the adapter: the weights are the model's own. Raises ModelError.
        """
        on_cpu = choose_device(self.device).type == "cpu"
        dtype = "float32" if self.dtype == "auto" and on_cpu else self.dtype
        loading = (resolve(self.model), dtype, self.device, self.attention)
        if weights is None or holds_adapter(weights, self.lora):
            base = resources.get(
                ("base", *loading), lambda: SharedBase(self.model, self._load(None))
            )
            return base, weights
        whole = resources.get(
            ("whole", str(weights.resolve()), *loading),
            lambda: SharedBase(str(weights), self._load(weights)),
        )
        return whole, None

    def _load(self, weights: Path | None) -> Any:
        return load_model(
            self.model,
            weights,
            dtype=self.dtype,
            device=self.device,
            attention=self.attention,
        )
