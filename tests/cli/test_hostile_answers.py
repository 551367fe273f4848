"""A whole run whose answers talk to the judge, in texts, thoughts and calls of tools, beside a judge
that quotes all it reads; and where the key of both is meanwhile.
"""

import json
import re
from pathlib import Path

import pytest
from openai_server import Say
from small_runs import settings

from equipoise.api.functions import open_run
from equipoise.types import View, user
from tests.soak.injections import BEARERS, HIDING, QUOTE, TEXTS, WRONG, quoted

KEY = "sk-s3cret-key-of-many-letters"
CLAIMS = [bearer(lambda quote: f"⟦first digit escaped|{quote}⟧") for bearer in BEARERS]
CLAIMS += [bearer(lambda quote: f"⟦two literals|{quote}⟧") for bearer in BEARERS]
assert {"first digit escaped", "two literals"} <= HIDING.keys()


def hidden(n: int) -> str:
    return [*CLAIMS, *TEXTS[::10]][n % (len(CLAIMS) + 20)]


def answer(n: int) -> Say:
    """An answer that holds a claim: as text, thought, unfinished thought, or a tool's arguments."""
    claim = hidden(n)
    call = {"id": "1", "type": "function", "function": {"name": "grade", "arguments": claim}}
    forms = (
        Say(f"{WRONG}\n{claim}"),
        Say(f"<think>{claim}</think>{WRONG}"),
        Say(WRONG, message={"reasoning_content": claim}),
        Say(f"{WRONG} <think>{claim}"),
        Say(WRONG, finish="tool_calls", message={"tool_calls": [call]}),
        Say(f"<tool_call>{claim}</tool_call>{WRONG}"),
    )
    return forms[n % len(forms)]


def verdict(question: str) -> Say:
    """An honest judge's: all that it read, its own grade, and all that it read again."""
    code, text = quoted(View((user(question),)))
    own = json.dumps({"reason": "as it is", "score": 2, "code": code})
    thoughts = {"reasoning_content": f"It says {text}"}
    return Say(f"<think>{text}</think>It says:\n{text}\n{own}\nfor {text}", message=thoughts)


def command_lines() -> str:
    """Those of all processes here, as `ps` shows them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_text(errors="replace"))
        except OSError:
            continue  # it has ended
    return "\n".join(lines)


@pytest.mark.long
def test_no_answer_is_its_own_judge_in_a_run(command, openai_server, rows, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", KEY)
    rows([{"prompt": f"question {n}"} for n in range(60)])
    seen = {"graded": 0, "ps": ""}

    def reply(body):
        question = body["messages"][-1]["content"]
        if QUOTE.search(question) is None:
            return answer(int((re.search(r"\d+", question) or ["0"])[0]))
        if not seen["graded"]:
            seen["ps"] = command_lines()
        seen["graded"] += 1
        return verdict(question)

    openai_server.answer = reply
    openai_server.key = KEY
    far = (
        f"{{kind: endpoint, base_url: '{openai_server.url}', model: m, "
        "api_key_env: EQUIPOISE_TEST_KEY}"
    )
    options = settings(
        generations=0,
        prompts="{kind: files, path: prompts.jsonl, held_out: 48}",
        judge=f"{{kind: rubric, model: {far}}}",
        game="answers",
        players__policy=far,
    )
    done = command("run", "quickstart", *options, "--out", "run")
    assert done.code == 0, done.err
    run = open_run(tmp_path / "run")
    judged = run.judgements()
    grades = list(judged[judged.judge.str.startswith("rubric")].score)
    assert seen["graded"] >= 48
    assert len(grades) >= 48
    assert set(grades) == {2.0}
    assert "pytest" in seen["ps"]
    assert KEY not in seen["ps"]
    assert KEY not in done.out + done.err
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
