"""By rule, from words: whether a question back is about the question it answers, and whether an
answer gives several readings of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from equipoise.environments.assistance.response_action import questions_in

# A question that asks for a meaning, whatever it names.
_CLARIFIES = re.compile(
    r"\b(?:(?:do|did) you (?:mean|want to know|refer)|you(?:'re| are) "
    r"(?:asking|referring|talking|interested|looking|after|thinking)|"
    r"are you (?:asking|referring|talking|interested|looking|after|thinking)|"
    r"which (?:one|of (?:these|those|them|the)|meaning|sense)|"
    r"(?:be|little|bit) more specific|(?:have|had) in mind|"
    r"(?:clarify|specify|narrow|elaborate)|more (?:details?|context|information))\b"
    r"|^\W*which(?: one)?\W*$",
    re.IGNORECASE,
)
# A way to answer for one reading among others.
_READING = re.compile(
    r"\bif (?:you(?:'re| are)? )?(?:mean|meant|asking|referring|talking|interested|"
    r"looking|it|this|that|the question)\b"
    r"|\b(?:can|could|may|might) (?:also )?(?:mean|refer|be (?:read|understood))\b"
    r"|\b(?:in the|as for the|for the|on the|under the) "
    r"(?:first|second|third|other|latter|former)\b"
    r"|\b(?:another|other|second|alternative) (?:meaning|reading|interpretation|sense)\b"
    r"|\balternatively\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"^\s*Answer \d+:\s*(.+?)\s*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+")
_COMMON = """
a about all also am an and any are as at be been but by can could did do does doing for
from get give had has have he her hers him his how i if in into is it its know like me
mean more most my of on one or our please s say she so some t tell than that the their
them then there these they this those to today up us use want was we were what when
where which who whom whose why will with would you your
"""
STEM = 4  # letters by which two long words count as one: "digit", "digits"


def asks_about(response: str, question: str, meanings: str = "") -> bool:
    """Whether some question in the response is about the question that was asked: it asks which
    meaning is meant, or shares a word of substance with the question or its known meanings.
    """
    subject = _substance(f"{question} {meanings}")
    return any(
        bool(_CLARIFIES.search(asked)) or bool(_substance(asked) & subject)
        for asked in questions_in(response)
    )


def gives_several(response: str, meanings: str = "") -> bool:
    """Whether the response answers for two readings or more.

    It holds the answers of two of the known `meanings` ("Answer 0: …", one a line or after a
    semicolon), or twice speaks of a reading ("if you mean …, alternatively …").
    """
    text = _plain(response)
    answers = {_plain(answer) for answer in _answers(meanings)}
    given = [answer for answer in answers if answer and f" {answer} " in f" {text} "]
    apart = [a for a in given if not any(a != b and a in b for b in given)]
    return len(apart) >= 2 or len(_READING.findall(response)) >= 2


def _answers(meanings: str) -> Sequence[str]:
    """The answers in a text of meanings: "Meaning 0: …; Answer 0: …"."""
    return _ANSWER.findall(re.sub(r";\s*(?=Answer \d+:)", "\n", meanings))


def _plain(text: str) -> str:
    """Its words in small letters, one space between them."""
    return " ".join(_WORD.findall(text.casefold()))


def _substance(text: str) -> set[str]:
    """The words of substance, the long ones by their first letters."""
    words = set(_WORD.findall(text.casefold())) - set(_COMMON.split())
    return {word if len(word) <= STEM else word[: max(STEM, len(word) - 2)] for word in words}
