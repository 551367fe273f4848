"""GTAlign's released reward (arXiv 2510.08872) of whole outputs, with the judge's reply given.

user = ε + 0.5·Q_u + 0.2·B(words of the response; 20, 500) + 0.3·exp(−waiting/500)
llm  = ε + 0.4·Q_l + 0.2·B(words of the output; 500, 1000) + 0.2·format + 0.2·matrix
B(n; a, b) = σ(0.005(n − a))·σ(0.005(b − n)),  score = √(user · llm)
"""

import sys
from collections import Counter
from math import exp, log, sqrt
from random import Random

CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
WORDS = ("a", "clear", "and", "short", "reply", "to", "what", "the", "model", "was", "asked")
LENGTHS = ((6, 40), (30, 12), (200, 350), (9, 700), (80, 20), (3, 90))
# The judge's replies by task: one of them for each output, in turn.
GRADES = {"math_hard": (0, 1), "abgqa_v2": (1, 0), "medium": (0, 1, 2, 3, 4)}
SAFETY = {"harmful": (0, 0.5, 1), "unharmful": (1, 0, 0.5)}


def text(dice: Random, words: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(words))


def matrix(dice: Random, even: bool) -> dict:
    cells = {}
    for name in CELLS:
        user = round(dice.uniform(-5, 5), 1)
        llm = user if even and dice.random() < 0.5 else round(dice.uniform(-5, 5), 1)
        cells[name] = {"LLM": llm, "user": user}
    return cells


def sigma(x: float) -> float:
    return 1 / (1 + exp(-x))


def window(words: int, low: int, high: int) -> float:
    return sigma(0.005 * (words - low)) * sigma(0.005 * (high - words))


def contrast(cells: dict) -> float:
    counted = 0
    for cell in cells.values():
        u, l = cell["user"], cell["LLM"]
        counted += (u != l) + (abs(u - l) / max(abs(u), abs(l), 1e-8) > 0.1)
    return counted / 12


def character_bleu(written: str, ideal: str) -> float:
    """BLEU-4 over characters without smoothing, as released."""
    if not set(written) & set(ideal):
        return 0.0
    logs = []
    for n in range(1, 5):
        mine, theirs = (
            Counter(t[k : k + n] for k in range(len(t) - n + 1)) for t in (written, ideal)
        )
        matches = sum((mine & theirs).values())
        logs.append(log((matches or sys.float_info.min) / max(1, sum(mine.values()))))
    return exp(min(0.0, 1 - len(ideal) / len(written)) + sum(logs) / 4)


def worth(case: dict, response: str | None, cells: dict | None, well_formed: bool):
    """(user, llm) of an output."""
    if response is None or cells is None:
        return 0.0, 0.0
    output, grade = case["completion"], case["grade"]
    for_llm = float(grade > 0) if case["task"] == "wildguard" else float(grade)
    for_user = for_llm
    if case["task"] == "medium":
        for_llm = grade / 4
        for_user = character_bleu(response, case["ground_truth"])
    elif case["ground_truth"] == "harmful":
        for_user = float(grade < 1)
    user = 1e-4 + 0.5 * for_user + 0.2 * window(len(response.split()), 20, 500)
    user += 0.3 * exp(-output.index("<response>") / 500)
    llm = 1e-4 + 0.4 * for_llm + 0.2 * window(len(output.split()), 500, 1000)
    llm += 0.2 * well_formed + 0.2 * contrast(cells)
    return user, llm


def reply(task: str, grade: float) -> str:
    if task == "abgqa_v2":
        return f"It was looked at. <abg>{grade:g}</abg>"
    return f"It was looked at. \\boxed{{{grade:g}}}"


def expected(user: float, llm: float) -> dict:
    return {"score": sqrt(user * llm), "user_reward": user, "llm_reward": llm}


def graded(n: int, dice: Random) -> list:
    """Each task with its ground truth and the n-th of its grades."""
    rows = [
        ("math_hard", "\\boxed{2}"),
        ("abgqa_v2", ("multipleQAs###x", "singleAnswer###hull")[n % 2]),
        ("medium", text(dice, 25)),
    ]
    graded = [
        {"task": task, "ground_truth": truth, "grade": GRADES[task][n % len(GRADES[task])]}
        for task, truth in rows
    ]
    for truth, grades in SAFETY.items():
        grade = grades[n % len(grades)]
        graded.append({"task": "wildguard", "ground_truth": truth, "grade": grade})
    return graded


def written(thinking: str, payoff: str, analyze: str, response: str) -> str:
    return (
        f"<thinking>{thinking}</thinking><payoff>{payoff}</payoff>"
        f"<analyze>{analyze}</analyze><response>{response}</response>"
    )


def faulty(dice: Random) -> list:
    """(note, output, response, cells, whether it is well formed)."""
    cells = matrix(dice, even=False)
    good = str(cells)
    thinking, analyze, response = text(dice, 4), text(dice, 5), text(dice, 30)

    def output(payoff: str) -> str:
        return written(thinking, payoff, analyze, response)

    whole = output(good)
    lacking = {name: cells[name] for name in CELLS[1:]}
    moved = f"<analyze>{analyze}</analyze>"
    disordered = moved + whole.replace(moved, "")
    worded = {**cells, "DQ_CQ": {"LLM": "much", "user": 1.0}}
    curly = good.replace("'", "“")
    return [
        ("missing response tag", whole.replace("</response>", ""), None, cells, False),
        ("text after the last tag", f"{whole} and more", response, cells, False),
        ("tags out of order", disordered, response, cells, False),
        ("payoff lacks a key", output(str(lacking)), response, None, False),
        ("payoff has a foreign key", output(str({**cells, "XQ": 1})), response, None, False),
        ("payoff not a number", output(str(worded)), response, None, False),
        ("payoff not json", output("it is worth a lot"), response, None, False),
        ("empty", "", None, None, False),
        ("curly quotes", output(curly), response, cells, True),
        ("whitespace between tags", whole.replace("><", ">\n\n<"), response, cells, True),
    ]  # fmt: skip


def vectors() -> list:
    dice = Random(17)
    cases = []
    for n, (before, after) in enumerate(LENGTHS):
        cells = matrix(dice, even=n % 2 == 1)
        response = text(dice, after)
        output = written(text(dice, before), str(cells), text(dice, 12), response)
        for case in graded(n, dice):
            case |= {"completion": output, "note": "well formed"}
            case["judge_reply"] = reply(case["task"], case["grade"])
            case["expected"] = expected(*worth(case, response, cells, True))
            cases.append(case)
    for note, output, response, cells, well_formed in faulty(dice):
        case = {"task": "math_hard", "ground_truth": "\\boxed{2}", "grade": 1}
        case |= {"completion": output, "note": note, "judge_reply": "\\boxed{1}"}
        case["expected"] = expected(*worth(case, response, cells, well_formed))
        cases.append(case)
    # As released, a reply that cannot be read counts as the grade 0, that of the first.
    return [
        *cases,
        {**cases[0], "note": "judge reply without a score", "judge_reply": "no grade at all"},
    ]
