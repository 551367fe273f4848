"""A learner and its training batch as files, to hand them to other processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np

from equipoise.component import Component, import_path, imported
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.models.resources import Resources

TEXT = "training_batch.json"
ARRAYS = "arrays.npz"


def write(folder: Path, learner: Learner, training_batch: TrainingBatch) -> None:
    """Write `learner` and all of `training_batch` into `folder`, except for what is of this process
    alone, its `log` and `resources`.

    Text goes into training_batch.json, arrays into arrays.npz. Raises TypeError for a value that is
    neither.
    """
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Component):
            return {"class": import_path(type(value)), "settings": value.settings()}
        if isinstance(value, Path):
            return str(value.absolute())
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return name
        raise TypeError(
            f"a training batch with a {type(value).__name__} cannot be sent to other processes"
        )

    here = ("log", "resources")
    names = [field.name for field in fields(training_batch) if field.name not in here]
    text = {
        "learner": learner,
        "training_batch": {name: getattr(training_batch, name) for name in names},
        "path": [entry or os.getcwd() for entry in sys.path],
    }
    (folder / TEXT).write_bytes(msgspec.json.encode(text, enc_hook=plain))
    np.savez(folder / ARRAYS, **arrays)  # pyright: ignore[reportArgumentType]


def read(
    folder: Path, log: Callable[[dict[str, Any]], None], resources: Resources
) -> tuple[Learner, TrainingBatch]:
    """What `write` wrote, with the `log` and the `resources` of this process.

    Modules that the writing process could import can be imported here, too.
    """
    text = msgspec.json.decode((folder / TEXT).read_bytes())
    sys.path.extend(entry for entry in text["path"] if entry not in sys.path)

    def built(kind: type, value: Any) -> Any:
        if issubclass(kind, Component):
            return imported(value["class"]).model_validate(value["settings"])
        if issubclass(kind, np.ndarray):
            with np.load(folder / ARRAYS) as arrays:
                return arrays[value]
        return kind(value)

    hints = get_type_hints(TrainingBatch)
    values = {
        name: msgspec.convert(value, hints[name], dec_hook=built, strict=False)
        for name, value in text["training_batch"].items()
    }
    batch = TrainingBatch(**values, log=log, resources=resources)
    return built(Learner, text["learner"]), batch
