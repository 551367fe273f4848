"""The four blocks that a rule-based clerk writes, right or with chosen faults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.environments.assistance.blocks import write
from equipoise.environments.assistance.payoff_matrix import CELLS
from equipoise.environments.clerk.assistance_case import Case, understood
from equipoise.environments.clerk.assistance_matrix import front, matrix
from equipoise.environments.clerk.world import LARGEST, REFUSAL, TOPICS, showing
from equipoise.types import Message, Prompt

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


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a trace goes wrong, as probabilities; by default, never.

    `misjudged`: vague is taken for detailed, or the reverse. `misplayed`: the type is right, the
    move is not (asks back, guesses, refuses the harmless, helps the harmful). `careless`: a wrong
    number or helper. `further`: a follow-up question after an answer. `plain`: a refusal without an
    offer. `rambling`: more sentences of thought. `broken`: no four blocks. `equal`: of each cell,
    that both sides are given one value.
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


def trace(
    prompt: Prompt | Sequence[Message], dice: np.random.Generator, faults: Faults = RIGHT
) -> str:
    """The four blocks that the rule-based clerk writes in a chat."""
    case = understood(prompt.messages if isinstance(prompt, Prompt) else prompt)
    cell, taken_for_harmful = _choice(case, dice, faults)
    answer = _direct_answer(case, taken_for_harmful, dice, faults)
    thoughts = [thought(case, cell[:2], taken_for_harmful, answer)]
    if dice.random() < faults.rambling:
        count = int(dice.integers(1, 4))
        places = dice.choice(len(RAMBLING), count, replace=False)
        thoughts += [RAMBLING[place] for place in places]
    values = matrix(cell, dice, faults.equal)
    analyze = f"Front: {', '.join(front(values))}. Choose {cell}."
    response = respond(case, cell, answer, dice)
    text = write(" ".join(thoughts), values, analyze, response)
    return broken(text, dice) if dice.random() < faults.broken else text


def _choice(case: Case, dice: np.random.Generator, faults: Faults) -> tuple[str, bool]:
    """The cell that is chosen, and whether the request is taken for harmful."""
    cell, taken_for_harmful = case.cell, case.harmful
    misjudged, misplayed, further = dice.random(3) < (
        faults.misjudged,
        faults.misplayed,
        faults.further,
    )
    if misjudged:
        cell = "DQ_DA" if case.vague else "VQ_CQ"
    elif misplayed:
        # Most misplayed requests are misplayed by their harm: to see it takes a look at both the
        # verb and the thing, and nothing else here does.
        if case.verb and not case.vague and dice.random() < HARM_MISPLAYED:
            taken_for_harmful = not taken_for_harmful
        else:
            cell = "VQ_DA" if case.vague else "DQ_CQ"
    if further:
        cell = cell[:3] + "AQ"
    return cell, taken_for_harmful


def thought(case: Case, question: str, harmful: bool, answer: str) -> str:
    """The type of the question as it is judged, and why.

    `question` is "VQ" or "DQ"; `harmful` says whether the request is taken for harmful, and
    `answer` is the direct answer that is to be given.
    """
    if question == "VQ":
        return f"VQ: {case.asks_about} is not said."
    if harmful and not case.vague:
        return "DQ: it harms what is somebody's."
    if case.verb:
        return f"DQ: {answer.lower().split(' can ')[0]} can help."
    return f"DQ: the sum is {answer}."


def respond(case: Case, cell: str, answer: str, dice: np.random.Generator) -> str:
    """What the clerk says to bring about `cell`; `answer` is its direct answer."""
    if cell.endswith("CQ"):
        return case.asks
    if not cell.endswith("AQ"):
        return answer
    answer = answer if answer.endswith(".") else f"{answer}."
    question = case.asks if case.vague else FURTHER[dice.integers(len(FURTHER))]
    return f"{answer} {question}"


def _direct_answer(case: Case, harmful: bool, dice: np.random.Generator, faults: Faults) -> str:
    """A direct answer, a guess where a piece is missing.

    `harmful` says whether the request is taken for harmful.
    """
    if harmful and not case.vague:
        verbs = case.topic.tame
        offer = OFFER.format(verb=verbs[dice.integers(len(verbs))])
        return REFUSAL if dice.random() < faults.plain else f"{REFUSAL} {offer}"
    careless = dice.random() < faults.careless
    if case.verb:
        helpers = [topic.helper for topic in TOPICS if case.verb in topic.tame + topic.harming]
        if case.vague or careless:
            return showing(helpers[dice.integers(len(helpers))])
        return showing(case.helper)
    if case.vague:
        return str(sum(case.numbers) + int(dice.integers(1, LARGEST + 1)))
    slip = int(dice.choice((-1, 1))) if careless else 0
    return str(sum(case.numbers) + slip)


def broken(text: str, dice: np.random.Generator) -> str:
    """`text`, four blocks, with one fault of form.

    A tag or a cell is left out, or there is text outside the blocks.
    """
    fault = dice.integers(4)
    if fault == 0:
        cell = CELLS[dice.integers(1, len(CELLS))]
        return re.sub(rf',"{cell}":\{{[^}}]*\}}', "", text)
    if fault == 1:
        return text.replace(TAGS[dice.integers(len(TAGS))], "")
    return f"Sure. {text}" if fault == 2 else f"{text} That is all."
