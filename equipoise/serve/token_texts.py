"""The text of each single token, as log-probabilities are labelled with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ANCHOR = "a"
"""Text before a token, so that its own leading space is seen: tokenizers of the
SentencePiece kind drop that of a text's first token.
"""


class TokenTexts:
    """Token ids in, their texts out; each is decoded once."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` only decodes, from whatever thread; what encodes is another copy."""
        self.tokenizer = tokenizer
        self._known: dict[int, str] = {}
        anchor = tokenizer.encode(ANCHOR, add_special_tokens=False)
        self._anchor: list[int] = anchor
        self._before = self.whole(anchor)

    def of(self, token: int) -> str:
        """The text of a token alone; of a part of a character, the replacement character."""
        text = self._known.get(token)
        if text is None:
            joined = self.whole([*self._anchor, token])
            if joined.startswith(self._before):
                text = joined[len(self._before) :]
            else:
                text = self.whole([token])
            self._known[token] = text
        return text

    def whole(self, ids: Sequence[int]) -> str:
        """The text of tokens, control tokens shown."""
        return self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
