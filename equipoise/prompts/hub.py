"""Prompts from a Hugging Face data set, by hub id or folder; `rows` has the shapes of a row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from equipoise.errors import ConfigError, DataError
from equipoise.prompts.base import PromptSource
from equipoise.prompts.row_prompts import RowPrompts
from equipoise.system.effects import DATA, Text
from equipoise.system.hugging_face import OnHub, ask_hub
from equipoise.types import Prompt


class Hub(RowPrompts):
    """A split of a data set, as `datasets.load_dataset` finds it, and others to set aside."""

    kind: Literal["hub"] = "hub"
    id: Annotated[str, DATA] = Field(
        min_length=1, description="the data set's id (owner/name), or a folder of data files"
    )
    name: Text | None = Field(None, description="its configuration, where it has several")
    split: Text = Field("train", description="the split to train on, or a slice: train[:1000]")
    held_out_split: Text | None = Field(None, description="the set's own held-out split")
    test_split: Text | None = Field(None, description="the set's own test split")
    revision: Text | None = Field(
        None, description="a commit, tag or branch; null: the main branch"
    )

    @property
    def names(self) -> tuple[str, ...]:
        return self.hub_ids or (Path(self.id).name,)

    @property
    def hub_ids(self) -> tuple[str, ...]:
        folder = Path(self.id).expanduser()
        is_folder = folder.is_absolute() or folder.is_dir()
        return () if is_folder else (self.id,)

    def load(self, folder: Path = Path()) -> PromptSource:
        """Every row of the split, and of the other splits where named; duplicates are still in."""
        held_out = self.held_out_split
        test = self.test_split
        return PromptSource(
            self._load(folder, self.split),
            None if held_out is None else self._load(folder, held_out),
            None if test is None else self._load(folder, test),
        )

    def _load(self, folder: Path, split: str) -> list[Prompt]:
        rows = self.rows(folder, split)
        if len(rows) == 0:
            raise DataError(f"{self.id}: the split '{split}' is empty")
        named = ((f"{self.id}: {split} row {i}", row) for i, row in enumerate(rows, 1))
        return self.prompts(named, self.id)

    def raw_rows(self, folder: Path = Path()) -> Iterator[tuple[str, Any, str]]:
        """(where, row, source) of every row of the split, as it stands in the set."""
        for number, row in enumerate(self.rows(folder, self.split), 1):
            yield f"{self.id}: {self.split} row {number}", row, self.id

    def rows(self, folder: Path, split: str) -> Any:
        """The split's rows by `datasets`. Raises ConfigError without it, DataError without rows."""
        try:
            import datasets
            from datasets.config import HF_DATASETS_CACHE
            from datasets.exceptions import DatasetNotFoundError, DatasetsError
        except ImportError as error:
            raise ConfigError(
                "prompts.kind: hub needs the package `datasets`: pip install 'equipoise[train]'"
            ) from error
        local = folder / self.id
        if not local.is_dir():
            answer = ask_hub(self.id, "dataset")
            kept = (Path(HF_DATASETS_CACHE) / self.id.replace("/", "___")).is_dir()
            if answer.state is OnHub.ABSENT or (answer.reason and not kept):
                raise DataError(
                    f"prompts.id: there is no folder '{self.id}' in {folder.resolve()}, and "
                    f"{answer.reason}"
                )
        try:
            place = str(local) if local.is_dir() else self.id
            return datasets.load_dataset(place, self.name, split=split, revision=self.revision)
        except DatasetNotFoundError as error:
            raise DataError(
                f"{self.id}: no such data set, or it needs a login (`hf auth login`): {error}"
            ) from error
        except ConnectionError as error:
            raise DataError(
                f"{self.id}: no such folder in {folder.resolve()}, and the hub cannot be reached: "
                f"{error}"
            ) from error
        except (ValueError, OSError, DatasetsError) as error:
            cause: BaseException = error  # `datasets` wraps the original error in general ones
            while cause.__cause__ is not None:
                cause = cause.__cause__
            message = str(cause).partition("\n")[0]
            raise DataError(f"{self.id}, split '{split}': {message}") from error
