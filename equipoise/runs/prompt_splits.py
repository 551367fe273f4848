"""A run's prompts, split into training, held-out and test parts and recorded."""

from functools import cached_property

from equipoise.ledger.ledger import Ledger
from equipoise.prompts.split import PromptSplit, split_source
from equipoise.runs.config import RunConfig
from equipoise.runs.monitor import Monitor
from equipoise.runs.room_for_prompts import players_that_read, too_long, without_too_long
from equipoise.runs.stage_clock import StageClock
from equipoise.types import Prompt

MADE = "attack"
"""The split, by its recorded name, of prompts that a game made of those loaded."""


class PromptSplits:
    """The dealt prompts, recorded at first use: a resumed run does not need their source."""

    def __init__(
        self, config: RunConfig, ledger: Ledger, stage: StageClock, monitor: Monitor
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._stage = stage
        self._monitor = monitor

    def train(self, t: int) -> list[Prompt]:
        """The prompts of generation t."""
        self._deal()
        return self._ledger.prompts("train", t)

    @cached_property
    def held_out(self) -> list[Prompt]:
        """The prompts that generations are measured on."""
        self._deal()
        return self._ledger.prompts("held_out", 0)

    @cached_property
    def test(self) -> list[Prompt]:
        """The prompts that are kept for one last test."""
        self._deal()
        return self._ledger.prompts("test", 0)

    def played(self, t: int) -> dict[str, Prompt]:
        """Prompts of generation t's matches by id: those loaded, and the game's own."""
        prompts = self._ledger.prompts("train", t) + self._ledger.prompts(MADE, t)
        return {prompt.id: prompt for prompt in prompts}

    def _deal(self) -> None:
        if self._ledger.has_finished("deal"):
            return
        config = self._config
        self._monitor.stage("prompts")
        with self._stage("deal", "deal", 0) as facts:
            with self._ledger.transaction():
                split = deal(config)
                self._ledger.add_prompts(split.held_out, "held_out", 0)
                self._ledger.add_prompts(split.test, "test", 0)
                for t, part in enumerate(split.parts):
                    self._ledger.add_prompts(part, "train", t)
            facts.update(
                prompts=sum(map(len, split.parts)),
                held_out=len(split.held_out),
                test=len(split.test),
                dropped=split.dropped,
            )
            if split.kept:
                facts.update(kept=split.kept)
            if config.too_long == "cut_prompt":
                dealt = [*split.training, *split.held_out, *split.test]
                facts.update(cut_prompts=len(too_long(players_that_read(config), dealt)))


def deal(config: RunConfig) -> PromptSplit:
    """The run's prompts, loaded, without those that do not fit, and split by its seed.

    Raises DataError as `split` does.
    """
    source = without_too_long(config.prompts.load(), config)
    return split_source(source, config.prompts, config.generations, config.seed)
