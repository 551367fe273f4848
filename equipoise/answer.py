"""The answer in a move: what it says to its reader, without thoughts and channels.

    answer_of(move).text          what judges, sets, measures and other players read
    public_match(match)           a match as its judges and the other seats see it
    normalised(text)              the same text whatever its width, signs, spaces and quotes

A thought is parted by the marks of the player's own template, where the move records them, and by
the marks that are in use elsewhere: `<think>`, `[THINK]`, channels, and their kind. A thought
begins where the answer begins, so an answer that explains such marks, in prose or in code, keeps
its text. A thought that never ended is no answer. The text itself is never changed otherwise, and
the move keeps the whole.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

import msgspec

from equipoise.types import Marks, Match, Move

UNFINISHED = "it thought to the end of its tokens: raise max_new_tokens"
"""The reason why a move without an end of its thoughts has no score."""

PARTED = Marks("", "")
"""The marks of a move whose thoughts have been parted: its text has none."""

TAGS = ("think", "thinking", "thought", "thoughts", "reasoning", "seed:think", "longcat_think")
KNOWN = (
    *(Marks(f"<{tag}>", f"</{tag}>") for tag in TAGS),
    Marks("[THINK]", "[/THINK]"),
    Marks("<|begin_of_thought|>", "<|end_of_thought|>"),
    Marks("<|START_THINKING|>", "<|END_THINKING|>"),
    Marks("<|inner_prefix|>", "<|inner_suffix|>"),
    Marks("◁think▷", "◁/think▷"),
    Marks("<|channel>thought", "<channel|>"),
    Marks("<unused94>thought", "<unused95>"),
    Marks("Here is my thought process:", "Here is my response:"),
)
"""The marks of thoughts that are in use; an end in plain words ends only a thought that began."""
ENDINGS = re.compile(
    "|".join(re.escape(marks.closing) for marks in KNOWN if not marks.closing.endswith(":")),
    re.IGNORECASE,
)

# What may enclose the whole answer that follows a thought.
WRAPPERS = (
    *((f"<{tag}>", f"</{tag}>") for tag in ("answer", "response", "solution")),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
)
CHANNEL = re.compile(
    r"(?:<\|start\|>\s*assistant)?[^<]*<\|channel\|>\s*(?P<name>\w+).*?<\|message\|>", re.DOTALL
)
CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
# Channels as they look where a decoder dropped the control tokens.
BARE_CHANNEL = re.compile(r"\s*(?:assistant)?(?:analysis|commentary)(?=[^\sa-z])")
BARE_FINAL = "assistantfinal"
FENCE = r"^[ \t]*(?:```|~~~)"
QUOTES = "`'\"“”‘’«»"
NEAR = 300  # characters of a line that are read before a mark
COMBINING = 30  # combining marks of a run that stay: ordering them takes quadratic time


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of a move for its reader, and its thoughts.

    text: without thoughts. thoughts: those that were parted, in order. unfinished: a thought never
    ended, so there is no answer.
    """

    text: str
    thoughts: tuple[str, ...] = ()
    unfinished: bool = False

    @property
    def normalised(self) -> str:
        """The text in one form of width, signs, spaces and quotes."""
        return normalised(self.text)


def answer_of(move: Move) -> Answer:
    """The answer in a move; "" where the move failed.

    >>> answer_of(Move("<think>\\n9, no: 10.\\n</think>\\n\\nIt is 10.")).text
    'It is 10.'
    >>> answer_of(Move("<think>\\nIt could be 10", "length")).unfinished
    True
    """
    answer = parse_answer(move.text, move.marks)
    if not move.text and move.finish == "length":  # of thoughts that a server keeps to itself
        answer = replace(answer, unfinished=True)
    if not move.thoughts:
        return answer
    cut = move.finish == "length" and not answer.text.strip()
    return replace(
        answer, thoughts=(move.thoughts, *answer.thoughts), unfinished=answer.unfinished or cut
    )


def public_move(move: Move) -> Move:
    """The move as others see it: its text is the answer, and its thoughts stand apart.

    One that thought to the end of its tokens has failed, for it says nothing.
    """
    if move.finish == "error":
        return move
    answer = answer_of(move)
    if answer == Answer(move.text):
        return move
    public = msgspec.structs.replace(
        move, text=answer.text, thoughts="\n\n".join(answer.thoughts), marks=PARTED
    )
    if answer.unfinished:
        return msgspec.structs.replace(public, finish="error", error=UNFINISHED)
    return public


def public_match(match: Match) -> Match:
    """The match with every move as others see it; the same object where nobody thought."""
    turns = []
    for turn in match.turns:
        move = public_move(turn.move)
        turns.append(turn if move is turn.move else msgspec.structs.replace(turn, move=move))
    if all(turn is own for turn, own in zip(turns, match.turns, strict=True)):
        return match
    return msgspec.structs.replace(match, turns=tuple(turns))


def parse_answer(text: str, marks: Marks | None = None) -> Answer:
    """The answer in a text; `marks` are those of the player's template, None: the known ones."""
    if marks == PARTED:
        return Answer(text)
    if "<|channel|>" in text and (marks is None or "<|channel|>" in marks.opening):
        channels = answer_of_channels(text)
        if channels is not None:
            return channels
    if marks is not None:
        return without_wrapper(answer_between_marks(text, marks))
    if BARE_CHANNEL.match(text):
        thoughts, final, answer = text.rpartition(BARE_FINAL)
        if not final:
            return Answer("", (text,), unfinished=True)
        return Answer(answer.lstrip(), (thoughts,))
    answer = Answer(text)
    for _ in KNOWN:  # thoughts of one kind after thoughts of another
        known = known_marks(answer.text)
        if known is None or answer.unfinished:
            break
        following = answer_between_marks(answer.text, known)
        if following.text == answer.text:
            break
        answer = replace(following, thoughts=(*answer.thoughts, *following.thoughts))
    return without_wrapper(answer)


def known_marks(text: str) -> Marks | None:
    """The known marks by which a text thinks: those that it begins with, or that it ends by."""
    beginning = text.lstrip()[:NEAR].casefold()
    for marks in KNOWN:
        if beginning.startswith(marks.opening.casefold()):
            return marks
    ending = ENDINGS.search(text)
    if ending is None:
        return None
    endings = [marks.closing.casefold() for marks in KNOWN]
    return KNOWN[endings.index(ending[0].casefold())]


def answer_between_marks(text: str, marks: Marks) -> Answer:
    """The answer in a text whose thoughts stand between these marks.

    An end without a beginning ends a thought that the prompt began, unless a sentence mentions it.
    """
    thoughts: list[str] = []
    pieces: list[str] = []
    inside = marks.opened
    begun = marks.opened
    fenced = False
    nested = 0  # beginnings within a thought that have no end so far
    explained = 0  # beginnings in the answer's own prose that have no end so far
    position = 0
    for mark in marks_pattern(marks).finditer(text):
        kind = mark.lastgroup
        if kind == "fence":
            fenced ^= not inside
            continue
        if is_quoted(text, mark, inside) or (fenced and not inside):
            continue
        before = text[position : mark.start()]
        if kind == "opening":
            if inside:
                if before.strip() or not marks.opened:
                    nested += 1
                else:
                    position = mark.end()
            elif begins_thought(text, mark, before, begun):
                pieces.append(before)
                inside = begun = True
                position = mark.end()
            elif not is_mention(text, mark):
                explained += 1
        elif inside:
            thoughts.append(before)
            inside = False
            fenced = False
            position = mark.end()
        elif explained:
            explained -= 1
        elif nested or not is_mention(text, mark):
            nested = max(0, nested - 1)
            thoughts.append("".join((*pieces, before)))
            pieces = []
            begun = True
            position = mark.end()
    if not begun:
        return Answer(text)
    rest = text[position:]
    thoughts = [thought.strip() for thought in thoughts]
    if inside:
        return Answer("", (*thoughts, rest.strip()), unfinished=True)
    answer = "".join((*pieces, rest)).lstrip()
    return Answer(answer, tuple(filter(None, thoughts)))


@cache
def marks_pattern(marks: Marks) -> re.Pattern[str]:
    opening = re.escape(marks.opening.strip())
    closing = re.escape(marks.closing.strip())
    return re.compile(
        rf"(?P<opening>{opening})|(?P<closing>{closing})|(?P<fence>{FENCE})",
        re.IGNORECASE | re.MULTILINE,
    )


def begins_thought(text: str, mark: re.Match[str], before: str, begun: bool) -> bool:
    """True if a mark outside of thoughts begins one: at the answer's beginning, or, where it has
    thought already, at that of a line or before its end.
    """
    if not before.strip():
        return True
    before_in_line = before[-NEAR:].rpartition("\n")
    starts_line = bool(before_in_line[1]) and not before_in_line[2].strip()
    ends_line = text[mark.end() : mark.end() + 1] == "\n"
    return begun and (starts_line or ends_line)


def is_quoted(text: str, mark: re.Match[str], inside: bool) -> bool:
    """True if a mark stands in quotes or, outside of thoughts, in code within its line."""
    start, end = mark.span()
    before = text[max(0, start - NEAR) : start]
    after = text[end : end + NEAR]
    if before[-1:] and before[-1:] in QUOTES and after[:1] and after[:1] in QUOTES:
        return True
    line_before = before.rpartition("\n")[2]
    line_after = after.partition("\n")[0]
    return not inside and line_before.count("`") % 2 == 1 and "`" in line_after


def is_mention(text: str, mark: re.Match[str]) -> bool:
    """True if a sentence goes on around a mark: "the </think> tag ends it"."""
    before = text[max(0, mark.start() - NEAR) : mark.start()]
    after = text[mark.end() : mark.end() + NEAR]
    return bool(re.search(r"[\w,;:][ \t]+$", before)) and bool(
        re.match(r"[ \t]+[a-z(]|[ \t]*[,;.:)!?]", after)
    )


def answer_of_channels(text: str) -> Answer | None:
    """The answer in a text of channels, of which `final` is for the reader; None: it has none."""
    if not re.match(r"\s*<\|(?:start|channel)\|>", text):
        return None
    thoughts: list[str] = []
    finals: list[str] = []
    for name, content in channels_of(text):
        if name == "final":
            finals.append(content)
        else:
            thoughts.append(content)
    if not finals:
        return Answer("", tuple(thoughts) or (text,), unfinished=True)
    return Answer("\n\n".join(finals), tuple(thoughts))


def channels_of(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while mark := CHANNEL.search(text, position):
        ending = CHANNEL_END.search(text, mark.end())
        end = ending.start() if ending else len(text)
        yield mark["name"], text[mark.end() : end]
        position = end


def without_wrapper(answer: Answer) -> Answer:
    """The answer after a thought without a tag that encloses the whole of it."""
    inner = answer.text.strip()
    if not answer.thoughts:
        return answer
    for opening, closing in WRAPPERS:
        if inner.startswith(opening) and inner.endswith(closing):
            content = inner[len(opening) : -len(closing)]
            if opening not in content:
                return replace(answer, text=content.strip())
    return answer


# -- one form of a text

SIGNS = dict.fromkeys(map(ord, "−‐‑‒–﹣"), "-") | {ord("⁄"): "/", ord("∕"): "/", ord("﹢"): "+"}
MARKS_OF_NUMBERS = {ord("٫"): ".", ord("٬"): ","}
SINGLE = dict.fromkeys(map(ord, "‘’‚‛‹›ʼ"), "'")
DOUBLE = dict.fromkeys(map(ord, "“”„‟«»"), '"')
LINES = dict.fromkeys(map(ord, "\u2028\u2029\u0085"), "\n")
UNSEEN = dict.fromkeys(
    map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e"), None
)
TABLE = SIGNS | MARKS_OF_NUMBERS | SINGLE | DOUBLE | LINES | UNSEEN
SAFE = ("<wide>", "<narrow>", "<font>", "<noBreak>", "<vertical>", "<small>")


def normalised(text: str) -> str:
    """The text in one form of width, signs, spaces and quotes, to be compared and searched.

    Wide, narrow and styled characters become plain ones, digits of every script 0 to 9; so do
    minus signs, short dashes and quotes, and spaces of every width. Characters whose meaning would
    change stay: a power, a fraction, a number in a circle.

    >>> normalised("\\u2212\\uff11\\uff12\\u202f000 \\u201cx\\u00b2\\u201d")
    '-12 000 "x²"'
    """
    if text.isascii():
        return text.replace("\r\n", "\n")
    pieces = []
    for are_marks, run in groupby(text.replace("\r\n", "\n"), is_combining):
        run_text = "".join(run)
        pieces.append(run_text[:COMBINING] if are_marks else run_text)
    composed = unicodedata.normalize("NFC", "".join(pieces))
    plain = "".join(map(plain_character, composed))
    return unicodedata.normalize("NFC", plain).translate(TABLE)


def is_combining(character: str) -> bool:
    return unicodedata.combining(character) != 0


@cache
def plain_character(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(SAFE) or "\ufb00" <= character <= "\ufb06":
        return unicodedata.normalize("NFKC", character)
    return character
