"""A player that is a language model in this process: any of transformers, full weights or LoRA."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import ModelError
from equipoise.models.adapters import holds_adapter, resolve
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.models.shared_base import AdaptedModel, LazyModel, SharedBase, base_key, shared_base
from equipoise.players.local_actor import EngineActor, LocalActor
from equipoise.players.local_settings import LocalSettings
from equipoise.sampling.engines.base import EngineAdapter
from equipoise.sampling.engines.remote_engine import ProbedEngine, open_engine

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding


class Local(LocalSettings):
    """A causal language model by folder or Hugging Face id, sampled here in batches."""

    def settings_at(self, weights: Path | None) -> dict[str, Any]:
        """The settings with that folder as the adapter, or as the model."""
        if weights is None:
            return self.settings()
        which = "adapter" if holds_adapter(weights, self.lora) else "model"
        return {**self.settings(), which: str(weights)}

    def open(self, weights: Path | None, resources: Resources) -> LocalActor:
        """The actor with `weights`; one model's adapters share `resources`. Raises ModelError."""
        encoding = self.shared_encoding(resources)
        engine = open_engine(self.sampler, resources)
        if engine is None:
            model = self._model(weights, resources)
            return LocalActor(self, encoding, model, resources.unit_rows)
        adapter = self._engine_adapter(weights)
        probed = ProbedEngine(engine, lambda: adapter, encoding.stop_ids)
        model = LazyModel(lambda: self._model(weights, resources))
        return EngineActor(self, encoding, model, probed)

    def _model(self, weights: Path | None, resources: Resources) -> AdaptedModel:
        base, folder = self.base(weights, resources)
        return AdaptedModel(base, None if folder is None else base.adapter(folder))

    def _engine_adapter(self, weights: Path | None) -> EngineAdapter | None:
        """The adapter that an engine gets; None: the base. Raises ModelError for whole weights."""
        if weights is None:
            return None
        if not holds_adapter(weights, self.lora):
            raise ModelError(
                f"{weights} holds whole weights; sampler: {self.sampler.kind} gets "
                "generations as adapters"
            )
        return EngineAdapter.of(f"{weights.parent.name}@{weights.name}", weights)

    def shared_encoding(self, resources: Resources) -> Encoding:
        """The encoding of players with this tokenizer, template and length. Raises ModelError."""
        options = repr(sorted(self.chat_options.items()))
        lengths = (self.max_length, self.max_prompt)
        key = ("encoding", resolve(self.model), *lengths, self.template, options, self.date)
        return resources.get(key, self.encoding)

    def base(self, weights: Path | None, resources: Resources) -> tuple[SharedBase, Path | None]:
        """The shared model of `weights`, and the adapter's folder or None. Raises ModelError."""
        if weights is None or holds_adapter(weights, self.lora):
            return shared_base(resources, self.model, self.loading), weights
        _, _, *typed = base_key(self.model, self.loading)
        whole = resources.get(
            ("whole", str(weights.resolve()), *typed),
            lambda: SharedBase(
                str(weights), load_model(self.model, weights, **self.loading._asdict())
            ),
        )
        return whole, None
