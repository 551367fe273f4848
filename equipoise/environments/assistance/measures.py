"""The measures of the assistant's game as the run's report, status and commands show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.match_card import match_card
from equipoise.environments.assistance.moves import moves_section
from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.environments.assistance.utility_plane import plane_section
from equipoise.environments.assistance.welfare_section import QUANTITIES, welfare_section
from equipoise.environments.assistance.written_matrices import written_section
from equipoise.errors import RunError
from equipoise.evaluation.measures import History, Quantity, Records
from equipoise.report.recorded_sections import MatchCard
from equipoise.report.section import Section
from equipoise.types import Judgement, Match, Prompt


class AssistanceMeasures(AssistanceRecord, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers about one generation of the assistant, with what is shown of them."""

    quantities: ClassVar[tuple[Quantity, ...]] = QUANTITIES
    card_note: ClassVar[str] = (
        "Each of the assistant's answers block by block; the user sees the response "
        "alone. The cell that <analyze> chooses is in brackets. Search for “faults” to "
        "find outputs that are not well-formed."
    )

    def check_beside(self, run: str) -> None:
        """Raises RunError where no prompt has both utilities, so that there is nothing to draw."""
        if not self.points:
            raise RunError(f"{run}: has no prompt with both utilities that could be drawn")

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterable[Section]:
        """Welfare, the plane of both utilities, the moves, and the written games."""
        yield welfare_section(history)
        yield plane_section(history)
        yield moves_section(history)
        yield written_section(history)

    @classmethod
    def card(
        cls, match: Match, prompt: Prompt, judgements: Sequence[Judgement], history: History[Self]
    ) -> MatchCard | None:
        """Every turn in its blocks; of another game nothing of its own."""
        if not isinstance(history.game, Assistance):
            return None
        return match_card(match, prompt, history.game, judgements, history.utility)
