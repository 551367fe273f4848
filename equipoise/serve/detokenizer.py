"""The text of tokens that come one at a time: no half characters or parts of a stop text."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from equipoise.serve.engine import Piece
from equipoise.types import Marks

BROKEN = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no character, or not yet one."""
LONGEST = 4  # bytes of a character at most, so that many of them may still become one
WINDOW = 16
"""Tokens that are decoded together; the last half is the context of those that follow."""
ANCHOR = "a"
"""Text before a token, so that its own leading space is seen: tokenizers of the
SentencePiece kind drop that of a text's first token.
"""


class Detokenizer:
    """Token ids in, whole characters out, which together are the whole answer decoded."""

    def __init__(
        self, tokenizer: Any, before: Sequence[int] = (), hidden: Collection[int] = ()
    ) -> None:
        """`before` are the tokens that the answer begins with and whose text is known; `hidden`
        those that have no text, where it is not all of the control tokens.
        """
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._ids = list(before)[-WINDOW:]
        self._emitted = self._text()

    def add(self, token: int) -> str:
        """The text that is certain once `token` has come, without part of a character."""
        self._ids.append(token)
        # A run of byte tokens is decoded as a whole, so that one wrong byte changes the characters
        # before it.
        name = self._tokenizer.convert_ids_to_tokens(token)  # None: unknown to the tokenizer
        if name is not None and name.startswith("<0x"):
            return ""
        text = self._text()
        broken = len(text) - len(text.rstrip(BROKEN))
        certain = text[: len(text) - min(broken, LONGEST)]
        new = certain[len(self._emitted) :]
        self._emitted = max(self._emitted, certain, key=len)
        if not broken and len(self._ids) > WINDOW:
            self._ids = self._ids[-WINDOW // 2 :]
            self._emitted = self._text()
        return new

    def end(self) -> str:
        """The text that was kept back; no further token comes."""
        return self._text()[len(self._emitted) :]

    def _text(self) -> str:
        shown = [token for token in self._ids if token not in self._hidden]
        return self._tokenizer.decode(
            shown, skip_special_tokens=not self._hidden, clean_up_tokenization_spaces=False
        )


class StopTexts:
    """Text up to the first of some texts; the possible beginning of one is kept back."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [text for text in texts if text]
        self._held = ""

    def add(self, text: str) -> tuple[str, bool]:
        """(the text that is certain, whether one of the texts has come)."""
        text = self._held + text
        places = [place for stop in self._texts if (place := text.find(stop)) >= 0]
        if places:
            self._held = ""
            return text[: min(places)], True
        held = max((overlap(text, stop) for stop in self._texts), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def split(self, text: str) -> tuple[str, str | None]:
        """(the text that is certain, what comes after the first of the texts; None: none came)."""
        whole = self._held + text
        certain, is_stopped = self.add(text)
        if not is_stopped:
            return certain, None
        stop = next(stop for stop in self._texts if whole.startswith(stop, len(certain)))
        return certain, whole[len(certain) + len(stop) :]

    def end(self) -> str:
        """The text that was kept back; no further text comes."""
        return self._held


def overlap(text: str, stop: str) -> int:
    """The number of characters at the end of `text` that may be the beginning of `stop`."""
    place = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while place >= 0:
        if stop.startswith(text[place:]):
            return len(text) - place
        place = text.find(stop[0], place + 1)
    return 0


class ThoughtReader:
    """Parts an answer that comes in pieces into its thoughts and its text."""

    def __init__(self, marks: Marks) -> None:
        self._opening = marks.opening.strip()
        self._closing = StopTexts((marks.closing.strip(),))
        self._inside = marks.opened
        self._held: str | None = None if marks.opened else ""  # what may be the opening
        self._blank = marks.opened  # nothing has been shown since the last mark

    def read(self, piece: Piece) -> Piece:
        """The piece with its thoughts apart."""
        text, thoughts = self._part(piece.text)
        if piece.finish is not None:
            if self._inside:
                thoughts += self._closing.end()
            text += self._unspaced(self._held or "")
        return replace(piece, text=text, thoughts=thoughts)

    def _part(self, text: str) -> tuple[str, str]:
        thoughts = ""
        while True:
            if self._inside:
                thought, rest = self._closing.split(text)
                thoughts += self._unspaced(thought)
                if rest is None:
                    return "", thoughts
                self._inside = False
                self._blank = True
                self._held = ""
                text = rest
            if self._held is None:
                return self._unspaced(text), thoughts
            self._held += text
            begun = self._held.lstrip()
            if begun.startswith(self._opening):
                self._inside = True
                self._blank = True
                self._held = None
                text = begun[len(self._opening) :]
                continue
            if self._opening.startswith(begun):
                return "", thoughts
            shown = self._held
            self._held = None
            return self._unspaced(shown), thoughts

    def _unspaced(self, text: str) -> str:
        """The text without the white space that a part begins with."""
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return text


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
