"""Write the corpora of answers: `python -m tests.corpora.make`.

Each row is (judge, facts, answer, the right score, kind, language). The rows are made by hand from
kinds of reports about programs that read answers, and not from the judges: a judge is changed, or
its rate published; a row changes only where its score is wrong to a reader.
"""

import json
from pathlib import Path

from tests.corpora import choices, mathematics, refusals

FOLDER = Path(__file__).parent
MAKERS = {"mathematics": mathematics.rows, "choices": choices.rows, "refusals": refusals.rows}


def text_of(name: str) -> str:
    """The corpus `name` as lines of JSON, each row once."""
    lines = [json.dumps(row, ensure_ascii=False) for row in MAKERS[name]()]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


if __name__ == "__main__":
    for name in MAKERS:
        (FOLDER / f"{name}.jsonl").write_text(text_of(name), encoding="utf-8")
