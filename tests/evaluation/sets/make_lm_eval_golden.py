"""Writes `lm_eval_golden.json`: answers of many shapes to GSM8K and IFEval, with the scores that
lm-eval's own functions give them. Run by hand, with lm-eval's interpreter:

    python -m tests.evaluation.sets.make_lm_eval_golden
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from benchmarks.lm_eval_scores import TASKS

GOLDEN = Path(__file__).with_name("lm_eval_golden.json")
SOLVED = "Half of 48 is 24.\nIn all <<48+24=72>>72.\n#### {}"
GSM8K = [
    (gold, response)
    for gold in ("72", "130,000", "-3", "5.5")
    for response in (
        f"#### {gold}",
        f"The answer is {gold}.",
        f"So she pays ${gold}.",
        f"#### {gold}.",
        f"#### {gold}.00",
        f"#### {gold} dollars, not 12",
        f"first #### 1, then #### {gold}",
        f"**{gold}**",
        f"$\\boxed{{{gold}}}$",
        "####72",
        "no number",
        "",
        "72",
        "7",
        "130000",
        "1,30,000",
        "A dash - 3, or -3.",
        "#### -3",
        "#### $5.5",
        "5.50",
    )
]
NO_COMMA = ("punctuation:no_comma", {})
LOWER = ("change_case:english_lowercase", {})
TITLE = ("detectable_format:title", {})
BULLETS = ("detectable_format:number_bullet_lists", {"num_bullets": 2})
WORDS = ("length_constraints:number_words", {"relation": "at least", "num_words": 5})
SENTENCES = ("length_constraints:number_sentences", {"relation": "less than", "num_sentences": 3})
ENDING = ("startend:end_checker", {"end_phrase": "That is all."})
QUOTED = ("startend:quotation", {})
KEYWORDS = ("keywords:existence", {"keywords": ["garden", "water"]})
FORBIDDEN = ("keywords:forbidden_words", {"forbidden_words": ["bad"]})
JSON = ("detectable_format:json_format", {})
REPEATED = ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."})
CAPITALS = (
    "change_case:capital_word_frequency",
    {"capital_relation": "at least", "capital_frequency": 1},
)
IFEVAL = [
    ([NO_COMMA], ["No pause.", "Well, so.", "", "Sure, here:\nNo pause."]),
    ([LOWER, NO_COMMA], ["all small", "All small", "*All*\nall small", "all, small"]),
    ([TITLE], ["<<A title>>", "A title", "**<<A>>**"]),
    ([BULLETS], ["* a\n* b", "- a\n- b\n- c", "Here:\n* a\n* b\nDone.", "• a"]),
    ([WORDS, ENDING], ["one two three four five. That is all.", "That is all.", "x"]),
    ([SENTENCES], ["One. Two.", "One. Two. Three.", "Dr. No met Mr. Yes. Well."]),
    ([QUOTED, KEYWORDS], ['"A garden with water"', "garden water", '"garden"']),
    ([FORBIDDEN, JSON], ['{"a": 1}', '```json\n{"a": "bad"}\n```', "bad"]),
    ([REPEATED], ["Say it. I did.", "I did.", "Well:\nSay it. I did."]),
    ([CAPITALS], ["VERY good", "very good", "**VERY**"]),
]


def cases() -> list[dict]:
    """The answers, with the rows that they answer."""
    rows = [
        {
            "task": "gsm8k",
            "doc": {"question": "How many?", "answer": SOLVED.format(gold)},
            "response": response,
        }
        for gold, response in GSM8K
    ]
    for number, (instructions, responses) in enumerate(IFEVAL):
        doc = {
            "key": number,
            "prompt": "Say it. Follow the instructions.",
            "instruction_id_list": [name for name, _ in instructions],
            "kwargs": [arguments for _, arguments in instructions],
        }
        rows += [{"task": "ifeval", "doc": doc, "response": r} for r in responses]
    return rows


def main() -> None:
    """Write the golden file."""
    rows = cases()
    for row in rows:
        row["scores"] = TASKS[row["task"]](row["doc"], row["response"])
    golden = {"lm_eval": version("lm_eval"), "rows": rows}
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
