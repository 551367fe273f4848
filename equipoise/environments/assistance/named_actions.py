"""Grade the actions that a text names as good, from labels and a few turns of phrase.

Source: GTAlign (arXiv 2510.08872), the reward's second published variant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from equipoise.environments.assistance.payoff_matrix import ACTIONS

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
    named, chosen = _named_actions(analyze or "")
    if chosen & right or (named & right and not chosen):
        return 1.0
    if named & right or _is_implied(analyze or "", right):
        return 0.5
    return 0.0


def _named_actions(text: str) -> tuple[set[str], set[str]]:
    """(actions named and not turned down, those of them that are chosen)."""
    named: set[str] = set()
    chosen: set[str] = set()
    for clause in _CLAUSE.split(text):
        kept = set(_kept_actions(clause))
        named |= kept
        if _CHOICE.search(clause):
            chosen |= kept
    return named, chosen


def _kept_actions(clause: str) -> Iterator[str]:
    labels = list(_LABEL.finditer(clause))
    end = 0
    for group in _lists(clause, labels):
        before = clause[end : group[0].start()]
        end = group[-1].end()
        if not _turns_down_next(before) and not _AGAINST_LAST.match(clause, end):
            yield from (label[1].upper() for label in group)


def _turns_down_next(text: str) -> bool:
    passive = max((match.start() for match in _PASSIVE.finditer(text)), default=-1)
    return any(match.end() > passive for match in _AGAINST_NEXT.finditer(text))


def _lists(clause: str, labels: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The labels, those of one list together."""
    groups: list[list[re.Match[str]]] = []
    for label in labels:
        if groups and _LISTING.fullmatch(clause[groups[-1][-1].end() : label.start()]):
            groups[-1].append(label)
        else:
            groups.append([label])
    return groups


def _is_implied(text: str, actions: Collection[str]) -> bool:
    """True if a clause without labels describes one of the actions in words."""
    clauses = [clause for clause in _CLAUSE.split(text) if not _LABEL.search(clause)]
    return any(
        _hints_at(action, clause) and not _DOWN.search(clause)
        for action in actions
        for clause in clauses
    )


def _hints_at(action: str, clause: str) -> bool:
    if HINTS[action].search(clause):
        return True
    return action == "AQ" and _in_order(clause, ANSWER_AND_ASK)


def _in_order(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    end = 0
    for pattern in patterns:
        match = pattern.search(text, end)
        if match is None:
            return False
        end = match.end()
    return True
