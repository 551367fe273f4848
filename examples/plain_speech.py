"""A judge of our own: it likes short sentences of short words.

It has settings, gives two utilities beside its score, and says why where it cannot
judge. Run it from this folder:

    equipoise run plain_speech.yaml
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt

SENTENCE = re.compile(r"[^.!?\n]+")
WORD = re.compile(r"[^\W\d_]+")


class PlainSpeech(Pointwise):
    """The mean of two shares: of sentences with at most `words` words, and of words
    with at most `letters` letters.
    """

    kind: Literal["plain_speech"] = "plain_speech"
    words: int = Field(8, ge=1, description="most words of a short sentence")
    letters: int = Field(5, ge=1, description="most letters of a short word")

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """Both shares and their mean, each in [0, 1]."""
        sentences = [WORD.findall(sentence) for sentence in SENTENCE.findall(text)]
        spoken = [words for words in sentences if words]
        if not spoken:
            return "the answer holds no word"
        every = [word for words in spoken for word in words]
        sentence_share = sum(len(words) <= self.words for words in spoken) / len(spoken)
        word_share = sum(len(word) <= self.letters for word in every) / len(every)
        return {
            "score": (sentence_share + word_share) / 2,
            "short_sentences": sentence_share,
            "short_words": word_share,
        }
