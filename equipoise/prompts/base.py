"""Sources of prompts."""

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.component import Component
from equipoise.types import Prompt, record_id


@dataclass(frozen=True)
class Shuffle:
    """The order in which another program shuffles rows with a seed."""

    seed: int
    by: Literal["datasets", "python"] = "datasets"

    def places(self, count: int) -> list[int]:
        """The rows' places in that order.

        >>> Shuffle(42).places(5), Shuffle(42, "python").places(5)
        ([4, 2, 3, 1, 0], [3, 1, 2, 4, 0])
        """
        if self.by == "datasets":
            return np.random.default_rng(self.seed).permutation(count).tolist()
        places = list(range(count))
        random.Random(self.seed).shuffle(places)
        return places


@dataclass(frozen=True)
class PromptSource:
    """A source's prompts and its own parts, if any, before `split.split` cleans and separates."""

    training: list[Prompt]
    held_out: list[Prompt] | None = None
    test: list[Prompt] | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows that are in none of them, by reason."""


class Prompts(Component):
    """A source of prompts, and the number that a generation plays.

    `held_out` prompts are set aside first, and `test` others; they limit a part of the source's
    own.
    """

    KINDS: ClassVar = {
        "blank": "equipoise.prompts.base:Blank",
        "files": "equipoise.prompts.prompt_files:Files",
        "given": "equipoise.prompts.given_rows:GivenRows",
        "hub": "equipoise.prompts.hub:Hub",
    }
    READ: ClassVar = ("names", "hub_ids")

    per_generation: int = Field(
        1000, ge=1, description="prompts that a generation plays, disjoint from others'"
    )
    held_out: int = Field(200, ge=0, description="most prompts that are kept away from training")
    test: int = Field(0, ge=0, description="most prompts that are set aside for a last test")
    shrink: bool = Field(
        False,
        description="where the source has fewer prompts, play and set aside as many as it "
        "has, and say so (else: an error)",
    )
    reuse: bool | Literal["same"] = Field(
        False,
        description="true: start over, newly shuffled, when the prompts run out, and play all "
        "there are where these are fewer than per_generation; same: every "
        "generation plays the same prompts; false: too few prompts are an error",
    )

    repeats: Literal["drop", "keep"] = Field(
        "drop",
        description="prompts that say the same as others, and training prompts that are also "
        "held out or in the test. drop: each is played once, on one side, as far as case and "
        "white space tell; keep: all are played, as often as they are there. Both are counted",
    )
    shuffle: int | None = Field(
        None,
        ge=0,
        description="deal the rows in the order in which the library `datasets` shuffles them with "
        "this seed, as MNPO's split_dataset does; null: by their hashes, so that new rows do not "
        "move the others",
    )
    shuffle_by: Literal["datasets", "python"] = Field(
        "datasets",
        description="whose order `shuffle` is: that of the library `datasets`, or of Python's "
        "random.shuffle, as in SPARTA's script",
    )

    @property
    def shuffling(self) -> Shuffle | None:
        """The order in which rows are dealt; None: by their hashes."""
        return None if self.shuffle is None else Shuffle(self.shuffle, self.shuffle_by)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its data, without their places: files, data sets, or its kind."""
        return (str(self.kind),)

    @property
    def hub_ids(self) -> tuple[str, ...]:
        """The ids of its data sets that lie on a hub."""
        return ()

    @abstractmethod
    def load(self, folder: Path = Path()) -> PromptSource:
        """Every prompt of the source, paths from `folder`. Raises DataError with file and line."""


class Blank(Prompts):
    """Numbered prompts without a text, for games that need nothing but their rules."""

    kind: Literal["blank"] = "blank"
    reuse: bool | Literal["same"] = Field(
        True,
        description="every generation plays the same blanks; false is an error after the first",
    )

    def load(self, folder: Path = Path()) -> PromptSource:
        sizes = {"train": self.per_generation, "held_out": self.held_out, "test": self.test}
        parts, numbers = [], count()  # no part has a number of another's
        for part, size in sizes.items():
            ids = [record_id("blank", part, number) for number in range(size)]
            parts.append([Prompt(id, (), {"number": next(numbers)}, "blank") for id in ids])
        return PromptSource(*parts)
