"""The final piece of mathematics in an answer, and its numbers as LaTeX.

An answer says what it comes to in one of these ways, the surer ones first; of several alike, the
last counts:

    boxed       \\boxed{10}                        a box that never closes is no answer
    marked      #### 10     <answer>10</answer>    {"answer": 10}
    declared    The answer is 10.                  Answer: 10
    alone       10 + 2x
    mentioned   So she has 10 apples left.

What is denied is passed over ("10, not 9"), and so are dates.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from equipoise.answer import normalised

BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=[{\w])")
BETWEEN_BOXES = re.compile(r"[\s$,;]*(?:(?:\\text\{)?\s*(?:and|or)\s*\}?)?[\s$,;]*\Z")
MARKED = re.compile(
    r"<answer>(?P<tag>.*?)</answer>"
    r"|[\"'](?:final_)?answer[\"']\s*:\s*(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^,}\"]+))",
    re.IGNORECASE | re.DOTALL,
)
SAYS = (
    r"(?:final |correct |right )?(?:answer|result|solution)s?(?: to [^.:\n]{1,60})?"
    r"(?:\W{0,3} (?:is|are|was|equals|would be|must be|comes to|will be)\b(?: therefore| thus)?:?"
    r"|\W{0,4}[:=]\W{0,3}(?=\S))"
    r"|\btotal(?: \w+)? (?:is|was|comes to)(?=[^\n.=]*(?:\.\d[^\n.=]*)?\.?\s*\Z)"
    r"|(?<![\w.])(?:a|ans)[:.] ?(?=[-\d$\\])"
    r"|答案(?:是|为|：|:)|答え(?:は|：|:)|정답(?:은|:)|답(?:은|:)|ответ(?: —|:)|الجواب(?: هو|:)"
    r"|antwort(?: ist| lautet|:)|réponse(?: est| :|:)|respuesta(?: es|:)|resposta(?: é|:)"
    r"|risposta(?: è|:)"
)
DECLARED = re.compile(SAYS, re.IGNORECASE)
CORRECTED = re.compile(
    r"\b(?:no|wait|actually|correction|rather|sorry|i mean)\b[\s,:.!]*"
    r"(?:no[,:. ]+|it'?s |it is |that should be |make that |i mean )*(?=[-+$\d.(\\])",
    re.IGNORECASE,
)
END_OF_STATEMENT = re.compile(r"(?<!\d)\.(?=\s|$)|(?<=\d)\.(?=\s|$)|[。！!?\n]|\s\((?=[A-Za-z])")
MORE = re.compile(
    r"\n|[.;,] |\b(?:is|are|it's|equals|so|gets?|has|have|makes?|leaves?"
    r"|pays?|costs?|says?)\b[^=]*\d"
)
DENIED = re.compile(
    r",? (?:and |but )?(?:not|rather than|instead of) (?:\\?[$€£])?-?[\d.,/]*\d"
    r"|\bnot (?:\\?[$€£])?-?[\d.,/]*\d(?=,? (?:but|it)\b)|\bit'?s not (?:\\?[$€£])?-?[\d.,/]*\d",
    re.IGNORECASE,
)
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
DATE = re.compile(
    rf"\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)? {MONTH},? \d{{4}}\b"
    rf"|\b{MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b",
    re.IGNORECASE,
)
WRAPPED = re.compile(r"\\(?:text|mbox|textbf|mathrm|textit)\s*\{[^{}]*\}|\\[a-zA-Z]+")
SHORT_WORDS = re.compile(r"\b(?:it|is|so|we|he|in|of|to|at|an|as|by|or|if|my|no)\b", re.IGNORECASE)
FORMULA = re.compile(r"\$|\\\(|\\\[")
FUNCTIONS = frozenset({"sqrt", "sin", "cos", "tan", "log", "exp"})
TEXT = re.compile(r"\s*\\(?:text|mbox|textbf|mathrm|textit)\s*\{[^{}]*\}\s*")
SPELLED = re.compile(r"\d+_\{?\d+\}?|\d+(?::\d+)+")
WORDS = re.compile(r"[^\W\d_][^\W\d_]+(?:[ '-][^\W\d_]+)*")

VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5",
    "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8",
    "⅝": "5/8", "⅞": "7/8", "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
SCALES = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
CURRENCY = r"\\?[$€£¥₹₽₩]|\b(?:USD|EUR|GBP)\b"
# Spaces, commas and the like between groups of digits, in the ways in which they are written.
GROUPED = re.compile(
    r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?![\d/])|\d{1,3}(?:'\d{3})+(?!\d)"
    r"|\d{1,3}(?:_\d{3})+(?!\d)|\d{1,3}(?:\.\d{3}){2,}(?![\d.])|\d{1,2}(?:,\d\d)+,\d{3}(?!\d))"
)
UNIT = (
    r"(?:[kcmμµn]?m|km|kg|mg|g|s|ms|min(?:ute)?s?|h|hr?s?|hours?|days?|[mk]?[lL]|[kM]?J|k?N|k?W|V|A"
    r"|Hz|k?Pa|eV|K|mol|in(?:ch(?:es)?)?|ft|feet|lbs?|oz|mph|units?|cents?|°\s?[CF]?"
    r"|degrees?|sq(?:uare)?)"
)
RAISED_UNIT = rf"{UNIT}(?:\^?\{{?-?[1-4]\}}?)?"
UNITS = re.compile(rf"(?<=[\d)}}])\s*{RAISED_UNIT}(?:\s*[/·* ]\s*{RAISED_UNIT})*\Z")
UNITS_OF_PI = re.compile(rf"(?<=\\pi)\s+{RAISED_UNIT}\Z")
NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)(?:\s*\\times 10\^\{-?\d+\})?"
PLAIN = re.compile(
    rf"(?P<sign>(?<![\w)\]])[-+]\s?)?(?:{CURRENCY})?\s?(?P<number>"
    rf"\\frac\{{-?\d+\}}\{{\d+\}}|{NUMBER}(?:\s?/\s?{NUMBER})?)(?P<percent>\s?(?:\\?%|percent\b|pct\b))?"
    rf"(?:(?: |(?=k\b))(?P<scale>k|thousand|million|billion|trillion)\b)?"
)
BRACKETED = re.compile(r"[(\[{][^()\[\]{}]*,[^()\[\]{}]*[)\]}]")
SCIENTIFIC = re.compile(
    r"(?<![\w.\\^{])(\d+(?:\.\d+)?|\.\d+)(?:\s*[x×*·]\s*10\s*\^?\s*[({]?([-+]?\d+)[)}]?"
    r"|[eE]([-+]?\d+)(?![\w.]*\w))"
)


REMARK = re.compile(r"\((?:[^()]*[^\W\d_]{2}|\s*[=≈])[^()]*\)")
REASON = re.compile(r"(?<=\d)(?P<unit> [^\d.!?\n]{0,40}?)?,? (?:since|because)\b(?:[^.!?\n]|\.\d)*")
# Units in a wrapper behind a number, and magnitudes that are written onto one.
WRAPPED_UNITS = re.compile(
    r"(?<=[\d})])(?:\\[ ,;:]|[~\s])*\\(?:text|mbox|mathrm|textrm|operatorname)\s*\{[^{}]*\}"
    r"(?:\^\{?-?\d\}?)?(?=[\s.$]*\Z)"
)
THOUSANDS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)k\b")
PRICE = re.compile(rf"(?:{CURRENCY})\s?(\d+(?:\.\d+)?)\s?(?:(K)|(M|mn|mio)|(B|bn))\b")
CHECKED = re.compile(
    r"(?<=\d)[\s;,.(]+(?:check|verify|verification|proof|probe)\b ?(?::|-).*",
    re.IGNORECASE | re.DOTALL,
)
WRAPPED_NUMBER = re.compile(r"\\(?:text|mbox|textbf|mathrm|textit)\s*\{([^{}]*\d[^{}]*)\}")
POINT_IN_PRICE = re.compile(r"(?<![\d.,])(\d{1,3})\.(?=\d{3}\s?(?:€|EUR\b|[Ee]uros?\b|reais\b))")
UNTIL_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL = {name: value for value, name in enumerate(UNTIL_TWENTY.split())}
SMALL |= {name: 10 * place for place, name in enumerate(TENS.split(), 2)}
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
NUMERAL = "|".join((*SMALL, "hundred", *(scale for scale in SCALES if scale != "k")))
NUMERALS = re.compile(
    rf"\b(?:an? )?(?:{NUMERAL})(?:(?:[ -]|,? and )(?:{NUMERAL}))*\b"
    rf"(?:[ -](?P<part>{'|'.join(PARTS)}|halve)s?\b)?(?!-?\w)",
    re.IGNORECASE,
)


class Piece(NamedTuple):
    """A piece of an answer; `apart`: it was set apart as what the answer comes to."""

    text: str
    apart: bool


def final_piece(text: str) -> Piece | None:
    """The piece of an answer that says what it comes to.

    None where a box was begun and never closed, or holds nothing. The text is `normalised`.

    >>> final_piece("It is \\\\boxed{9}, no wait, \\\\boxed{10}")
    Piece(text='10', apart=True)
    >>> final_piece("The answer is 12. (I checked it 3 times.)")
    Piece(text='12', apart=True)
    """
    boxes = list(BOX.finditer(text))
    if boxes:
        return boxed_piece(text, boxes)
    after_mark = text.rpartition("####")[2].strip()
    if "####" in text and after_mark:
        return Piece(after_mark.splitlines()[0], True)
    marked = list(MARKED.finditer(text))
    if marked:
        content = next(filter(None, marked[-1].groups()), "")
        return Piece(content.strip(), True)
    declared = list(DECLARED.finditer(text))
    if not declared:
        return Piece(text, False)
    stated = text[declared[-1].end() :].strip(" *_:\n")
    correction = list(CORRECTED.finditer(stated))
    if correction:
        stated = stated[correction[-1].end() :]
    ending = end_of_statement(stated)
    piece = stated[:ending].strip(' *_`"')
    if not re.search(r"[\d\\$½¼¾⅓⅔π∞]|\w", piece):
        return Piece(text, False)
    return Piece(piece, True)


def boxed_piece(text: str, boxes: list[re.Match[str]]) -> Piece | None:
    """The content of the last box, with those that an "and" or a comma joins to it."""
    contents: list[str] = []
    beginning = len(text)
    for box in reversed(boxes):
        ending = closing_brace(text, box.end())
        if ending is None:
            return None
        if contents and not BETWEEN_BOXES.match(text[ending:beginning]):
            break
        content = text[box.end() : ending].strip()
        if content.startswith("{"):
            content = content[1:-1].strip()
        if not contents:
            percent = re.match(r"\s*\$?\s*(\\?%|percent\b|pct\b)", text[ending:])
            content += "\\%" if percent and "%" not in content else ""
        contents.insert(0, content)
        beginning = box.start()
        if "," in content or BOX.search(content):
            break
    content = ", ".join(contents)
    inner = list(BOX.finditer(content))
    if inner:
        return boxed_piece(content, inner)
    return Piece(content, True) if content else None


def closing_brace(text: str, opening: int) -> int | None:
    """The end of what begins at `opening`: behind its brace, or behind one character."""
    if text[opening : opening + 1] != "{":
        return opening + 1
    depth = 0
    for place in range(opening, len(text)):
        escaped = place > 0 and text[place - 1] == "\\"
        if text[place] == "{" and not escaped:
            depth += 1
        elif text[place] == "}" and not escaped:
            depth -= 1
            if depth == 0:
                return place + 1
    return None


def end_of_statement(stated: str) -> int:
    """The end of the statement: that of its sentence or line, outside of formulas."""
    formula = re.match(r"\$\$?|\\\[|\\\(", stated)
    if formula:
        closings = {"$": "$", "$$": "$$", "\\[": "\\]", "\\(": "\\)"}
        closing = closings[formula[0]]
        end = stated.find(closing, formula.end())
        if end > 0:
            return end + len(closing)
    ending = END_OF_STATEMENT.search(stated)
    return ending.start() if ending else len(stated)


def as_latex(text: str, *, decimal_comma: bool = False) -> str:
    """`text` with its numbers as LaTeX reads them: no groups, fractions and powers spelled out.

    >>> as_latex("3½ or 1 000 000 or 1.77 × 10⁻⁶")
    '\\\\frac{7}{2} or 1000000 or 1.77 \\\\times 10^{-6}'
    """
    text = re.sub(r",\s*\\!\s*|\{,\}", ",", text).replace("\\!", "").replace("\\,", " ")
    text = re.sub(r"(?:°|\^\\circ|\^\{\\circ\})\s?[CF]\b", "", text)
    text = re.sub(r"(?i)\bminus (?=[\d.$€£])", "-", text)
    text = re.sub(r"([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda run: f"^{{{run[0].translate(RAISED)}}}", text)
    text = re.sub(r"√\s*(\d+|[a-z]\b)", r"\\sqrt{\1}", text)
    text = text.replace("π", "\\pi ").replace("∞", "\\infty ").replace("°", "^\\circ ")
    text = re.sub(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d\d)(?!\d)", continental_number, text)
    text = GROUPED.sub(lambda match: re.sub(r"[ ,'_.]", "", match[0]), text)
    if decimal_comma:
        text = re.sub(r"(?<![\d,.])(\d+),(\d{1,2}|\d{4,})(?![\d,])", r"\1.\2", text)
    vulgar = "".join(VULGAR)
    text = re.sub(rf"(?:(?<!\d)(\d{{1,9}})\s?)?([{vulgar}])", vulgar_fraction, text)
    text = re.sub(r"(?<![\d/.^{])(\d+) (\d+)/(\d+)(?![\d/])", mixed_number, text)
    return SCIENTIFIC.sub(
        lambda match: rf"{match[1]} \times 10^{{{int(match[2] or match[3])}}}", text
    )


def continental_number(match: re.Match[str]) -> str:
    """1.500,00 as 1500.00."""
    return f"{match[1].replace('.', '')}.{match[2]}"


def vulgar_fraction(match: re.Match[str]) -> str:
    over, under = VULGAR[match[2]].split("/")
    over = int(match[1] or 0) * int(under) + int(over)
    return rf"\frac{{{over}}}{{{under}}}"


def mixed_number(match: re.Match[str]) -> str:
    whole, over, under = (int(part) for part in match.groups())
    return rf"\frac{{{whole * under + over}}}{{{under}}}"


def right_piece(gold: str) -> str:
    """The right answer in a fact: its box, or what stands behind "####" (GSM8K's mark)."""
    text = normalised(gold)
    after_mark = text.rpartition("####")[2].strip()
    if "####" in text and after_mark:
        return after_mark
    boxes = list(BOX.finditer(text))
    piece = boxed_piece(text, boxes) if boxes else None
    return piece.text if piece else text.strip()


def plain_words(text: str, *, bare: bool = False) -> str:
    """The words of a text without mathematics, without case and marks; "" where it is mathematics.

    That is what stands in LaTeX's \\text, or words of two letters and more; `bare` takes any text.
    """
    is_text = TEXT.fullmatch(text) is not None
    inner = re.sub(r"\\(?:text|mbox|textbf|mathrm|textit)\s*\{([^{}]*)\}", r"\1", text)
    inner = inner.strip(" $.,;:!?*_`\"'()[]{}\n")
    if not (is_text or bare or WORDS.fullmatch(inner)):
        return ""
    return " ".join(inner.casefold().split())


def readings(piece: Piece, gold: str) -> Iterator[str]:
    """Ways to read a piece as LaTeX in dollars, the likelier ones first.

    `gold` says what is looked for: a list, a tuple, or one value.
    """
    has_list = re.search(r",(?! ?\\!)", GROUPED.sub("0", gold.replace(",\\!", ""))) is not None
    text = piece.text
    if not re.search(r"[a-zA-Z]", WRAPPED.sub("", as_latex(gold))):
        text = THOUSANDS.sub(r"\1 thousand", PRICE.sub(price_in_words, text))
        text = WRAPPED_UNITS.sub("", text)
    if not piece.apart:
        text = CHECKED.sub("", text)
    text = WRAPPED_NUMBER.sub(r"\1", POINT_IN_PRICE.sub(r"\1", text))
    text = without_currency(DATE.sub(" ", DENIED.sub(" ", text)))
    without_remarks = REMARK.sub(" ", text)
    if not piece.apart:
        if len(PLAIN.findall(without_remarks)) == 1:
            text = without_remarks
        text = REASON.sub(lambda clause: clause["unit"] or "", text)
    if not re.search(r"[\d\\$]", text):
        text = NUMERALS.sub(in_digits, text)
    text = as_latex(text, decimal_comma=not has_list)
    if FORMULA.search(text):
        yield text
    elif is_formula(text) or (piece.apart and "\\" in text):
        if not re.search(r"[a-zA-Z]", WRAPPED.sub("", as_latex(gold))):
            text = UNITS_OF_PI.sub("", UNITS.sub("", text))
        ending = " .;:!?*_" if "!" not in gold else " .;:?*_"
        yield f"${text.lstrip(' :*_').rstrip(ending)}$"
    elif has_list:
        bracketed = BRACKETED.findall(text)
        if bracketed:
            yield f"${bracketed[-1]}$"
        joined = re.sub(r",?\s*\b(?:and|or|und|et|y|e|oder|ou|o)\b\s*", ", ", text)
        values = re.findall(r"-?[\d./]*\d", joined)
        if values:
            yield f"${', '.join(values)}$"
    after = text.rpartition("=")[2]
    numbers = list(PLAIN.finditer(after)) or list(PLAIN.finditer(text))
    if numbers:
        # What stands behind "=" is what a sentence comes to, unless it goes on to say more.
        ends_equation = "=" in text and MORE.search(after) is None
        chosen = numbers[0] if piece.apart or ends_equation else numbers[-1]
        yield f"${latex_number(chosen)}$"
    yield text


def price_in_words(price: re.Match[str]) -> str:
    """A price with its magnitude spelled out: "$2M" is "2 million"."""
    amount, is_thousands, is_millions, _ = price.groups()
    if is_thousands:
        return f"{amount} thousand"
    return f"{amount} million" if is_millions else f"{amount} billion"


def in_digits(numerals: re.Match[str]) -> str:
    """A number in English words as digits: "two hundred and five" is 205, "one half" 1/2."""
    total = 0
    group = 0
    fraction = (numerals["part"] or "").casefold()
    names = re.findall(r"[a-z]+", numerals[0].casefold())
    for numeral in names[:-1] if fraction else names:
        if numeral in SMALL:
            group += SMALL[numeral]
        elif numeral == "hundred":
            group = 100 * max(group, 1)
        elif numeral in SCALES:
            total += max(group, 1) * 10 ** SCALES[numeral]
            group = 0
    if fraction:
        return f"{total + group}/{PARTS.get(fraction, 2)}"
    return str(total + group)


def is_formula(text: str) -> bool:
    """True if a text holds no words: names of one or two letters, functions and LaTeX at most."""
    names = set(re.findall(r"[A-Za-z]{3,}", WRAPPED.sub("", text)))
    return names <= FUNCTIONS and not SHORT_WORDS.search(text)


def latex_number(match: re.Match[str]) -> str:
    sign = "-" if (match["sign"] or "").startswith("-") else ""
    value = f"{sign}{match['number']}"
    if match["scale"]:
        value += rf" \times 10^{{{SCALES[match['scale']]}}}"
    return value + (r"\%" if match["percent"] else "")


def without_currency(text: str) -> str:
    """`text` without currency signs; a dollar sign stays where it opens or closes a formula.

    >>> without_currency("It costs $70,000, not $5. So $x = 5$.")
    'It costs 70,000, not 5. So $x = 5$.'
    """
    text = re.sub(r"\\\$|[€£¥₹₽₩]|\b(?:USD|EUR|GBP) ?(?=\d)", "", text)
    pieces: list[str] = []
    rest = text
    while "$" in rest:
        before, _, rest = rest.partition("$")
        pieces.append(before)
        inside, closing, after = rest.partition("$")
        is_amount = re.match(r"\s?-?\.?\d", rest) is not None
        if not closing or (is_amount and (re.match(r"-?\d", after) or inside.endswith(" "))):
            if not is_amount:
                pieces.append("$")
            continue
        pieces.append(f"${inside}$")
        rest = after
    return "".join((*pieces, rest))


def looks_mathematical(answer: Any) -> bool:
    """True if an answer is a number, or a text with mathematical symbols and no words.

    Symbols are digits, operators and LaTeX commands; a word has three letters or more.
    """
    if isinstance(answer, (list, tuple, bool)):
        return False
    text = re.sub(r"\\(?:begin|end){[a-z]*}", "", str(answer))
    closed, brace, rest = text.rpartition("}")  # what follows is never closed
    text = re.sub(r"\\(?:text|mbox|mathrm)\s*{[^}]*}", "", closed + brace) + rest
    names = re.findall(r"[A-Za-z]{3,}", re.sub(r"\\[A-Za-z]+", "", text))
    has_symbols = re.search(r"\d|\\[A-Za-z]|[=^+*/]", str(answer)) is not None
    return has_symbols and FUNCTIONS.issuperset(names)


def says_in_words(text: str, right: str) -> bool:
    """True if the last sentence of a short text names `right`, and does not deny it."""
    sentences = [each for each in re.split(r"[.!?\n]+\s*", text.casefold()) if each.strip()]
    if len(right) < 3 or len(text) > 300 or not sentences:
        return False
    last = sentences[-1]
    is_named = re.search(rf"(?<!\w){re.escape(right)}(?!\w)", last) is not None
    return is_named and re.search(r"\bnot\b|n't\b|\bnor\b|\bor\b", last) is None
