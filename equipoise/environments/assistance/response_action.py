"""Which action a response is: it answers, asks back, or does both; and what it asks.

By rule, from its form alone.
"""

from __future__ import annotations

import re

_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*", re.DOTALL)
_LISTED = re.compile(r"\s*(?:[-*•]|\d+[.)]|\w[.)])\s")
_REQUEST = re.compile(
    r"\b(?:please (?:clarify|specify|tell|share|provide|confirm|give)|"
    r"let me know (?:which|what|whether|if|how)|"
    r"(?:could|can|would) you (?:please )?"
    r"(?:clarify|specify|tell|share|provide|confirm|give|explain))",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\W*(?:sure(?: thing)?|of course|certainly|absolutely|ok(?:ay)?|thanks?(?: you)?|"
    r"hello|hi|hey|great|got it|good question|happy to help|"
    r"(?:i|we)(?:'d| would|'m| am)\b[^,]*\b(?:happy|glad|love)\b.*|"
    r"(?:i|we) (?:need|want) .*|to (?:help|answer|assist|clarify)\b.*|"
    r"(?:before|so that) i .*|for example.*)\W*",
    re.IGNORECASE | re.DOTALL,
)


def questions_in(response: str) -> list[str]:
    """The sentences that ask something: those with a question's mark, and requests to clarify."""
    sentences = [
        sentence.strip() for line in response.splitlines() for sentence in _SENTENCE.findall(line)
    ]
    return [sentence for sentence in sentences if _is_question(sentence)]


def _is_question(sentence: str) -> bool:
    marked = sentence.rstrip("*_\"')”’ ").endswith("?")
    return any(map(str.isalnum, sentence)) and (marked or bool(_REQUEST.search(sentence)))


def response_action(response: str) -> str:
    """The action that a response is: "CQ" only asks, "AQ" says something and asks, "DA" asks
    nothing.

    A request to clarify counts as a question without its mark; a courtesy says nothing, nor does a
    list of choices that stands under a question.
    """
    asks = states = False
    for line in response.splitlines():
        listed = bool(_LISTED.match(line))
        for sentence in _SENTENCE.findall(line):
            plain = sentence.strip()
            if not any(map(str.isalnum, plain)):
                continue
            if _is_question(plain):
                asks = True
            elif not _COURTESY.fullmatch(plain) and not (listed and asks):
                states = True
    if not asks:
        return "DA"
    return "AQ" if states else "CQ"
