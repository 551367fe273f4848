"""Checkpoints of activations by the names of old and of new transformers."""

from dataclasses import dataclass, field

from torch import nn

from equipoise.models.activation_checkpoints import (
    disable_checkpoints,
    enable_checkpoints,
    has_checkpoints,
    trainer_arguments,
)

KEYWORDS = {"use_reentrant": False}


class Layer(nn.Module):
    gradient_checkpointing = False


class Old(nn.Module):
    """A model of transformers 5.17: the old names alone."""

    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.taken = None

    def gradient_checkpointing_enable(self, keywords):
        self.taken = keywords
        self.layer.gradient_checkpointing = True

    def gradient_checkpointing_disable(self):
        self.layer.gradient_checkpointing = False


class New(Old):
    """A newer one, whose old names are not to be used any more."""

    activation_checkpointing_enable = Old.gradient_checkpointing_enable
    activation_checkpointing_disable = Old.gradient_checkpointing_disable

    def gradient_checkpointing_enable(self, keywords):
        raise AssertionError("deprecated")

    gradient_checkpointing_disable = gradient_checkpointing_enable


def test_models_of_either_release_take_checkpoints_and_leave_them():
    for model in (Old(), New()):
        assert not has_checkpoints(model)
        enable_checkpoints(model, KEYWORDS)
        assert has_checkpoints(model)
        assert model.taken == KEYWORDS
        disable_checkpoints(model)
        assert not has_checkpoints(model)


@dataclass
class OldArguments:
    gradient_checkpointing: bool = False
    gradient_checkpointing_kwargs: dict = field(default_factory=dict)


@dataclass
class NewArguments(OldArguments):
    activation_checkpointing: bool | None = None
    activation_checkpointing_kwargs: dict | None = None


def test_the_trainer_is_told_by_the_name_that_it_has():
    old = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": KEYWORDS}
    assert trainer_arguments(OldArguments, KEYWORDS) == old
    new = {"activation_checkpointing": True, "activation_checkpointing_kwargs": KEYWORDS}
    assert trainer_arguments(NewArguments, KEYWORDS) == new
