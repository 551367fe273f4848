"""Rules that read a response's form and words: does it answer, ask back about it, or several?"""

from __future__ import annotations

import re
from collections.abc import Sequence

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

    A request to clarify is a question without its mark; a courtesy, or a question's choices, say
    nothing.
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
    """True if a question in the response asks for the meaning, or shares a word of substance."""
    subject = _substance(f"{question} {meanings}")
    return any(
        bool(_CLARIFIES.search(asked)) or bool(_substance(asked) & subject)
        for asked in questions_in(response)
    )


def gives_several(response: str, meanings: str = "") -> bool:
    """True if the response answers for two readings or more.

    It holds the answers of two of the `meanings` ("Answer 0: …", one a line or after a semicolon),
    or twice speaks of a reading ("if you mean …, alternatively …").
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
    return " ".join(_WORD.findall(text.casefold()))


def _substance(text: str) -> set[str]:
    """Words of substance, the long ones by their first letters."""
    words = set(_WORD.findall(text.casefold())) - set(_COMMON.split())
    return {word if len(word) <= STEM else word[: max(STEM, len(word) - 2)] for word in words}
