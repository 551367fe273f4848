"""Multiple choice: the option that a free answer states.

An answer states an option in one of these ways, the surer ones first; of several alike, the last
counts.

    alone      the whole answer is a letter or an option's text
               B    (b)    B. Paris    Paris.
    declared   a sentence says so
               The answer is B.    B is correct.
    marked     an option opens the answer or stands by itself on a line
               B because …    (B)    No, it is not.
    named      an option's text is mentioned, or its marked letter
               It must be Paris.    I think (B) fits.

Of two options, denying one states the other: "that is not true" is False.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.judges.rules import even_width
from equipoise.system.effects import Text
from equipoise.types import Prompt

LONGEST = 20_000  # characters of an answer that are read
TRUTH = ("True", "False")
LETTERS_THAT_ARE_WORDS = ("A", "I")
IS = (
    r" (?:is|would be|should be|must be)"
    r"(?: (?:most )?\w+ly| therefore| thus| then)?"
)
SAYS = (
    rf"\b(?:(?:choice|option)(?={IS}|:)|answer|choose|select|pick)"
    rf"(?:{IS})?(?: option| choice)?(?: ?[:–-])?"
)
OPENING = r"[\s\"'`(\[{$]{0,9}(?:\\(?:boxed|text|textbf|mathrm)\{){0,3}[\s\"'`(\[]{0,9}"
MARKS = " .!?,;:\"'`*()[]{}$_\n"
DENIED = re.compile(r"(?:\bnot|n't|\bnever) (?:[\w']+ ){0,4}\(?$")
WRONG = re.compile(r"[).\"']* (?:is|was|seems|looks) (?:wrong|incorrect|not)\b")
# What may follow a letter that is a word itself.
REASON = "because|since|as|is|and|for"


class Statement(NamedTuple):
    """An option that an answer states, and where; the last and then the longest is greatest."""

    end: int
    length: int
    label: str


class Choice(Pointwise):
    """1 when the option that an answer states is the right one, else 0.

    The options are the fact `choices` (letter -> text, or a list of words), else True and False. An
    answer that states no option is wrong. Unjudged: no right answer, or one that is no option.
    """

    kind: Literal["choice"] = "choice"
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)
    fact: Text = Field(
        default="answer",
        description="the fact that holds the right option: its letter, or its text",
    )
    choices: Text = Field(default="choices", description="the fact that holds the options")

    def score(self, prompt: Prompt, text: str) -> Verdict:
        question = self._question(prompt)
        if isinstance(question, str):
            return question
        options, right = question
        return {"score": float(stated_option(text, options) == right)}

    def why_unjudgeable(self, prompt: Prompt) -> str:
        question = self._question(prompt)
        return question if isinstance(question, str) else ""

    def _question(self, prompt: Prompt) -> tuple[dict[str, str], str] | str:
        """(label -> option, the right label), or the reason why there are none."""
        gold = prompt.facts.get(self.fact)
        if gold is None:
            return f"the prompt has no fact '{self.fact}'"
        options = options_of(prompt.facts.get(self.choices), gold)
        if options is None:
            return f"the prompt has no fact '{self.choices}' with two options or more"
        right = max(_find_alone(str(gold), options), default=None)
        if right is None:
            return f"the fact '{self.fact}' is {str(gold)[:80]!r}, which is none of the options"
        return options, right.label


def options_of(choices: Any, gold: Any) -> dict[str, str] | None:
    """label -> text, or None where there are not two options.

    `choices` is a mapping, a list of texts that are their own labels, or None, which stands for
    True and False where `gold` is one of them.
    """
    if isinstance(choices, Mapping):
        options = {str(label): str(text) for label, text in choices.items()}
    elif isinstance(choices, (list, tuple)):
        options = {str(text): str(text) for text in choices}
    elif choices is None and str(gold).strip().casefold() in ("true", "false"):
        options = {label: label for label in TRUTH}
    else:
        return None
    return options if len(options) > 1 else None


def bare_text(text: str) -> str:
    """`text` without case, white space, and enclosing marks."""
    return _even_text(text).casefold().strip(MARKS)


def stated_option(text: str, options: Mapping[str, str]) -> str | None:
    """The label of the option that `text` states, or None."""
    half = LONGEST // 2
    if len(text) > LONGEST:  # an option is stated where an answer begins or ends
        text = f"{text[:half]}\n{text[-half:]}"
    text = _even_text(text)
    for find in (_find_alone, _find_declared, _find_marked, _find_named):
        if statements := list(find(text, options)):
            return max(statements).label
    return None


def _even_text(text: str) -> str:
    """`text` with even width of characters, plain apostrophes, no emphasis, single spaces."""
    text = even_width(text).replace("’", "'").replace("**", "")
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _letters(options: Mapping[str, str]) -> list[str]:
    return [label for label in options if len(label) == 1]


def _find_alone(text: str, options: Mapping[str, str]) -> Iterator[Statement]:
    whole = bare_text(text)
    for label, option in options.items():
        forms = (option, f"{label}. {option}", f"{label}) {option}")
        if whole == bare_text(label):
            # It goes first: the letter of one option may be the text of another.
            yield Statement(1, len(label), label)
        elif whole in map(bare_text, forms):
            yield Statement(0, len(option), label)


def _find_declared(text: str, options: Mapping[str, str]) -> Iterator[Statement]:
    for label in options:
        for match in re.finditer("|".join(_declarations(label)), text):
            yield Statement(match.end(), len(label), label)


def _declarations(label: str) -> list[str]:
    """Patterns of sentences that say that this option is right."""
    exact = rf"{re.escape(label)}(?![\w']|\.\w)"
    if label in LETTERS_THAT_ARE_WORDS:
        exact += rf"(?! (?!(?:{REASON})\b)[a-z])"  # no sentence goes on from it
    name = f"(?i:{exact})"
    if label in LETTERS_THAT_ARE_WORDS:
        name = rf"(?:{exact}|(?i:{label})(?=[)}}]|\.?\s*\Z))"
    patterns = [rf"(?i:{SAYS}){OPENING}{name}", rf"\\boxed\{{{OPENING}{name}"]
    if len(label) == 1:
        verdict = r"[)\"'`]? is (?:the )?(?:correct|right|best)\b"
        patterns.append(rf"(?<![\w']){exact}{verdict}")
    return patterns


def _find_marked(text: str, options: Mapping[str, str]) -> Iterator[Statement]:
    for label in _letters(options):
        for match in re.finditer(_marks(label), text, re.MULTILINE):
            if not WRONG.match(text, match.end()):
                yield Statement(match.end(), 1, label)
    lower = text.casefold()
    for label, option in options.items():
        name = re.escape(bare_text(option))
        if not name:
            continue
        opens = rf"\A\W*{name}(?=$|[.!?,;:\n])"
        line = rf"^[^\w\n]*{name}[^\w\n]*$"
        for match in re.finditer(f"{opens}|{line}", lower, re.MULTILINE):
            # What opens an answer is where it stands, however long its text.
            end = 1 if match.start() == 0 else match.end()
            yield Statement(end, len(name), label)


def _marks(letter: str) -> str:
    """The pattern of a letter that opens the answer, or stands by itself."""
    if letter in LETTERS_THAT_ARE_WORDS:
        first = rf"{letter}(?=$|[.):,;\]]| -| (?:{REASON})\b)"
    else:
        first = rf"{letter}(?![\w'])"
    forms = (
        rf"\A[(\[]?{first}",
        rf"^[(\[]?{letter}[)\].:]*$",
        rf"^[(\[]?{letter}[)\].:]+ ",
        rf"(?:\bis|:|=) [(\[]?{letter}[)\].]*\Z",
    )
    return "|".join(forms)


def _find_named(text: str, options: Mapping[str, str]) -> Iterator[Statement]:
    lower = text.casefold()
    widest = (-1, -1)
    for start, end, label in _mentions(text, options):
        if end <= widest[1] and (start, end) != widest:
            continue  # "Paris" within "New Paris"
        widest = (start, end)
        before = lower[max(0, start - 80) : start]
        if DENIED.search(before) or WRONG.match(lower, end):
            others = [other for other in options if other != label]
            if len(others) == 1:
                yield Statement(end, end - start, others[0])
        else:
            yield Statement(end, end - start, label)


def _mentions(text: str, options: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """(start, end, label) of every mention of an option, in order, longest first."""
    lower = text.casefold()
    patterns = [
        (label, rf"(?<!\w){re.escape(bare_text(option))}(?!\w)", lower)
        for label, option in options.items()
        if bare_text(option)
    ]
    patterns += [
        (label, rf"\({label}\)|(?i:\boption|\bchoice) \(?{label}(?![\w'])", text)
        for label in _letters(options)
    ]
    mentions = []
    for label, pattern, where in patterns:
        for match in re.finditer(pattern, where):
            mentions.append((match.start(), match.end(), label))
    return sorted(mentions, key=lambda mention: (mention[0], -mention[1]))
