"""Rules that read a text's form and words: does it answer or ask back, and what does it name?"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import product

from equipoise.environments.assistance.payoff_matrix import ACTIONS

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
    sentences: list[str] = []
    for line in response.splitlines():
        sentences += map(str.strip, _SENTENCE.findall(line))
    return [sentence for sentence in sentences if is_question(sentence)]


def is_question(sentence: str) -> bool:
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
            if is_question(plain):
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
_ANSWER = re.compile(r"^[^\S\n]*Answer \d+:\s*(\S.*)", re.MULTILINE)
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
    subject = substance(f"{question} {meanings}")
    return any(
        bool(_CLARIFIES.search(each)) or bool(substance(each) & subject)
        for each in questions_in(response)
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


def substance(text: str) -> set[str]:
    """Words of substance, the long ones by their first letters."""
    words = set(_WORD.findall(text.casefold())) - set(_COMMON.split())
    stems = set()
    for word in words:
        kept = max(STEM, len(word) - 2)
        stems.add(word if len(word) <= STEM else word[:kept])
    return stems


# Hints that name no label: what an action is, in words.
HINTS = {
    "AQ": re.compile(r"\bfollow[- ]?up", re.IGNORECASE),
    "CQ": re.compile(
        r"\b(?:clarif\w+|ask\w* (?:back|the user|for|which|what)|question back)", re.IGNORECASE
    ),
    "DA": re.compile(
        r"\b(?:direct(?:ly)? (?:answer|respon|reply)\w*"
        r"|(?:answer|respond|reply)\w*(?: \w+){0,2} (?:directly|at once|outright))",
        re.IGNORECASE,
    ),
}
# Both, in this order: "answer … and then ask".
ANSWER_AND_ASK = tuple(
    re.compile(rf"\b(?:{words})", re.IGNORECASE)
    for words in (r"answer\w*", r"(?:and|then|plus)\b", "ask|question")
)
_LABEL = re.compile(
    rf"(?<![A-Za-z0-9])(?:[DV]Q\W{{0,9}}_?\W{{0,9}})?({'|'.join(ACTIONS)})(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[.;\n]+|(?:,|(?<!\s)(?=\s))\s++\b(?:but|while|whereas|although|though)\b\s*", re.I
)
# Between two labels of one list: "DA, CQ and AQ".
_LISTING = re.compile(r"[\s,/&+*_`'\"()|]*(?:(?:and|or|as well as)[\s*_`'\"(]*)?", re.I)
# What turns the label after it down: "over DA", "DA beats CQ", "not AQ".
_AGAINST_NEXT = re.compile(
    r"\b(?:over|rather than|instead of|than|beats?|outdo(?:es)?|dominates?|avoid\w*|"
    r"reject\w*|exclud\w*|rul\w+ out|neither|nor|not(?! dominated| only))\b",
    re.IGNORECASE,
)
# Where one of these follows, something else is turned down: "beats CQ is DA".
_PASSIVE = re.compile(r"\b(?:by|is|are)\b", re.IGNORECASE)
# What turns a label down that stands before it: "DA is dominated", "CQ falls out".
_DOWN = re.compile(
    r"(?<!non-)(?<!not )(?<!never )"
    r"(?:dominated|beaten|outdone|worse|worst|inferior|rejected|excluded|ruled out|"
    r"falls? out|loses?|off the front(?:ier)?|"
    r"not (?:on|in|part|optimal|efficient|best|chosen|worth|good)|"
    r"(?:isn|aren)['’]t (?:on|in|part|optimal|efficient|best|chosen|worth|good))\b",
    re.IGNORECASE,
)
_AGAINST_LAST = re.compile(rf"\s*(?:\w+\s+){{0,3}}?{_DOWN.pattern}", re.IGNORECASE)
_CHOICE = re.compile(
    r"\b(?:choos\w*|chose\w*|choice|pick\w*|select\w*|recommend\w*|best|optimal|"
    r"optimum|prefer\w*|strategy|go(?:ing)? (?:for|with))\b",
    re.IGNORECASE,
)


def named_on_frontier(analyze: str | None, front: Sequence[str]) -> float:
    """Grade <analyze> by the true frontier's actions that it names: 1, ½ or 0.

        1   at least one action of the frontier is clearly named; others that are named
            besides, or are missing, are tolerated
        ½   one is only implied, in words without its label, or overshadowed: named, but
            actions off the frontier alone are chosen
        0   otherwise: none is named, those named are turned down, or there is no block

    front: the frontier's outcomes, "DQ_DA", of which the action counts, or actions; in either case.
    Source: GTAlign (arXiv 2510.08872), the released reward's judge of <analyze>.
    """
    right = {cell.rpartition("_")[2].upper() for cell in front}
    text = analyze or ""
    named: set[str] = set()  # actions that are not turned down
    chosen: set[str] = set()
    for clause in _CLAUSE.split(text):
        kept = set(kept_actions(clause))
        named |= kept
        if _CHOICE.search(clause):
            chosen |= kept
    if chosen & right or (named & right and not chosen):
        return 1.0
    if named & right or is_implied(analyze or "", right):
        return 0.5
    return 0.0


def kept_actions(clause: str) -> Iterator[str]:
    labels = list(_LABEL.finditer(clause))
    end = 0
    for group in lists(clause, labels):
        before = clause[end : group[0].start()]
        end = group[-1].end()
        if not turns_down_next(before) and not _AGAINST_LAST.match(clause, end):
            yield from (label[1].upper() for label in group)


def turns_down_next(text: str) -> bool:
    passive = max((match.start() for match in _PASSIVE.finditer(text)), default=-1)
    return any(match.end() > passive for match in _AGAINST_NEXT.finditer(text))


def lists(clause: str, labels: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The labels, those of one list together."""
    groups: list[list[re.Match[str]]] = []
    for label in labels:
        if groups and _LISTING.fullmatch(clause[groups[-1][-1].end() : label.start()]):
            groups[-1].append(label)
        else:
            groups.append([label])
    return groups


def is_implied(text: str, actions: Collection[str]) -> bool:
    """True if a clause without labels describes one of the actions in words."""
    clauses = [clause for clause in _CLAUSE.split(text) if not _LABEL.search(clause)]
    accepted = [clause for clause in clauses if not _DOWN.search(clause)]
    return any(hints_at(action, clause) for action, clause in product(actions, accepted))


def hints_at(action: str, clause: str) -> bool:
    if HINTS[action].search(clause):
        return True
    return action == "AQ" and in_order(clause, ANSWER_AND_ASK)


def in_order(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    end = 0
    for pattern in patterns:
        match = pattern.search(text, end)
        if match is None:
            return False
        end = match.end()
    return True
