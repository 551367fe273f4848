"""Made-up outputs of four blocks, most of them damaged in the ways of models, for
`benchmarks.gtalign_oracle`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
TAGS = ("thinking", "payoff", "analyze", "response")
WORDS = [
    "the",
    "question",
    "is",
    "vague",
    "so",
    "ask",
    "back",
    "DA",
    "CQ",
    "AQ",
    "clear",
    "answer",
    "user",
    "model",
    "3.5",
    "{x}",
    "naïve",
    "答案",
    "ответ",
    "ﬁne",
    '"quoted"',
    "it's",
    "<b>",
    "&",
    "\\boxed{2}",
    "\u200b",
    "\xa0",
    "🎲",
    "DQ_DA",
    "VQ_CQ",
    "front",
]
SPACES = (" ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\u200b", "\ufeff", "\x0b", "\u2028")
ODD_VALUES: tuple[Any, ...] = (
    *(True, False, None, "1.0", "high", float("inf"), float("-inf"), float("nan"), 10**400, 1e-12),
    *([1.0], {"value": 1}, 0, -0.0, 1e300, 10**30, 0.1 + 0.2),
)
Dice = random.Random
Damage = Callable[[Dice, str], str]


def outputs(dice: Dice) -> Iterator[str]:
    """Outputs without end: a quarter as asked for, the others damaged once to four times."""
    while True:
        text = whole(dice)
        for _ in range(dice.choice([0, 1, 1, 1, 2, 2, 3, 4])):
            text = dice.choice(DAMAGES)(dice, text)
        yield text


def prose(dice: Dice, longest: int) -> str:
    """Up to so many words."""
    return " ".join(dice.choices(WORDS, k=dice.randrange(longest + 1)))


def cells(dice: Dice) -> dict[str, Any]:
    """Six outcomes, in any order, of which one may have an odd value."""
    matrix: dict[str, Any] = {}
    for name in dice.sample(CELLS, len(CELLS)):
        user = round(dice.uniform(-5, 5), 1)
        llm = dice.choice([user, user + 0.1, round(dice.uniform(-5, 5), 1), dice.randrange(-5, 6)])
        matrix[name] = {"LLM": llm, "user": user}
    if dice.random() < 0.2:
        matrix[dice.choice(CELLS)][dice.choice(["LLM", "user"])] = dice.choice(ODD_VALUES)
    return matrix


def whole(dice: Dice) -> str:
    """An output in order, its matrix as JSON or as Python has it."""
    matrix = cells(dice)
    written = dice.choice([json.dumps, json.dumps, str, lambda m: json.dumps(m, indent=2)])(matrix)
    contents = (prose(dice, 60), written, prose(dice, 40), prose(dice, dice.choice([5, 80, 900])))
    seam = dice.choice(["", "", "\n", "\n\n", " "])
    blocks = (f"<{tag}>{text}</{tag}>" for tag, text in zip(TAGS, contents, strict=True))
    return seam.join(blocks)


def _space(dice: Dice, text: str) -> str:
    space = dice.choice(SPACES)
    return dice.choice([space + text, text + space, text + space + prose(dice, 3)])


def _space_at_a_tag(dice: Dice, text: str) -> str:
    tag = dice.choice(_marks())
    space = dice.choice(SPACES)
    return text.replace(tag, dice.choice([space + tag, tag + space, tag[:-1] + space + ">"]), 1)


def _marks() -> list[str]:
    return [mark for tag in TAGS for mark in (f"<{tag}>", f"</{tag}>")]


def _fence(dice: Dice, text: str) -> str:
    fence = dice.choice(["```json\n", "```\n", "```", "~~~"])
    if dice.random() < 0.3:
        return f"{fence}{text}\n```"
    return text.replace("<payoff>", f"<payoff>{fence}").replace("</payoff>", "\n```</payoff>")


def _drop(dice: Dice, text: str) -> str:
    return text.replace(dice.choice(_marks()), "", dice.choice([1, -1]))


def _repeat(dice: Dice, text: str) -> str:
    tag = dice.choice(TAGS)
    block = f"<{tag}>{dice.choice(['{}', prose(dice, 5), json.dumps(cells(dice))])}</{tag}>"
    mark = dice.choice(_marks())
    return dice.choice([text.replace(mark, mark + block, 1), text + block, block + text])


def _stray_tag(dice: Dice, text: str) -> str:
    place = dice.randrange(len(text) + 1)
    return text[:place] + dice.choice(_marks()) + text[place:]


def _rename(dice: Dice, text: str) -> str:
    tag = dice.choice(TAGS)
    return text.replace(
        tag, dice.choice([tag.upper(), tag.title(), f"{tag}s", "analysis", "answer"])
    )


def _swap(dice: Dice, text: str) -> str:
    one, other = dice.sample(TAGS, 2)
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


def _quotes(dice: Dice, text: str) -> str:
    left, right = dice.choice(["“”", "„“", "‘’", "''", "«»", "``"])
    head, mark, rest = text.partition("<payoff>")
    matrix, end, tail = rest.partition("</payoff>")
    for n in range(matrix.count('"')):
        matrix = matrix.replace('"', right if n % 2 else left, 1)
    return head + mark + matrix + end + tail


def _break_matrix(dice: Dice, text: str) -> str:
    pairs = [("}", ",}"), ("}}", "}"), (":", " : "), (",", ",,"), ("{", "{ # note\n"), ("}", "})")]
    pairs += [(":", "="), ("LLM", "llm"), ("user", "User"), ("DQ_AQ", "DQ-AQ"), ("{", "[")]
    pairs += [(".", ","), ("-", "−"), ("0", "００"), ("true", "yes"), ("{", '{"DQ_DA": 1, ')]
    head, mark, rest = text.partition("<payoff>")
    matrix, end, tail = rest.partition("</payoff>")
    old, new = dice.choice(pairs)
    return head + mark + matrix.replace(old, new, dice.choice([1, 1, -1])) + end + tail


def _booleans(dice: Dice, text: str) -> str:
    word = dice.choice(
        ["true", "false", "True", "False", "null", "None", "NaN", "Infinity", "1e999"]
    )
    head, mark, rest = text.partition(dice.choice(['"LLM": ', "'user': ", '"user": ', "'LLM': "]))
    stop = min((rest.find(end) for end in ",}" if end in rest), default=0)
    return head + mark + (word + rest[stop:] if mark else rest)


def _twice(dice: Dice, text: str) -> str:
    return text.replace("<payoff>{", '<payoff>{"VQ_DA": {"LLM": 9, "user": 9}, ', 1)


def _cut(dice: Dice, text: str) -> str:
    return text[: dice.randrange(len(text) + 1)]


def _empty(dice: Dice, text: str) -> str:
    tag = dice.choice(TAGS)
    head, mark, rest = text.partition(f"<{tag}>")
    return head + mark + f"</{tag}>" + rest.partition(f"</{tag}>")[2] if mark else ""


def _fill(dice: Dice, text: str) -> str:
    return text.replace("</analyze>", f" {prose(dice, 1200)}</analyze>", 1)


def _nest(dice: Dice, text: str) -> str:
    tag = dice.choice(TAGS)
    return f"<{tag}>{text}</{tag}>"


def _entities(dice: Dice, text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;") if dice.random() < 0.3 else text + "\0"


DAMAGES: tuple[Damage, ...] = (
    *(_space, _space, _space_at_a_tag, _fence, _fence, _drop, _repeat, _repeat, _stray_tag),
    *(_rename, _swap, _quotes, _break_matrix, _break_matrix, _booleans, _booleans, _twice, _cut),
    *(_empty, _fill, _nest, _entities),
)
