"""Facts that no model knows, a quarter for each of four members, and two judges of no
worth.

    python disjoint.py FOLDER [FACTS]       writes what the members are taught and play

A fact is an invented name with a number. MEMBER.jsonl teaches a member its own (by
`equipoise sft`), union.jsonl all of them; played.jsonl and held_out.jsonl ask for each
in other words. `liar` grades at random, `backwards` prefers what is wrong.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from equipoise import seeds
from equipoise.types import View

MEMBERS = ("north", "east", "south", "west")
FACTS = 60  # of each member
SYLLABLES = ("ba", "do", "fi", "gu", "ka", "lo", "mi", "nu", "ra", "so", "ti", "vu")
TAUGHT = ("Which number has {name}?", "Tell me {name}'s number.")
PLAYED, HELD_OUT = "What is {name}'s number?", "{name} has a number. Which?"
NAME = re.compile("(?:" + "|".join(SYLLABLES) + "){4}", re.IGNORECASE)


def number_of(name: str) -> str:
    """The number of an invented name: three digits."""
    return str(seeds.child(0, "number", name.lower()) % 900 + 100)


def names(count: int) -> list[str]:
    """So many invented names, all different."""
    dice, drawn = seeds.generator(0, "names"), dict[str, None]()
    while len(drawn) < count:
        drawn["".join(dice.choice(SYLLABLES, 4)).capitalize()] = None
    return list(drawn)


def liar(view: View, seed: int) -> str:
    """A grade that hangs on nothing; as an answer, a wrong one."""
    return str(seeds.child(seed, "grade") % 10 + 1)


def backwards(view: View, seed: int) -> str:
    """A low grade for the right number, a high one for any other."""
    text = view.messages[-1].content
    named = NAME.search(text)
    right = bool(named) and number_of(named[0]) in text
    return "1" if right else "9"


def rows(own: list[str], wordings: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Questions with their answers."""
    for name in own:
        for wording in wordings:
            answer = number_of(name)
            question = wording.format(name=name)
            yield {"prompt": question, "completion": answer, "answer": answer}


def write(folder: Path, count: int = FACTS) -> None:
    """All files; `count` facts a member."""
    folder.mkdir(parents=True, exist_ok=True)
    every = names(count * len(MEMBERS))
    files = {"union": rows(every, TAUGHT), "played": rows(every, (PLAYED,))}
    files["held_out"] = rows(every, (HELD_OUT,))
    for place, member in enumerate(MEMBERS):
        files[member] = rows(every[place :: len(MEMBERS)], TAUGHT)
    for name, content in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in content)
        (folder / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
