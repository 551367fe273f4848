"""An answer under way in a local model: which token comes next at which seed, what text its tokens
make, and how likely they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from equipoise.models.encoding import Encoding
from equipoise.models.prompt_logprobs import Likelihood, ScoredRow
from equipoise.models.token_choice import SamplingSettings
from equipoise.serve.decoding import Decoder, StopTexts
from equipoise.serve.engine import EngineRequest, Piece, Refused, TokenScore
from equipoise.serve.token_texts import TokenTexts


class PendingAnswer:
    """Made in the event loop, which waits for `pieces`; taken over by the model's thread."""

    def __init__(
        self,
        request: EngineRequest,
        prompt_ids: Sequence[int],
        begun_ids: Sequence[int],
        adapter: Path | None,
        encoding: Encoding,
        texts: TokenTexts,
    ) -> None:
        """`begun_ids` are what the answer begins with already; `texts` decode.

        Raises Refused for a seed beyond 64 bits.
        """
        if not -(2**63) <= request.seed < 2**63:
            raise Refused(f"a seed of {request.seed} does not fit into 64 bits", param="seed")
        self.ids = [*prompt_ids, *begun_ids]
        self.adapter = adapter
        self.pad_id, self.stop_ids = encoding.pad_id, encoding.stop_ids
        self.seed = request.seed
        self.position = len(begun_ids)  # of the next token in the answer
        self.left = min(request.max_tokens, encoding.max_length - len(self.ids))
        self.settings = SamplingSettings(request.temperature, request.top_k, request.top_p)
        self.logprobs = request.logprobs  # how many likely tokens beside each
        self.prompt_wanted = request.echo and request.logprobs is not None
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._texts = texts
        self._decoder = Decoder(texts.tokenizer, begun_ids)
        self._stops = StopTexts(request.stop)
        self._unreported = 0  # tokens since the last piece
        self._scores: list[TokenScore] = []  # theirs

    def show_prompt(self, row: ScoredRow) -> Piece:
        """The piece that shows the prompt, its tokens scored.

        It is the last where no answer is wanted.
        """
        self.prompt_wanted = False
        scores = [TokenScore(self._texts.of(self.ids[0]), None)]
        for token, likelihood in zip(self.ids[1:], row.tokens, strict=True):
            scores.append(self._score(token, likelihood))
        finish = None if self.left else "length"
        return Piece(self._texts.whole(self.ids), finish, scores=tuple(scores))

    def take(self, token: int, likelihood: Likelihood | None = None) -> Piece | None:
        """Append a token; the piece of text that it completes, if it does."""
        if likelihood is not None:
            self._scores.append(self._score(token, likelihood))
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
        piece = Piece(text, finish, self._unreported, scores=tuple(self._scores))
        self._unreported, self._scores = 0, []
        return piece

    def _score(self, token: int, likelihood: Likelihood) -> TokenScore:
        top = tuple((self._texts.of(other), value) for other, value in likelihood.top)
        return TokenScore(self._texts.of(token), likelihood.logprob, top)
