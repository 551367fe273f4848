"""Stages of a run: each is timed, and recorded under its key when it has finished.

So a run is resumed: the loop begins at its first generation again, and every stage whose key the
ledger `has_finished` is passed over. What a killed stage left unfinished it does again, or goes on
with where its own file says so (`play_matches.unplayed_chunks`, the learners' checkpoints).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from equipoise.errors import EquipoiseError, UserError
from equipoise.ledger.ledger import WITHIN, Ledger
from equipoise.system.user_parts import own_part_error


@dataclass
class _OpenStage:
    """A stage under way, and the seconds of the stages that ended inside it."""

    name: str
    inside: float = 0.0


class StageClock:
    """Times the stages of one run and records them when they end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: list[_OpenStage] = []  # the stages under way, the outermost first
        self._failure: Exception | None = None  # that is noted already

    @contextmanager
    def __call__(
        self, name: str, key: str, t: int, before: float = 0.0
    ) -> Iterator[dict[str, Any]]:
        """Time a stage and mark it finished under `key`, with the facts put into the dict.

        Stages inside it keep their own seconds; `before`: seconds spent on it already. A failure is
        noted, of the innermost stage. Raises OwnPartError for what a part of the user's raised.
        """
        outer = self._open[-1] if self._open else None
        stage = _OpenStage(name)
        self._open.append(stage)
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        try:
            yield facts
        except Exception as error:
            told = error if isinstance(error, EquipoiseError) else own_part_error(error)
            if isinstance(told, UserError) and told is not self._failure:
                self._failure = told
                self._ledger.fail(key, name, str(told), facts)
            if told is None or told is error:
                raise
            raise told from error
        finally:
            self._open.pop()
        seconds = time.perf_counter() - started
        if outer is not None:
            outer.inside += seconds
            facts[WITHIN] = outer.name
        self._ledger.finish(key, t, name, facts, before + seconds - stage.inside)
