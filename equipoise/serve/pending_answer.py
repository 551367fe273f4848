"""An answer under way in a local model: which token comes next at which seed, and what
text its tokens make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from equipoise.models.encoding import Encoding
from equipoise.models.token_choice import SamplingSettings
from equipoise.serve.decoding import Decoder, StopTexts
from equipoise.serve.engine import EngineRequest, Piece, Refused


class PendingAnswer:
    """Made in the event loop, which waits for `pieces`; taken over by the model's thread."""

    def __init__(
        self,
        request: EngineRequest,
        prompt_ids: Sequence[int],
        begun_ids: Sequence[int],
        adapter: Path | None,
        encoding: Encoding,
        tokenizer: object,
    ) -> None:
        """`begun_ids` are what the answer begins with already.

        Raises Refused for a seed beyond 64 bits.
        """
        if not -(2**63) <= request.seed < 2**63:
            raise Refused(
                f"a seed of {request.seed} does not fit into 64 bits", param="seed"
            )
        self.ids = [*prompt_ids, *begun_ids]
        self.adapter = adapter
        self.pad_id, self.stop_ids = encoding.pad_id, encoding.stop_ids
        self.seed = request.seed
        self.position = len(begun_ids)  # of the next token in the answer
        self.left = min(request.max_tokens, encoding.max_length - len(self.ids))
        self.settings = SamplingSettings(
            request.temperature, request.top_k, request.top_p
        )
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._decoder = Decoder(tokenizer, begun_ids)
        self._stops = StopTexts(request.stop)
        self._unreported = 0  # tokens since the last piece

    def take(self, token: int) -> Piece | None:
        """Append a token; the piece of text that it completes, if it does."""
        self.position += 1
        self.left -= 1
        self._unreported += 1
        ended = token in self.stop_ids
        text, stopped = self._stops.add("" if ended else self._decoder.add(token))
        finish = "stop" if ended or stopped else "length" if self.left <= 0 else None
        if finish and not stopped:
            rest, stopped = self._stops.add(self._decoder.end())
            text += rest if stopped else rest + self._stops.end()
            finish = "stop" if stopped else finish
        if not text and not finish:
            return None
        piece = Piece(text, finish, self._unreported)
        self._unreported = 0
        return piece
