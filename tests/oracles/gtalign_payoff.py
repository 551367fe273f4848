"""GTAlign's six-cell games (arXiv 2510.08872): which cells no other beats, which have the largest
product, and the released edits of a matrix.
"""

from random import Random

CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
FOR_USER = {"DA": 0.0, "AQ": 1.0, "CQ": 0.5}  # added where the model's side is edited
FOR_LLM = {"DA": 1.0, "AQ": 0.5, "CQ": 0.0}  # and where the user's is


def front(cells: dict) -> list[str]:
    def beats(a: dict, b: dict) -> bool:
        at_least = a["user"] >= b["user"] and a["LLM"] >= b["LLM"]
        return at_least and (a["user"] > b["user"] or a["LLM"] > b["LLM"])

    return [name for name in CELLS if not any(beats(cells[other], cells[name]) for other in CELLS)]


def edited(cells: dict, llm: float = 0.0, user: float = 0.0) -> dict:
    changed = {}
    for name, cell in cells.items():
        action = name[3:]
        if llm:
            now = (cell["LLM"] + llm, cell["user"] + FOR_USER[action])
        elif user:
            now = (cell["LLM"] + FOR_LLM[action], cell["user"] + user)
        else:
            now = (cell["LLM"], cell["user"])
        changed[name] = {"LLM": round(now[0], 1), "user": round(now[1], 1)}
    return changed


def vectors() -> list:
    dice = Random(23)
    cases = []
    for n in range(10):
        cells = {
            name: {side: round(dice.uniform(-5, 5), 1) for side in ("LLM", "user")}
            for name in CELLS
        }
        if n == 0:  # two cells with the largest product, both sides of one negative
            cells["DQ_AQ"] = {"LLM": -5.0, "user": -5.0}
            cells["VQ_DA"] = {"LLM": 5.0, "user": 5.0}
        products = {name: c["LLM"] * c["user"] for name, c in cells.items()}
        cases.append(
            {
                "payoff": cells,
                "pareto": front(cells),
                "max_product_keys": [
                    name for name in CELLS if products[name] == max(products.values())
                ],
                "steered_llm_minus2": edited(cells, llm=-2.0),
                "steered_user_minus0.5": edited(cells, user=-0.5),
                "steered_none": edited(cells),
            }
        )
    return cases
