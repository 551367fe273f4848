"""Prompts from a Hugging Face data set, by its hub id or a local folder; `rows` says
which shapes a row may have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from equipoise.errors import ConfigError, DataError
from equipoise.prompts.base import Source
from equipoise.prompts.rows import Rows
from equipoise.types import Prompt


class Hub(Rows):
    """One split of a data set, as `datasets.load_dataset` finds it, and others to hold
    out and to test on.
    """

    kind: Literal["hub"] = "hub"
    id: str = Field(
        min_length=1,
        description="the data set's id (owner/name), or a local folder of data files",
    )
    name: str | None = Field(
        None, description="its configuration, for sets that have several"
    )
    split: str = Field(
        "train",
        description="the split to train on; slices such as train[:1000] are understood",
    )
    held_out_split: str | None = Field(None, description="the set's own held-out split")
    test_split: str | None = Field(None, description="the set's own test split")
    revision: str | None = Field(
        None,
        description="a commit, tag or branch of the set; by default its main branch",
    )

    def load(self, folder: Path = Path()) -> Source:
        """Every row of the split, and of the held-out and the test split where named;
        duplicates are still in.
        """
        parts = (self.held_out_split, self.test_split)
        own = (None if split is None else self._load(folder, split) for split in parts)
        return Source(self._load(folder, self.split), *own)

    def _load(self, folder: Path, split: str) -> list[Prompt]:
        rows = self._rows(folder, split)
        if len(rows) == 0:
            raise DataError(f"{self.id}: the split '{split}' is empty")
        return self.prompts(
            ((f"{self.id}: {split} row {i}", row) for i, row in enumerate(rows, 1)),
            self.id,
        )

    def _rows(self, folder: Path, split: str) -> Any:
        try:
            import datasets
            from datasets.exceptions import DatasetNotFoundError, DatasetsError
        except ImportError as error:
            raise ConfigError(
                "prompts.kind: hub needs the package `datasets`: pip install 'equipoise[train]'"
            ) from error
        local = folder / self.id
        try:
            return datasets.load_dataset(
                str(local) if local.is_dir() else self.id,
                self.name,
                split=split,
                revision=self.revision,
            )
        except DatasetNotFoundError as error:
            raise DataError(
                f"{self.id}: no such data set, or it needs a login (`hf auth login`): {error}"
            ) from error
        except ConnectionError as error:
            raise DataError(
                f"{self.id}: no such folder in {folder.resolve()}, and no hub in reach: {error}"
            ) from error
        except (ValueError, OSError, DatasetsError) as error:
            raise DataError(
                f"{self.id}, split '{split}': {_innermost(error)}"
            ) from error


def _innermost(error: BaseException) -> str:
    """The first line of what went wrong first; `datasets` wraps it in general words."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0]
