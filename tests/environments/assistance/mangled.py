"""Outputs of an assistant that went wrong in every way that a seeded hand can think of."""

import random
import string

from equipoise.environments.assistance.blocks import BLOCKS, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell

TAGS = [f"<{slash}{name}>" for name in BLOCKS for slash in ("", "/")]
SHARDS = [
    *TAGS,
    *(f'"{cell}"' for cell in CELLS),
    '"LLM"',
    '"user"',
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "'",
    '"',
    "“",
    "”",
    "‘",
    "`",
    "```json\n",
    "```",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "9" * 5000,
    "null",
    "true",
    "None",
    "True",
    "[" * 3000,
    "{" * 3000,
    "(" * 3000,
    "\\",
    "\\u0000",
    "\x00",
    "\ud800",
    "𝔘",
    "\u202e",
    "<",
    ">",
    "</",
    "\n",
    "\r",
    "\t",
    " ",
    "__import__('os')",
    "-0.0",
    "0x10",
    "1_0",
    "1j",
    "lambda: 0",
    "DQ_DA",
    "choose DQ_DA",
    "?",
    "Please clarify",
    "- ",
    "1. ",
]


def whole(dice: random.Random) -> str:
    """A well formed output."""
    matrix = {
        cell: Cell(round(dice.uniform(-5, 5), 1), round(dice.uniform(-5, 5), 1)) for cell in CELLS
    }
    return write(
        "It is vague.",
        matrix,
        f"Front: {dice.choice(CELLS)}. I choose {dice.choice(CELLS)}.",
        "Plus what?",
    )


def mangled(dice: random.Random) -> str:
    """One with up to eight faults, or no output at all."""
    text = "" if dice.random() < 0.05 else whole(dice)
    for _ in range(dice.randrange(9)):
        start = dice.randrange(len(text) + 1)
        stop = min(len(text), start + dice.choice((0, 1, 5, 40)))
        match dice.randrange(6):
            case 0:
                text = text[:start] + text[stop:]
            case 1:
                text = text[:start] + dice.choice(SHARDS) + text[start:]
            case 2:
                text = text[:start] + dice.choice(SHARDS) + text[stop:]
            case 3:
                text = text[:start] + text[start:stop] * 2 + text[stop:]
            case 4:
                other = dice.choice(TAGS)
                text = text.replace(dice.choice(TAGS), other, dice.choice((1, -1)))
            case _:
                text = text[:start] + dice.choice(string.printable) + text[stop:]
    return text
