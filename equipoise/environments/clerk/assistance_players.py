"""Scripted players of the assistant's game on the clerk's questions, by rule.

For a scripted player's `call`: `teacher` writes the four blocks, `customer` opens as a user.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise import seeds
from equipoise.environments.assistance.blocks import write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, PayoffMatrix
from equipoise.environments.clerk.assistance_case import Case, read_case
from equipoise.environments.clerk.world import LARGEST, REFUSAL, TOPICS, helpful_answer
from equipoise.errors import DataError
from equipoise.types import Message, Prompt, View

OFFER = "I can help you {verb} it."
FURTHER = ("Is that all?", "Anything else?")
RAMBLING = (
    "The user waits for an answer.",
    "A wrong answer would cost both of us.",
    "A question back takes the user's time.",
    "Let me look at all six outcomes.",
    "Every word takes its time.",
)
TAGS = ("</thinking>", "<payoff>", "</payoff>", "<analyze>", "</analyze>", "</response>")
HARM_MISPLAYED = 0.8  # the share of misplayed requests whose harm is misjudged
# By the cell that is right: (user, llm) of the cells DQ_AQ DQ_CQ DQ_DA VQ_AQ VQ_CQ VQ_DA. In the
# second matrix of each, the model would gain by another move, so that two cells are on the front.
MATRICES: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "DQ_DA": (
        ((2.5, 1.5), (-0.5, 1.0), (4.0, 3.5), (1.0, 0.5), (2.0, 1.5), (-1.5, -0.5)),
        ((2.0, 1.0), (0.5, 3.0), (4.0, 2.5), (1.0, 1.5), (1.5, 2.0), (-1.0, 0.5)),
    ),
    "VQ_CQ": (
        ((1.0, 0.5), (-0.5, 0.5), (2.5, 2.0), (2.0, 1.0), (3.5, 4.0), (-2.0, -1.0)),
        ((1.5, 0.5), (0.5, 1.0), (2.0, 2.5), (3.0, 1.0), (2.5, 4.0), (-1.5, 0.5)),
    ),
}
NOISE = 2  # tenths, either way


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities that a trace goes wrong; by default it never does.

    `misjudged`: vague is taken for detailed, or the reverse. `misplayed`: another move than the
    type's. `careless`: a wrong number or helper. `further`: a follow-up question. `plain`: a
    refusal without an offer. `rambling`: more thoughts. `broken`: no four blocks. `equal`: a cell's
    two values are equal.
    """

    misjudged: float = 0.0
    misplayed: float = 0.0
    careless: float = 0.0
    further: float = 0.0
    plain: float = 0.0
    rambling: float = 0.0
    broken: float = 0.0
    equal: float = 0.2


RIGHT = Faults()
TEACHING = Faults(plain=0.5, rambling=0.3, equal=0.3)


def teacher(view: View, seed: int) -> str:
    """A rule-based teacher: right in move and form, its brevity and help vary by seed."""
    return trace(view.messages, seeds.generator(seed, "desk", "teacher"), TEACHING)


def customer(view: View, seed: int) -> str:
    """A rule-based user: opens with "DQ" or "VQ" by seed, and answers the assistant's questions.

    It reads the lines "Wish: …", "Vague: …", "Told: …" and "Assistant: …". DataError without a
    wish.
    """
    text = view.messages[-1].content if view.messages else ""
    lines = dict(re.findall(r"^(Wish|Vague|Told|Assistant): (.*)$", text, re.MULTILINE))
    if "Wish" not in lines:
        raise DataError(
            "the clerk's customer: its view has no line 'Wish: …'; it plays the user in "
            "the game `assistance` with `simulated: true`"
        )
    if "Assistant" in lines:
        return lines.get("Told") or lines["Wish"]
    if not view.actions and "Vague" not in lines:
        return lines["Wish"]
    return ("DQ", "VQ")[seeds.generator(seed, "desk", "customer").integers(2)]


def trace(
    prompt: Prompt | Sequence[Message], dice: np.random.Generator, faults: Faults = RIGHT
) -> str:
    """The four blocks that the rule-based clerk writes in a chat."""
    case = read_case(prompt.messages if isinstance(prompt, Prompt) else prompt)
    cell = case.cell
    taken_for_harmful = case.harmful
    misjudged, misplayed, further = dice.random(3) < (
        faults.misjudged,
        faults.misplayed,
        faults.further,
    )
    if misjudged:
        cell = "DQ_DA" if case.vague else "VQ_CQ"
    elif misplayed:
        # Most are misplayed by their harm, which alone takes a look at both the verb and the thing.
        if case.verb and not case.vague and dice.random() < HARM_MISPLAYED:
            taken_for_harmful = not taken_for_harmful
        else:
            cell = "VQ_DA" if case.vague else "DQ_CQ"
    if further:
        cell = cell[:3] + "AQ"
    answer = direct_answer(case, taken_for_harmful, dice, faults)
    thoughts = [thought(case, cell[:2], taken_for_harmful, answer)]
    if dice.random() < faults.rambling:
        count = int(dice.integers(1, 4))
        places = dice.choice(len(RAMBLING), count, replace=False)
        thoughts += [RAMBLING[place] for place in places]
    values = matrix(cell, dice, faults.equal)
    analyze = f"Front: {', '.join(front(values))}. Choose {cell}."
    response = respond(case, cell, answer, dice)
    text = write(" ".join(thoughts), values, analyze, response)
    return break_form(text, dice) if dice.random() < faults.broken else text


def thought(case: Case, question: str, harmful: bool, answer: str) -> str:
    """The judged type of the question ("VQ" or "DQ"), and the reason."""
    if question == "VQ":
        return f"VQ: {case.asks_about} is not said."
    if harmful and not case.vague:
        return "DQ: it harms what is somebody's."
    if case.verb:
        return f"DQ: {answer.lower().split(' can ')[0]} can help."
    return f"DQ: the sum is {answer}."


def respond(case: Case, cell: str, answer: str, dice: np.random.Generator) -> str:
    """The response that brings about `cell`; `answer` is the clerk's direct answer."""
    if cell.endswith("CQ"):
        return case.asks
    if not cell.endswith("AQ"):
        return answer
    answer = answer if answer.endswith(".") else f"{answer}."
    question = case.asks if case.vague else FURTHER[dice.integers(len(FURTHER))]
    return f"{answer} {question}"


def direct_answer(case: Case, harmful: bool, dice: np.random.Generator, faults: Faults) -> str:
    """A direct answer to a request taken for `harmful` or not; a guess where a piece is missing."""
    if harmful and not case.vague:
        verbs = case.topic.tame
        offer = OFFER.format(verb=verbs[dice.integers(len(verbs))])
        return REFUSAL if dice.random() < faults.plain else f"{REFUSAL} {offer}"
    careless = dice.random() < faults.careless
    if case.verb:
        helpers = [topic.helper for topic in TOPICS if case.verb in topic.tame + topic.harming]
        if case.vague or careless:
            return helpful_answer(helpers[dice.integers(len(helpers))])
        return helpful_answer(case.helper)
    if case.vague:
        return str(sum(case.numbers) + int(dice.integers(1, LARGEST + 1)))
    slip = int(dice.choice((-1, 1))) if careless else 0
    return str(sum(case.numbers) + slip)


def break_form(text: str, dice: np.random.Generator) -> str:
    """Four blocks with one fault of form: a tag or a cell left out, or text outside the blocks."""
    fault = dice.integers(4)
    if fault == 0:
        cell = CELLS[dice.integers(1, len(CELLS))]
        return re.sub(rf',"{cell}":\{{[^}}]*\}}', "", text)
    if fault == 1:
        return text.replace(TAGS[dice.integers(len(TAGS))], "")
    return f"Sure. {text}" if fault == 2 else f"{text} That is all."


def matrix(cell: str, dice: np.random.Generator, equal: float = 0.0) -> PayoffMatrix:
    """A matrix in which `cell` has the largest sum of all; the least sums lie 0.7 below.

    With probability `equal` a cell gives both sides one value.
    """
    best = "VQ_CQ" if cell.startswith("VQ") else "DQ_DA"
    values = dict(zip(CELLS, MATRICES[best][dice.integers(2)], strict=True))
    values[cell], values[best] = values[best], values[cell]
    noisy: dict[str, Cell] = {}
    for name, pair in values.items():
        noise = dice.integers(-NOISE, NOISE + 1, 2) / 10
        same = dice.random() < equal
        user, llm = (
            round(float(value + shift), 1) for value, shift in zip(pair, noise, strict=True)
        )
        if same:
            # Upwards for the chosen cell and downwards for others: it stays the best.
            user = llm = max(user, llm) if name == cell else min(user, llm)
        noisy[name] = Cell(user, llm)
    return noisy


def front(values: PayoffMatrix) -> list[str]:
    """The cells that no other one beats: as good for both sides, and better for one."""
    return [
        name
        for name, cell in values.items()
        if not any(_beats(other, cell) for other in values.values())
    ]


def _beats(other: Cell, cell: Cell) -> bool:
    return other.user >= cell.user and other.llm >= cell.llm and other != cell
