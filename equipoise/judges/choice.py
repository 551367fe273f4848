"""Multiple choice: which of the given options a free answer states.

An answer states an option in one of these ways, the surer ones first; of several alike,
the last counts.

    alone      the whole answer is a letter or an option's text             B    (b)    B. Paris    Paris.
    declared   a sentence says so                                           The answer is B.    B is correct.
    marked     an option opens the answer or stands by itself on a line     B because …    (B)    No, it is not.
    named      an option's text is mentioned, or its marked letter          It must be Paris.    I think (B) fits.

Of two options, denying one states the other: "that is not true" is False.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt

TRUTH = ("True", "False")
WORDS = ("A", "I")
IS = r" (?:is|would be|should be|must be)(?: (?:most )?\w+ly| therefore| thus| then)?"
SAYS = rf"\b(?:(?:choice|option)(?={IS}|:)|answer|choose|select|pick)(?:{IS})?(?: option| choice)?(?: ?[:–-])?"
OPENING = r"[\s\"'`(\[{$]{0,9}(?:\\(?:boxed|text|textbf|mathrm)\{){0,3}[\s\"'`(\[]{0,9}"
MARKS = " .!?,;:\"'`*()[]{}$_\n"
DENIED = re.compile(r"(?:\bnot|n't|\bnever) (?:[\w']+ ){0,4}\(?$")
WRONG = re.compile(r"[).\"']* (?:is|was|seems|looks) (?:wrong|incorrect|not)\b")
REASON = "because|since|as|is|and|for"  # words that may follow a letter that is a word itself


class Choice(Pointwise):
    """1 when the option that an answer states is the right one, else 0.

    The options are the fact `choices` (letter -> text, or a list of words); without it,
    where the right answer is true or false, they are those two. An answer that states
    no option is wrong, not unjudged. Unjudged: no right answer, or one that is no
    option.
    """

    kind: Literal["choice"] = "choice"
    fact: str = Field(
        default="answer",
        description="the fact that holds the right option: its letter, or its text",
    )
    choices: str = Field(
        default="choices", description="the fact that holds the options"
    )

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """{"score": 1 or 0}, or why not."""
        gold = prompt.facts.get(self.fact)
        if gold is None:
            return f"the prompt has no fact '{self.fact}'"
        options = options_of(prompt.facts.get(self.choices), gold)
        if options is None:
            return f"the prompt has no fact '{self.choices}' with two options or more"
        right = max(_alone(str(gold), options), default=None)
        if right is None:
            return f"the fact '{self.fact}' is {str(gold)[:80]!r}, which is none of the options"
        return {"score": float(stated(text, options) == right[-1])}


def options_of(choices: Any, gold: Any) -> dict[str, str] | None:
    """label -> text from a mapping, from a list of words that are their own labels, or
    True and False for those.
    """
    if isinstance(choices, Mapping):
        found = {str(label): str(text) for label, text in choices.items()}
    elif isinstance(choices, (list, tuple)):
        found = {str(word): str(word) for word in choices}
    elif choices is None and str(gold).strip().casefold() in ("true", "false"):
        found = {word: word for word in TRUTH}
    else:
        return None
    return found if len(found) > 1 else None


def bare(text: str) -> str:
    """`text` without case, white space, and enclosing marks."""
    return _even(text).casefold().strip(MARKS)


def stated(text: str, options: Mapping[str, str]) -> str | None:
    """The label of the option that `text` states, or None."""
    text = _even(text)
    for way in (_alone, _declared, _marked, _named):
        found = list(way(text, options))
        if found:
            return max(found)[-1]
    return None


# Each way yields (end, length, label) of what it finds, so that the greatest is the
# last and the longest there.
Found = Iterator[tuple[int, int, str]]


def _even(text: str) -> str:
    """`text` in one form: width of characters, apostrophes, no emphasis, single spaces
    within lines.
    """
    text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("**", "")
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _letters(options: Mapping[str, str]) -> list[str]:
    return [label for label in options if len(label) == 1]


def _alone(text: str, options: Mapping[str, str]) -> Found:
    whole = bare(text)
    for label, option in options.items():
        if whole == bare(label):
            yield (
                1,
                len(label),
                label,
            )  # the letter of one option may be the text of another
        elif whole in (
            bare(option),
            bare(f"{label}. {option}"),
            bare(f"{label}) {option}"),
        ):
            yield 0, len(option), label


def _declared(text: str, options: Mapping[str, str]) -> Found:
    for label in options:
        # A letter that is also a word ("A", "I") is a letter only where no sentence
        # goes on from it.
        own = rf"{re.escape(label)}(?![\w'])" + (
            rf"(?! (?!(?:{REASON})\b)[a-z])" if label in WORDS else ""
        )
        name = own if len(label) == 1 else f"(?i:{own})"
        patterns = [rf"(?i:{SAYS}){OPENING}{name}", rf"\\boxed\{{{OPENING}{name}"]
        if len(label) == 1:
            patterns.append(
                rf"(?<![\w']){own}[)\"'`]? is (?:the )?(?:correct|right|best)\b"
            )
        for match in re.finditer("|".join(patterns), text):
            yield match.end(), len(label), label


def _marked(text: str, options: Mapping[str, str]) -> Found:
    for label in _letters(options):
        first = (
            rf"{label}(?=$|[.):,;\]]| -| (?:{REASON})\b)"
            if label in WORDS
            else rf"{label}(?![\w'])"
        )
        marks = rf"\A[(\[]?{first}|^[(\[]?{label}[)\].:]*$|^[(\[]?{label}[)\].:]+ |(?:\bis|:|=) [(\[]?{label}[)\].]*\Z"
        for match in re.finditer(marks, text, re.MULTILINE):
            if not WRONG.match(text, match.end()):
                yield match.end(), 1, label
    lower = text.casefold()
    for label, option in options.items():
        words = re.escape(bare(option))
        if not words:
            continue
        for match in re.finditer(
            rf"\A\W*{words}(?=$|[.!?,;:\n])|^\W*{words}\W*$", lower, re.MULTILINE
        ):
            # What opens an answer is where it stands, however long its text.
            yield (1 if match.start() == 0 else match.end()), len(words), label


def _named(text: str, options: Mapping[str, str]) -> Found:
    lower = text.casefold()
    spans: list[tuple[int, int, str]] = []
    for label, option in options.items():
        words = bare(option)
        spans += [
            (m.start(), m.end(), label)
            for m in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", lower)
            if words
        ]
    for label in _letters(options):
        marked = re.finditer(
            rf"\({label}\)|(?i:\boption|\bchoice) \(?{label}(?![\w'])", text
        )
        spans += [(m.start(), m.end(), label) for m in marked]
    widest = (-1, -1)
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= widest[1] and (start, end) != widest:
            continue  # "Paris" within "New Paris"
        widest = (start, end)
        if DENIED.search(lower[max(0, start - 80) : start]) or WRONG.match(lower, end):
            others = [other for other in options if other != label]
            if len(others) == 1:
                yield end, end - start, others[0]
        else:
            yield end, end - start, label
