"""A local player whose answers an engine in another process samples.

Token ids go out and come back; scoring, as of every local player, is done here, by a model that is
loaded when it is first asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from equipoise.errors import DataError
from equipoise.models.samplers.elsewhere import SamplingElsewhere
from equipoise.models.samplers.remote import EngineRow
from equipoise.players.local_actor import LocalActor
from equipoise.players.local_settings import LocalSettings
from equipoise.types import Message, Move, View

if TYPE_CHECKING:
    from equipoise.models.encoding import Encoding
    from equipoise.models.samplers.answer import SampledAnswer
    from equipoise.models.shared_base import AdaptedModel, OpenedLater
    from equipoise.models.token_choice import SamplingSettings


class EngineActor(LocalActor):
    """A local player that is sampled elsewhere."""

    def __init__(
        self,
        player: LocalSettings,
        encoding: Encoding,
        model: AdaptedModel | OpenedLater,
        elsewhere: SamplingElsewhere,
    ) -> None:
        """`model` is the same model here."""
        super().__init__(player, encoding, model)
        self._elsewhere = elsewhere

    def playing_as(self, player: LocalSettings) -> EngineActor:
        """The same weights under other settings of sampling."""
        assert self._adapted is not None, "the actor is closed"
        encoding, carrying = self._changed(player)
        return EngineActor(carrying, encoding, self._adapted, self._elsewhere)

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One sampled answer per view.

        A chat that the template refuses or that leaves no room gives an error move. Raises
        ModelError where the engine is gone, refuses, or does not give what the model here gives.
        """
        return self.begin(views, seeds)()

    def begin(self, views: Sequence[View], seeds: Sequence[int]) -> Callable[[], list[Move]]:
        """Send the rows; what is returned waits for the moves."""
        moves: dict[int, Move] = {}
        rows: dict[int, EngineRow] = {}
        known: dict[tuple[Message, ...], list[int]] = {}
        for n, (view, seed) in enumerate(zip(views, seeds, strict=True)):
            try:
                if view.messages not in known:
                    known[view.messages] = self._encoding.prompt_ids(view.messages)
                rows[n] = self._row(known[view.messages], seed, view)
            except DataError as error:
                moves[n] = Move("", "error", error=str(error))
        work = self._elsewhere.begin(list(rows.values()), self._settings(), self.retraced)

        def finish() -> list[Move]:
            answers = self._elsewhere.answers(work)
            for (n, row), answer in zip(rows.items(), answers, strict=True):
                moves[n] = self._move(row, answer)
            return [moves[n] for n in range(len(views))]

        return finish

    def sampler_facts(self) -> dict[str, Any]:
        """Which engine answered, and how far it is from the model here."""
        return self._elsewhere.facts()

    def rest(self) -> None:
        """Let the engine free its memory, where the settings say so, while a learner trains."""
        self._elsewhere.rest()

    def close(self) -> None:
        """Let go of the model here, and let the engine rest."""
        super().close()
        self.rest()

    def _row(self, prompt: list[int], seed: int, view: View) -> EngineRow:
        room = self._encoding.max_length - len(prompt)
        limit = min(self.player.max_new_tokens, room)
        return EngineRow(prompt, seed, limit, view.schema)

    def _settings(self) -> SamplingSettings:
        from equipoise.models.token_choice import SamplingSettings

        player = self.player
        return SamplingSettings(player.temperature, player.top_k, player.top_p)

    def _move(self, row: EngineRow, answer: SampledAnswer) -> Move:
        return Move(
            self._encoding.decode(answer.token_ids),
            "stop" if answer.ended else "length",
            tuple(answer.token_ids),
            tuple(answer.logprobs),
            len(row.prompt),
            uncut=tuple(answer.uncut) if self._settings().cuts else (),
        )
