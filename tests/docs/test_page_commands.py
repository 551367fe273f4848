"""The blocks of every page run one after the other in one folder, at small settings."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import httpx
import psutil
import pytest
from fixtures.finished_runs import play
from small_runs import SMALL, settings
from test_docs import HERE, PAGES, PREFIXES

from equipoise.people.ballot import open_ballot
from equipoise.runs import recipe_loader
from tools import fresh_model

BLOCK = re.compile(r"^(?:<!-- not run: (.+?) -->\n)?```(\w*)\n(.*?)^```", re.M | re.S)
VARIABLE = re.compile(r'^([A-Z]+)=(?:"(.*?)"|(\S+))')
FILE = re.compile(r"# ([\w.]+\.(?:yaml|py))\b")  # the first line of a block that is a file
ELSEWHERE = {"CONTRIBUTING", "python"}  # whose Python has a test of its own
FOR_MINUTES = {"change_a_piece", "compare", "evaluate"}  # whose commands play several runs

# What a small machine without a network changes in the commands and files of all pages.
SMALLER = {
    r"Qwen/[\w.-]+": "builtin",
    r"Skywork/[\w.-]+": "scorer",
    r"\b(policy|defender|adversary)@[1-9]\d*": r"\1@1",
    r"players/policy/3": "players/policy/1",
    r"--on ifeval": "--on '{kind: ifeval, path: ifeval.jsonl}'",
    r"--on gsm8k": "--on '{kind: gsm8k, path: gsm8k.jsonl}'",
    r"gsm8k_t\w+\.jsonl": "gsm8k.jsonl",
    r"--context 2048": "--context 128 --vocabulary 300",
    r"policy.max_prompt=1800": "policy.max_prompt=96",
    r"generations=(50|400)": "generations=1",
    r"\bRUN\b": "runs/first",
    r"\bMODEL\b": "builtin",
    r" -s policy.enable_thinking=false": "",  # which the packaged model's template does not know
    r"leduc_poker": "kuhn_poker",
    r"linear@30": "linear@1",
    r"generations=6": "generations=2",
    r"ORG/NAME": "lab/first",
    r"https?://[\w.…:]+/v1": "SERVER",
    r"model: …": "model: scorer",
    r"judge=…": "judge=shorter",
    r"kind: pairwise, …": "kind: pairwise, model: {kind: endpoint, base_url: SERVER, model: big}",
}
FEWER = [*SMALL, *settings(policy__max_new_tokens=8, policy__max_length=128)]
TALK = settings(
    generations=1,
    prompts__count=60,
    prompts__per_generation=6,
    prompts__held_out=8,
    learner__minibatches=1,
)
# The beginning of a command -> what is added to it.
MORE = {
    "init mine.yaml": ["--lora"],  # as it does by itself for larger models
    "run quickstart --out runs/quickstart": [*SMALL, *settings(policy__max_new_tokens=8)],
    "run mnpo": FEWER,  # and its variants
    "run first.yaml": FEWER,
    "run mine.yaml": FEWER,
    "run mnpo_one_gpu": settings(executor="local", learner__launch="null"),
    "plan mnpo": settings(policy__max_length=256),  # and its variants
    "plan mine.yaml": settings(policy__max_length=256),
    "run gtalign_clerks": TALK,
    "run psro_": settings(generations=1),
    "run leduc.yaml": settings(
        generations=1, prompts__per_generation=12, prompts__held_out=8, policy__max_length=256
    ),
    "run mnpo -s policy.model=policy": settings(judge="myjudge.py"),  # hardly a right answer
}
SERVING = ("serve", "vote", "sampler")  # until Ctrl-C

ROWS = [{"prompt": f"What is {n} + {n % 7}?", "answer": str(n + n % 7)} for n in range(40)]
FILES = {
    "prompts.jsonl": ROWS,
    "questions.jsonl": ROWS[:6],
    "answers.jsonl": [{"prompt": row["prompt"], "completion": row["answer"]} for row in ROWS],
    "gsm8k.jsonl": [
        {"question": row["prompt"], "answer": f"#### {row['answer']}"} for row in ROWS[:4]
    ],
    "ifeval.jsonl": [
        {
            "key": n,
            "prompt": f"Say {n}.",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": [{}],
        }
        for n in range(4)
    ],
}
JUDGE = "def score(prompt, text):\n    return -abs(len(text.split()) - 5)\n"


class Block(NamedTuple):
    """A page's block: why it is not run ("": it is), its language and text."""

    why: str
    language: str
    text: str

    @property
    def files(self) -> list[tuple[str, str]]:
        """The files that it shows or writes: names and texts."""
        named = FILE.match(self.text)
        return [*([(named[1], self.text)] if named else []), *HERE.findall(self.text)]

    @property
    def lines(self) -> list[str]:
        """Its command lines, whole."""
        if self.language:
            return []
        joined = HERE.sub("", self.text).replace("\\\n", " ").splitlines()
        return [line.strip() for line in joined]


def blocks(page: Path) -> list[Block]:
    return [Block(*(part or "" for part in found)) for found in BLOCK.findall(page.read_text())]


def commands(page: Path, block: Block) -> list[str]:
    """The lines of a block that call `equipoise` or a tool, with the values of the page's variables."""
    lines = [line for each in blocks(page) for line in each.lines]
    variables = {name: a or b for line in lines for name, a, b in VARIABLE.findall(line)}
    found = [PREFIXES.sub("", line) for line in block.lines]
    for name, value in variables.items():
        found = [line.replace(f"${name}", value) for line in found]
    return [line for line in found if line.startswith(("equipoise ", "python -m tools."))]


def smaller(text: str) -> str:
    for wanted, replacement in SMALLER.items():
        text = re.sub(wanted, replacement, text)
    return text


def arguments(line: str) -> list[str]:
    """The arguments of an `equipoise …` at its small setting."""
    given = shlex.split(smaller(line), comments=True)[1:]
    beginnings = [begin for begin in MORE if " ".join(given).startswith(begin)]
    return [*given, *(option for begin in beginnings for option in MORE[begin])]


@pytest.fixture
def session(command, hub, monkeypatch, openai_server, reward_folder, tmp_path):
    """run(page): its blocks in the working directory, in order; how many commands were run."""
    for name, rows in FILES.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "myjudge.py").write_text(JUDGE)
    (tmp_path / "scorer").symlink_to(reward_folder("llama", 1))
    monkeypatch.setenv("HF_TOKEN", "hf_loopback")
    monkeypatch.setenv("TOKEN", "of a test")
    openai_server.answer = grade
    script = ModuleType("page_script")
    monkeypatch.setitem(sys.modules, "page_script", script)

    def run_line(line: str) -> None:
        if line.startswith("python -m tools.fresh_model "):
            fresh_model.main(shlex.split(smaller(line))[3:])
            return
        given = [each.replace("SERVER", openai_server.url) for each in arguments(line)]
        monkeypatch.setattr(sys, "stdin", io.StringIO("rock\n" * 20))
        serves = given[0] in SERVING or "--page" in given
        done = interrupted(command, *given, "--port", 0) if serves else command(*given)
        assert done.code == 0, f"{line}\n{done.out}\n{done.err}"

    def run(page: Path) -> int:
        to_run = [block for block in blocks(page) if not block.why]
        ran = 0
        for block in to_run:
            for file, text in block.files:
                (tmp_path / file).write_text(smaller(text).replace("SERVER", openai_server.url))
        for block in to_run:
            if block.language == "python" and page.stem not in ELSEWHERE:
                exec(compile(block.text, page.name, "exec"), vars(script))
                ran += 1
            for line in commands(page, block):
                run_line(line)
                ran += 1
        return ran

    return run


def grade(body) -> str:
    """A judging model's reply: the grade 7 beside the judge's code, or a tie."""
    asked = str(body["messages"][-1]["content"])
    code = re.findall(r'"code": "(\w+)"', asked)
    return f'{{"reason": "short", "score": 7, "verdict": "tie", "code": "{"".join(code[-1:])}"}}'


def interrupted(command, *given):
    """A command that serves, stopped by Ctrl-C once its server has answered."""
    own = psutil.Process()
    before = {connection.laddr for connection in own.net_connections()}
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(0.05):
            for connection in own.net_connections():
                if connection.status == psutil.CONN_LISTEN and connection.laddr not in before:
                    address, port = connection.laddr
                    assert httpx.get(f"http://{address}:{port}/", timeout=60).status_code
                    os.kill(own.pid, signal.SIGINT)
                    return

    watching = threading.Thread(target=stop)
    watching.start()
    try:
        return command(*given)
    finally:
        ended.set()
        watching.join()


@pytest.fixture(scope="session")
def first_run(tmp_path_factory):
    """A finished run of `mnpo` on the pages' prompts, one generation."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    given = settings(policy__model="builtin", prompts__path=folder / "prompts.jsonl", judge="exact")
    return play(folder / "run", "mnpo", [*FEWER, *given])


@pytest.fixture(scope="session")
def voted_run(first_run, tmp_path_factory):
    """That run, after votes on its answers."""
    folder = shutil.copytree(first_run, tmp_path_factory.mktemp("voted") / "run")
    for part in ("held_out", "train"):
        with open_ballot(folder, part=part) as ballot:
            while asked := ballot.question("ann"):
                ballot.vote("ann", asked.left, asked.right, "left")
    return folder


@pytest.fixture(scope="session")
def talk_run(tmp_path_factory):
    """A finished run of `gtalign_clerks`, one generation."""
    return play(tmp_path_factory.mktemp("talk") / "run", "gtalign_clerks", TALK)


@pytest.fixture(scope="session")
def pool_run(tmp_path_factory):
    """A finished run of `sparta_clerks`, one generation."""
    few = settings(prompts__per_generation=6, prompts__test=4)
    return play(tmp_path_factory.mktemp("pool") / "run", "sparta_clerks", [*SMALL, *few])


# The runs that a page takes for granted.
BEFORE = {
    "errors": {"runs/first": "first_run"},
    "evaluate": {"runs/first": "first_run"},
    "serving": {"runs/first": "voted_run", "runs/red": "red_team_run"},
    "sparta": {"runs/pool": "pool_run"},
    "games": {"runs/gpo": "red_team_run"},
    "gtalign": {f"runs/{name}": "talk_run" for name in ("cobb_douglas", "user_only", "linear")},
    "gpo": {"runs/qwen": "red_team_run", "runs/other": "red_team_run"},
}


def has_commands(page: Path) -> bool:
    return any(
        (block.language == "python" and page.stem not in ELSEWHERE) or commands(page, block)
        for block in blocks(page)
        if not block.why
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.stem in FOR_MINUTES else [])
        for page in filter(has_commands, PAGES)
    ],
    ids=lambda page: page.stem,
)
def test_the_blocks_of_a_page_run_one_after_the_other(page, session, request, tmp_path):
    for name, fixture in BEFORE.get(page.stem, {}).items():
        shutil.copytree(request.getfixturevalue(fixture), tmp_path / name)
    assert session(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_settings_of_a_run_that_no_test_starts_are_there(page):
    lines = [line for block in blocks(page) if block.why for line in commands(page, block)]
    written = {arguments(line)[1] for line in lines if arguments(line)[0] == "init"}
    for line in lines:
        verb, recipe, *rest = arguments(line)
        if verb == "run" and recipe not in written:
            given = [value for option, value in pairwise(rest) if option == "-s"]
            assert recipe_loader.load(recipe, given)


def test_a_model_from_nothing_reads_as_much_as_the_recipe_after_it_asks_for():
    page = next(page for page in PAGES if page.name == "your_model.md")
    [context] = re.findall(r"fresh_model .*--context (\d+)", page.read_text())
    policy = recipe_loader.load(
        "mnpo", ["policy.model=start", "prompts.path=prompts.jsonl"]
    ).players["policy"]
    assert int(context) == policy.max_length
