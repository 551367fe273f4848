"""Multiple choice: the option that a free answer states.

    alone      the whole answer is a letter or an option's text      B    (b)    B. Paris
    set apart  in a box, a tag or JSON                               \\boxed{B}    {"answer": "B"}
    declared   a sentence says so                                    The answer is B.    It's Paris
    opening    an option opens the answer                            B because ...    No, it is not.
    named      an option is mentioned                                I think that (B) fits.

The surer ways come first; of several alike, the last counts, so that a correction does. An option
that is denied ("not B", "B is wrong") is passed over; denying all options but one states that one.
Two options that are stated together ("B or C") are none. `judges/stating_words.py` has the words,
in fifteen languages.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from equipoise.answer import normalised
from equipoise.judges import stating_words as stating
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.system.effects import Text
from equipoise.types import Prompt

LONGEST = 20_000  # characters of an answer that are read
SHORT = 240  # characters at the end of an answer in which an option may be just named
ENDS_OF_SENTENCES = (*".!?。！？)]}\"'」』）؟।", "`")
# Signs beside a letter that stands for a quantity or a unit in a calculation.
CALCULATED_BEFORE = re.compile(r"(?:[=+*/^_·×<{\\]|\d|[\w)] ?[->]) ?\Z")
CALCULATED_AFTER = re.compile(r" ?[=+*/^_·×<>|{}\\]")
# And beside a number; "= 12" is no calculation but its end.
TERM_BEFORE = re.compile(r"[+*/^_·×{\\]\Z|\w-\Z")
TERM_AFTER = re.compile(r" ?[=+*^_·×{}\\]|\(|-\d|\\cdot")
ENUMERATED = re.compile(r"\(b\)|\nb\)")
TRUTH = ("True", "False")
MARKS = " .!?,;:\"'`*()[]{}$_\n。！？，、「」（）،؟"
SET_APART = re.compile(
    r"\\(?:boxed|fbox)\s*\{(?P<box>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
    r"|<answer>(?P<tag>.*?)</answer>"
    r"|[\"'](?:final_?answer|answer|choice|option)[\"']\s*:\s*[\"']?(?P<json>[^\"',}\n]+)",
    re.IGNORECASE | re.DOTALL,
)
LATEX = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|textit|mathsf)\s*\{([^{}]*)\}|\\[ ,;!]|\$|\\[\[\](){}]"
)
NO_LETTER_BEFORE = r"(?<![A-Za-z0-9_'À-ÿ])"
NO_LETTER_AFTER = r"(?![A-Za-z0-9_À-ÿ]|'[a-z]|\.\d)"
JOINED_SCRIPTS = (
    r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # written without spaces, or with endings
)


class Mention(NamedTuple):
    """An option that an answer mentions, by its letter, its text or both."""

    start: int
    end: int
    label: str
    by_letter: bool


class Run(NamedTuple):
    """Options that are mentioned together, as in "B, C and D", and how they are spoken of."""

    labels: tuple[str, ...]
    start: int
    end: int
    manner: str  # declared, opening, named, tentative or denied


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
        right = option_alone(str(gold), options)
        if right is None:
            return f"the fact '{self.fact}' is {str(gold)[:80]!r}, which is none of the options"
        return options, right


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
    return even_text(text).casefold().strip(MARKS)


def even_text(text: str) -> str:
    """`text` in one form, without emphasis and LaTeX's wrappers, with single spaces."""
    text = normalised(text).replace("**", "").replace("`", "")
    if "\\" in text:
        text = LATEX.sub(r" \1 ", text)
    text = re.sub(r"\$(\w+)\$", r"\1", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def stated_option(text: str, options: Mapping[str, str]) -> str | None:
    """The label of the option that `text` states, or None."""
    half = LONGEST // 2
    if len(text) > LONGEST:  # an option is stated where an answer begins or ends
        text = f"{text[:half]}\n{text[-half:]}"
    alone = option_alone(text, options)
    if alone is not None:
        return alone
    apart = [match for match in SET_APART.finditer(normalised(text)) if any(match.groups())]
    if apart:
        content = next(filter(None, apart[-1].groups()))
        after = normalised(text)[apart[-1].end() :]
        if option_alone(content, options) is None and len(bare_text(content)) < 3:
            return None
        if not declared_in(after, options):
            return stated_option(content, options)
    even = even_text(text)
    runs = spoken_of(even, mentions(even, options))
    last = start_of_end(even)
    for off in stating.OFF_THE_LIST.finditer(even):
        last = max(last, off.end())
    for manner in ("declared", "opening", "named", "tentative"):
        alike = [run for run in runs if run.manner == manner]
        if manner == "named":
            alike = [run for run in alike if run.start >= last]
        if manner == "tentative" and len({run.labels for run in alike}) > 1:
            return None
        if alike:
            labels = alike[-1].labels
            return labels[0] if len(labels) == 1 else None
    denied = {label for run in runs for label in run.labels}
    left = [label for label in options if label not in denied]
    return left[0] if len(left) == 1 else None


def start_of_end(text: str) -> int:
    """The beginning of what a text ends with, where it may name its option without more words.

    That is all of a short text, the last sentences of a longer one, and nothing of one that breaks
    off within a sentence.
    """
    if len(text) <= SHORT:
        return 0
    if not text.rstrip().endswith(ENDS_OF_SENTENCES):
        return len(text)
    return len(text) - SHORT


def option_alone(text: str, options: Mapping[str, str]) -> str | None:
    """The option that is the whole of `text`: its letter, its text, or both."""
    whole = bare_text(text)
    for label in options:
        if whole == bare_text(label):
            # It goes first: the letter of one option may be the text of another.
            return label
    for label, option in options.items():
        name = re.escape(bare_text(option))
        mark = re.escape(bare_text(label))
        if name and re.fullmatch(rf"(?:(?:option )?\W*{mark}\W+)?{name}|option {mark}", whole):
            return label
    return None


def declared_in(text: str, options: Mapping[str, str]) -> bool:
    """True if `text` declares an option."""
    even = even_text(text)
    return any(run.manner == "declared" for run in spoken_of(even, mentions(even, options)))


def mentions(text: str, options: Mapping[str, str]) -> list[Mention]:
    """Every mention of an option in order; an option's letter and text side by side are one."""
    lower, places = folded(text)
    seen = []
    for label, option in options.items():
        name = bare_text(option)
        is_own_label = name == bare_text(label)
        if name and not (is_own_label and len(name) == 1):
            for match in re.finditer(whole_words_pattern(name), lower):
                is_word = stating.DETERMINER.match(lower, match.start()) is not None
                if not is_word and not (name[0].isdigit() and is_term(lower, match)):
                    start, last = places[match.start()], places[match.end() - 1]
                    seen.append(Mention(start, last + 1, label, False))
        if len(label) == 1:
            for match in re.finditer(letter_pattern(label), text):
                if not is_in_calculation(text, match):
                    seen.append(Mention(*match.span(), label, True))
    seen.sort(key=lambda mention: (mention.start, -mention.end))
    kept: list[Mention] = []
    for mention in seen:
        if kept and mention.end <= kept[-1].end:
            continue  # "Paris" within "New Paris"
        if kept and mention.label == kept[-1].label:
            between = text[kept[-1].end : mention.start]
            if kept[-1].by_letter and not mention.by_letter and not between.strip(" .:)(]-*,=\"'"):
                kept[-1] = Mention(kept[-1].start, mention.end, mention.label, True)
                continue
        kept.append(mention)
    return kept


def folded(text: str) -> tuple[str, Sequence[int]]:
    """`text` without case, and of each of its characters the place in `text` that it comes from.

    >>> folded("Maß")
    ('mass', [0, 1, 2, 2])
    """
    lower = text.casefold()
    if len(lower) == len(text):  # no character folds to none, so each folds to one
        return lower, range(len(text))
    places = [place for place, character in enumerate(text) for _ in character.casefold()]
    return lower, places


def is_in_calculation(text: str, letter: re.Match[str]) -> bool:
    """True if a letter stands for a quantity or a unit: "F = m·a", "12 J"."""
    before = text[max(0, letter.start() - 3) : letter.start()]
    if CALCULATED_BEFORE.search(before):
        return True
    return CALCULATED_AFTER.match(text, letter.end()) is not None


def is_term(text: str, number: re.Match[str]) -> bool:
    """True if a number is a term of a calculation, and not what it comes to."""
    before = text[max(0, number.start() - 2) : number.start()]
    if TERM_BEFORE.search(before):
        return True
    return TERM_AFTER.match(text, number.end()) is not None


def whole_words_pattern(name: str) -> str:
    """The pattern of an option's text as whole words, in scripts that have spaces."""
    before = "" if re.match(rf"[{JOINED_SCRIPTS}]", name) else r"(?<![\w/])(?<!\d[.,])"
    after = "" if re.search(rf"[{JOINED_SCRIPTS}]\Z", name) else r"(?![\w/])(?![.,]\d)"
    return f"{before}{re.escape(name)}{after}"


def letter_pattern(label: str) -> str:
    """The pattern of an option's letter where it is one, and no word or number of a sentence."""
    upper = re.escape(label.upper())
    exact = f"{NO_LETTER_BEFORE}{upper}{NO_LETTER_AFTER}"
    if label.isdigit() or label.upper() in stating.LETTERS_THAT_ARE_WORDS:
        ends = rf"$|[\n.):,;\]\"'!?/。，、）：؛،]|[{JOINED_SCRIPTS}]"
        exact += rf"(?={ends}| (?:{stating.GOES_ON}))"
        if label.isdigit():
            exact = rf"(?:(?<=\()|(?<=^)|(?<=: )|(?<=option )|(?<=is ))(?:{exact})"
    lower = re.escape(label.lower())
    marked = rf"(?<=\(){lower}(?=\))|{NO_LETTER_BEFORE}{lower}(?=\) )"
    cued = rf"(?<=[Oo]ption ){lower}{NO_LETTER_AFTER}"
    last = rf"(?:(?<=\bis )|(?<='s )|(?<=: )|(?<=\. )){lower}(?=[.!]?\s*\Z)"
    return f"{exact}|{marked}|{cued}|{last}"


def spoken_of(text: str, mentioned: Sequence[Mention]) -> list[Run]:
    """The manner in which a text speaks of the options that it mentions, list by list."""
    runs: list[Run] = []
    place = 0
    while place < len(mentioned):
        last = place
        while last + 1 < len(mentioned):
            between = text[mentioned[last].end : mentioned[last + 1].start]
            if not stating.JOINS.fullmatch(between):
                break
            last += 1
        together = mentioned[place : last + 1]
        start, end = together[0].start, together[-1].end
        limit = mentioned[place - 1].end if place else 0
        before = text[max(limit, start - 120) : start]
        following = mentioned[last + 1].start if last + 1 < len(mentioned) else len(text)
        after = text[end : min(following, end + 80)]
        labels = tuple(dict.fromkeys(mention.label for mention in together))
        opens = limit == 0 and not text[:start].strip(MARKS)
        if text[start].islower() and ENUMERATED.search(text, end):
            opens = False
        manner = manner_of(before, after, opens=opens)
        runs.append(Run(labels, start, end, manner))
        place = last + 1
    return runs


def manner_of(before: str, after: str, *, opens: bool) -> str:
    """The manner in which a sentence speaks of an option, by what stands before it and after."""
    if stating.NAMES_EXCEPTION.search(before):
        return "declared"
    if stating.DENIES_BEFORE.search(before) or stating.DENIES_AFTER.match(after):
        return "denied"
    if stating.TENTATIVE.search(before):
        return "tentative"
    ends = not after.strip(MARKS)
    if stating.DECLARES_BEFORE.search(before) or stating.DECLARES_AFTER.match(after):
        return "declared"
    if ends and stating.ENDS_BY.search(before):
        return "declared"
    return "opening" if opens else "named"
