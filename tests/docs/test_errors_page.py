"""The page on errors quotes messages that the package has, and commands and settings that it knows."""

import re
from pathlib import Path

from equipoise.component import FREE
from equipoise.runs.config import RunConfig

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
# What is said, and the lines below it.
ENTRIES = re.findall(r"^\*\*(.+)\*\*\n\n((?:[* ] .+\n)+)", PAGE, re.MULTILINE)
# Neighbouring literals of a call are one message in the source.
SEAM = re.compile(r'"\s*f?"')
SOURCE = "\n".join(
    SEAM.sub("", path.read_text()) for path in sorted((ROOT / "equipoise").rglob("*.py"))
)


def test_every_message_that_the_page_quotes_is_one_of_the_package():
    quoted = [message for said, _ in ENTRIES for message in re.findall(r"`([^`]+)`", said)]
    assert len(quoted) > 18
    missing = [message for message in quoted if message not in SOURCE]
    assert not missing


def test_an_entry_says_what_it_means_what_is_kept_and_what_to_type():
    assert len(ENTRIES) > 18
    for said, lines in ENTRIES:
        starts = re.findall(r"^\* (\w+): \S", lines, re.MULTILINE)
        assert starts == ["Means", "Kept", "Type"], said


def test_what_a_stopped_run_is_told_to_change_may_change():
    changed = re.findall(r"equipoise resume RUN -s ([\w.…]+)=", PAGE)
    assert changed
    for key in changed:
        parts = set(key.split("."))
        assert parts & FREE or parts & {"max_unjudged", "generations"}, key
    assert "keep" in RunConfig.model_fields
