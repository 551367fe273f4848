"""Text under judgement is data: it is shown between marks that its author cannot know.

    <<answer 3f9a12bc07>>
    the text, without invisible characters, control tokens or the code, of bounded length
    <<end of answer 3f9a12bc07>>

The code of a question whose verdict must carry it (`verdict_code`) comes from the user's secret and
from all the texts that the question quotes, so nobody who wrote one of them can know it, whatever
else they know of the run. Where no verdict carries a code (`code_of`), it follows from the
question's seed, so that everybody's judge reads the same. In a text that holds the code it is
broken up, so the block ends where this file ends it. Control tokens of the known chat formats (and
those that the settings name) are broken up too: a tokenizer that understands them in plain text
finds none.
"""

import hashlib
import hmac
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from equipoise import seeds
from equipoise.system.user_secret import user_key
from equipoise.types import Message

# One pattern for the families: pipes in brackets (ChatML, Llama 3, Phi, GLM, DeepSeek, gpt-oss),
# names in angles (Gemma, Llama 2, Qwen's thoughts and tools, T5, Nemotron, Baichuan, StarCoder),
# names in square brackets (Llama 2, Mistral, GLM, BERT), and byte tokens.
ANGLE = (
    r"s|bos|eos|pad|unk|mask|cls|sep|sop|eop|start_of_\w+|end_of_\w+|think(?:ing)?|"
    r"tools?|tool_\w+|function_\w+|extra_id_\d+|unused_?\d+|reserved\w*|"
    r"special_?\d+|fim_\w+|file_sep|repo_name|endoftext|im_start|im_end|"
    r"system|user|human|assistant|bot|ai|observation|0x[0-9a-f]{2}|sys|"
    r"filename|reponame|gh_stars|empty_output|(?:jupyter|issue|commit)_\w+"
)
SQUARE = (
    r"inst|sys|system_prompt|available_tools|tool_calls|tool_results|tool_content|args|"
    r"call_id|think|img\w*|[gs]?mask|cls|sep|pad|unk|bos|eos|prefix|suffix|middle|"
    r"control_\d+|reference_doc_\w+"
)
TOKEN = re.compile(
    rf"(?P<open><(?=\|)|\|(?=>)"
    rf"|<(?=</?\s*(?:{ANGLE})\s*/?>)|<(?=/?\s*(?:{ANGLE})\s*/?>)"
    rf"|\[(?=/?\s*(?:{SQUARE})\s*\]))",
    re.IGNORECASE,
)
# Letters without a shape, variation selectors, and marks that only join: what may hide inside a
# word.
SHAPELESS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0")
SELECTORS = (range(0xFE00, 0xFE10), range(0xE0000, 0xE1000))
FOLDED = set("<>|[]{}/_\\#`\"'")  # the punctuation of control tokens and of verdicts


CODE_DIGITS = 10  # hexadecimal
KEY = "the codes of judges' questions"
MARK = re.compile(rf"<<[^<>\n]* ([0-9a-f]{{{CODE_DIGITS}}})>>")


def code_of(seed: int) -> str:
    """The code of marks that no verdict repeats, of the question's seed alone."""
    return f"{seeds.child(seed, 'code'):016x}"[-CODE_DIGITS:]


def verdict_code(seed: int, texts: Sequence[str]) -> str:
    """The code that the verdict on these texts must carry.

    The beginning of HMAC-SHA256 of seed and texts under this user's key: the same again on this
    machine, and unknown to whoever has the run's recipe, seeds and records of other questions.
    """
    content = json.dumps([seed, *texts])
    digest = hmac.new(user_key(KEY), content.encode(), hashlib.sha256).hexdigest()
    return digest[:CODE_DIGITS]


def code_shown(question: str) -> str:
    """The code of a question's marks, "" for none: that of the first, which no text precedes."""
    mark = MARK.search(question)
    return mark[1] if mark else ""


def block(
    label: str, text: str, code: str, longest: int, control_tokens: Sequence[str] = ()
) -> str:
    """`text` between the marks of `label` and `code`; see `harmless`."""
    shown = harmless(text, code, longest, control_tokens)
    return f"<<{label} {code}>>\n{shown}\n<<end of {label} {code}>>"


def harmless(text: str, code: str, longest: int, control_tokens: Sequence[str] = ()) -> str:
    """`text` between marks of `code`: at most `longest` characters and a note of the cut.

    `control_tokens`, the judging model's, are broken up besides those of known families.
    """
    plain = "".join(map(visible_character, text.replace("\r\n", "\n")))
    plain = beginnings_of((code,)).sub(r"\g<0> ", plain)
    own = own_tokens(tuple(control_tokens))
    if own is not None:
        plain = own.sub(r"\g<0> ", plain)
    plain = TOKEN.sub(r"\g<open> ", plain)
    return shorten(plain, longest)


@lru_cache(maxsize=64)
def own_tokens(tokens: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern of beginnings of a model's own tokens, None if known families hold them."""
    others = [token for token in tokens if len(token.strip()) > 1 and not TOKEN.search(token)]
    return beginnings_of(tuple(others)) if others else None


@lru_cache(maxsize=64)
def beginnings_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern of a token's first half before its second half."""
    halves = [(token[: len(token) // 2], token[len(token) // 2 :]) for token in tokens]
    forms = [f"{re.escape(first)}(?={re.escape(rest)})" for first, rest in halves]
    starts = "".join(re.escape(c) for c in sorted({first[0] for first, _ in halves}))
    return re.compile(f"(?=[{starts}])(?:{'|'.join(forms)})", re.IGNORECASE)


def shorten(text: str, longest: int) -> str:
    """`text` cut to `longest` characters: two parts beginning, one end, and a note between."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    head = longest - tail
    note = f"[… {len(text) - longest} characters are cut here …]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def transcript(messages: Sequence[Message]) -> str:
    """A chat as one text, each message under its role; a lone user's message stands alone."""
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return "\n\n".join(f"{message.role}: {message.content}" for message in messages)


@lru_cache(maxsize=1 << 16)
def visible_character(character: str) -> str:
    """The character to show for an invisible, controlling or disguised one.

    Line and paragraph separators become line ends. Wide or styled letters and brackets, which
    tokenizers would normalise into control tokens, are turned into plain ones. Superscripts,
    fractions and the punctuation of Chinese and Japanese stay.
    """
    if character in "\n\t":
        return character
    if character in "\r\x85\u2028\u2029":
        return "\n"
    kind = unicodedata.category(character)
    is_selector = any(ord(character) in selectors for selectors in SELECTORS)
    if kind in ("Cc", "Cf") or character in SHAPELESS or is_selector:
        return ""
    if kind == "Cs":
        return "\ufffd"
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>", "<small>", "<font>")):
        folded = unicodedata.normalize("NFKC", character)
        if folded.isascii() and (folded.isalnum() or folded in FOLDED):
            return folded
    return character
