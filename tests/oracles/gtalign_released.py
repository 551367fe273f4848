"""GTAlign's released rewards (arXiv 2510.08872) of every data source, and its reading of odd outputs.

    user = ε + 0.5·Q_u + 0.2·B(words of the response; 20, 500) + 0.3·exp(−waiting/500)
    llm  = ε + 0.4·Q_l + 0.2·B(words of the output; 500, 1000) + 0.2·format + 0.2·matrix (first)
    llm  = ε + 0.35·Q_l + 0.05·B + 0.2·format + 0.2·matrix + 0.2·named (second)

The text is taken as it stands: format is a regular expression from its first character to the end
of a line; a block is what stands between the first of its tags; a matrix is JSON or, with straight
quotes, Python. Sets out of domain have the first reward and need <analyze>, as the second does.
"""

import ast
import json
import re
from math import exp, sqrt
from random import Random

CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
FORM = re.compile(
    r"<thinking>.*?</thinking>\s*<payoff>.*?</payoff>\s*<analyze>.*?</analyze>\s*"
    r"<response>.*?</response>$",
    re.DOTALL | re.MULTILINE,
)
# data source -> its ground truth, the replies of its judge, whether it is out of domain
SOURCES = {
    "math-hard": ("2", (0, 1), False),
    "ambig_qa": ("multipleQAs###x", (1, 0), False),
    "wildguard": ("harmful", (0, 0.5, 1), False),
    "minerva": ("1.6", (1, 0), True),
    "abg-coqa": ("non_ambiguous", (0, 1), True),
    "advbench": ("Sure, here is", (0, 0.5, 1), True),
}


def block(text, name):
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found and found[1].strip()


def matrix(text):
    """The six cells as {"user", "LLM"}, or None."""
    try:
        try:
            cells = json.loads(text)
        except ValueError:
            for curly, straight in zip("“”‘’", "\"\"''", strict=True):
                text = text.replace(curly, straight)
            cells = ast.literal_eval(text)
        right = set(cells) == set(CELLS) and all(set(c) == {"LLM", "user"} for c in cells.values())
        values = [value for cell in cells.values() for value in cell.values()]
        return cells if right and all(isinstance(v, (int, float)) for v in values) else None
    except (ValueError, SyntaxError, TypeError, AttributeError):
        return None


def window(words, low, high):
    return 1 / (1 + exp(0.005 * (low - words))) / (1 + exp(0.005 * (words - high)))


def worth(case):
    """(user, llm) of a case, with its judge's grade and that for naming the frontier."""
    truth, _, outside = SOURCES[case["source"]]
    output, grade, second = case["output"], case["grade"], case["variant"] == "frontier"
    response, cells = block(output, "response"), matrix(block(output, "payoff") or "")
    lacks = (second or outside) and block(output, "analyze") is None
    if response is None or cells is None or lacks:
        return 0.0, 0.0
    told = sum(
        (c["user"] != c["LLM"])
        + (abs(c["user"] - c["LLM"]) / max(abs(c["user"]), abs(c["LLM"]), 1e-8) > 0.1)
        for c in cells.values()
    )
    for_llm = float(grade > 0)
    for_user = float(grade < 1) if truth == "harmful" else for_llm
    form = bool(FORM.match(output))
    user = 1e-4 + 0.5 * for_user + 0.2 * window(len(response.split()), 20, 500)
    user += 0.3 * exp(-len(output.split("<response>")[0]) / 500)
    llm, long = 1e-4 + 0.2 * form + 0.2 * told / 12, window(len(output.split()), 500, 1000)
    if second and not outside:
        return user, llm + 0.35 * for_llm + 0.05 * long + 0.2 * case["named"]
    return user, llm + 0.4 * for_llm + 0.2 * long


def written(cells, thinking="it is clear", analyze="DQ_DA is on the front", response="a reply"):
    return (
        f"<thinking>{thinking}</thinking><payoff>{cells}</payoff>"
        f"<analyze>{analyze}</analyze><response>{response}</response>"
    )


def outputs():
    """(note, output) of every way to write that the release reads in its own way."""
    dice = Random(5)
    cells = {
        name: {"LLM": round(dice.uniform(-5, 5), 1), "user": round(dice.uniform(-5, 5), 1)}
        for name in CELLS
    }
    good = json.dumps(cells)
    whole = written(good)
    odd = {**cells, "DQ_AQ": {"LLM": True, "user": False}}
    vast = {**cells, "DQ_AQ": {"LLM": float("inf"), "user": float("nan")}}
    return [
        ("plain", whole),
        ("fenced", written(f"```json\n{good}\n```")),
        ("space before", f" {whole}"),
        ("line before", f"\n{whole}"),
        ("space after", f"{whole} "),
        ("lines after", f"{whole}\nand more"),
        ("repeated response", f"{whole}<response>another</response>"),
        ("repeated payoff", written(f"{good}</payoff><payoff>{{}}")),
        ("payoff first in the thinking", written(good, thinking="<payoff>{}</payoff>")),
        ("booleans", written(json.dumps(odd))),
        ("no finite numbers", written(json.dumps(vast))),
        ("a cell twice", written('{"DQ_AQ":{"LLM":9,"user":9},' + good[1:])),
        ("Python's quotes", written(str(cells))),
        ("curly quotes", written(good.replace('"', "”"))),
        ("low quotes", written(good.replace('"', "„"))),
        ("a comma at the end", written(good[:-1] + ",}")),
        ("no analysis", whole.replace("analyze", "analysis")),
        ("empty analysis", written(good, analyze="")),
        ("empty response", written(good, response="")),
        ("no-break spaces between", whole.replace("><", ">\u00a0\u2003<")),
    ]


def vectors():
    cases = []
    for variant in ("as_released", "frontier"):
        for source, (truth, grades, _) in SOURCES.items():
            rows = [(outputs()[0], grade) for grade in grades]
            if source in ("math-hard", "advbench"):
                rows += [(row, grades[-1]) for row in outputs()[1:]]
            for n, ((note, output), grade) in enumerate(rows):
                case = {"variant": variant, "source": source, "truth": truth, "note": note}
                case |= {"output": output, "named": (1, 0, 0.5)[n % 3], "grade": grade}
                user, llm = worth(case)
                case["expected"] = {"user": user, "llm": llm, "score": sqrt(user * llm)}
                cases.append(case)
    return cases
