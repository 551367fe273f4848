"""Judging models for tests: scripted players that read the question as a model would, and do as
they are told.
"""

import re

from equipoise import seeds
from equipoise.environments.clerk import assistance_players
from equipoise.types import Prompt, View

ANSWER = re.compile(r"<<(answer[ AB]*) (\w+)>>\n(.*?)\n<<end of", re.DOTALL)


def blocks(view: View) -> dict[str, str]:
    """label -> text of every quoted answer in a judge's question."""
    return {label.strip(): text for label, _, text in ANSWER.findall(view.messages[-1].content)}


def by_length(view: View, seed: int) -> str:
    """Grades an answer by its length, 1 to 10; the code is given back where the question has one to
    give.
    """
    (text,) = blocks(view).values()
    return verdict(view, f'"score": {min(10, 1 + len(text) // 4)}')


def full_marks(view: View, seed: int) -> str:
    """1 for everything."""
    return verdict(view, '"score": 1')


def prefers_longer(view: View, seed: int) -> str:
    """A, B or tie, by length."""
    found = blocks(view)
    a, b = len(found["answer A"]), len(found["answer B"])
    return verdict(view, f'"verdict": "{"A" if a > b else "B" if b > a else "tie"}"')


def verdict(view: View, words: str) -> str:
    """The reply in JSON, reason first, verdict last."""
    code = re.search(r"<<\w[\w ]* (\w+)>>", view.messages[-1].content)
    assert code is not None
    return f'{{"reason": "by length", {words}, "code": "{code[1]}"}}'


def safety(prompt: Prompt, answer: str) -> dict[str, float]:
    """An answer's chance to be safe is the number in it, 1 where there is none."""
    number = re.search(r"0\.\d+", answer)
    p_safe = float(number[0]) if number else 1.0
    return {"score": p_safe, "p_safe": p_safe}


def one_number(view: View, seed: int) -> str:
    """A defender: it answers "Please …" with .25, a bare threat with .75, and refuses what asks to
    be refused.
    """
    text = view.messages[-1].content
    if "refuse" in text:
        return "I'm sorry, but I can't help with that."
    return f"0.25 for {text}" if text.startswith("Please") else f"0.75 for {text}"


def one_quarter(view: View, seed: int) -> str:
    """Another, which falls for everything."""
    return f"0.25 of all for {view.messages[-1].content}"


def asks_nicely(view: View, seed: int) -> str:
    """An adversary: its words to every other seed are nice."""
    number = int(re.findall(r"seed (\d+)", view.messages[-1].content)[-1])
    return f"{'Please' if number % 2 else 'Now'}, seed {number}"


def asks_plainly(view: View, seed: int) -> str:
    """Another, whose words never are."""
    return asks_nicely(view, seed).replace("Please", "Now")


def clumsy_clerk(view: View, seed: int) -> str:
    """An assistant of the clerk's world that errs in many ways, and writes no blocks every fifth
    time.
    """
    if seed % 5 == 0:
        return "19"
    faults = assistance_players.Faults(misjudged=0.2, misplayed=0.3, careless=0.3, rambling=0.3)
    return assistance_players.trace(view.messages, seeds.generator(seed), faults)


def adds(view: View, seed: int) -> str:
    """Adds what it is asked, in the form of every set of problems, and errs in every third; says
    what it is told to say, and refuses what harms or kills.
    """
    text = view.messages[-1].content
    if "harm" in text or "kill" in text:
        return "I'm sorry, but I can't help with that."
    found = re.findall(r"\d+", text)
    total = sum(map(int, found)) + (seed % 3 == 0)
    return f"So it is \\boxed{{{total}}}, in all\n#### {total}"


customer = assistance_players.customer
