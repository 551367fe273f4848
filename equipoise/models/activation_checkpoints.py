"""Activation checkpoints of a model's layers, by the names of its transformers.

From 5.23 on these are `activation_checkpointing`, before that `gradient_checkpointing`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

NEW, OLD = "activation_checkpointing", "gradient_checkpointing"


def enable_checkpoints(model: Any, keywords: dict[str, Any]) -> None:
    """Compute the layers' activations again in backward passes; `keywords`: torch's."""
    enable = getattr(model, f"{NEW}_enable", None) or getattr(model, f"{OLD}_enable")
    enable(keywords)


def disable_checkpoints(model: Any) -> None:
    """Keep all activations."""
    disable = getattr(model, f"{NEW}_disable", None) or getattr(model, f"{OLD}_disable")
    disable()


def has_checkpoints(model: Any) -> bool:
    """True if a layer's activations are computed again."""
    return any(getattr(module, OLD, False) is True for module in model.modules())


def trainer_arguments(arguments: type, keywords: dict[str, Any]) -> dict[str, Any]:
    """The settings of transformers' `TrainingArguments` for the same."""
    names = {field.name for field in fields(arguments)}
    name = NEW if NEW in names else OLD
    return {name: True, f"{name}_kwargs": keywords}
