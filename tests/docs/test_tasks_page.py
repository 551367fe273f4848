"""The page on tasks: its settings are valid, and its table says what the files say."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from equipoise.judges.base import Judge
from equipoise.judges.gold import Gold
from equipoise.prompts.base import Prompts
from equipoise.prompts.prompt_files import Files

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text()
SNIPPETS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
TABLE = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: "+".join(snippet))
def test_settings_are_valid(snippet):
    for key, value in snippet.items():
        room = {"prompts": Prompts, "judge": Judge}[key]
        kind = value if isinstance(value, str) else value["kind"]
        assert TypeAdapter(room).validate_python(value).kind == kind


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].strip())
def test_the_table(rows_in_their_schemas, row):
    files, _, facts, rule = (cell.strip() for cell in row)
    first, *others = re.findall(r"`([^`]+)`", files)
    named = set(re.findall(r"`([^`]+)`", re.sub(r"\(.*?\)", "", facts)))
    rule = rule.partition("(")[0].strip("` –").replace("math", "mathematics")
    for path in (
        first,
        *(first.partition("#")[0] + path if path.startswith("#") else path for path in others),
    ):
        prompts = Files(path=path).load(rows_in_their_schemas / "sparta").training
        assert all(named <= set(prompt.facts) | {"answer"} for prompt in prompts), path
        rules = Counter(Gold().rule(prompt) for prompt in prompts)
        assert rules.most_common(1)[0][0] == rule, path
        # A few of MATH's answers are words, or missing.
        assert len(rules) == 1 or (rule == "mathematics" and rules[rule] > 0.98 * len(prompts)), (
            rules
        )
