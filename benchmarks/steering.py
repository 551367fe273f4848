"""The effect of steering on a served model: how often it answers (DA), asks back (CQ) or does both
(AQ), by who pays.

A real `equipoise serve` runs the packaged assistant, and the official client sends it the same
questions of the built-in world under each pricing. Beside the corrected costs, which are per
action, are the published edits, whose constant part changes no equilibrium.

    python -m benchmarks.steering [--prompts 100] [--model builtin/assistant]
        [--temperature 0.7] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.running import write_results
from equipoise import seeds
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.clerk.clerk_prompts import ClerkQuestions
from equipoise.types import Prompt

# The packaged assistant writes matrices in which its choice leads by 2 to 7 points, so that low
# prices change nothing. In points for 1000 tokens; a direct answer counts as 300 tokens, a question
# as 40.
PRICE = 20.0


@dataclass(frozen=True)
class Arm:
    """A way of steering; `moves` is whose share is expected to change, `by` in which direction (0:
    not at all).

    The change is from `none`, or from `published` where the cell is chosen so.
    """

    steering: Any
    moves: str = ""
    by: int = 0
    why: str = ""
    # Chosen as published: of all six cells the largest product, ties at random.
    published: bool = False


ARMS: dict[str, Arm] = {
    "unsteered": Arm("strip", why="the model's own choice"),
    "none": Arm("none", why="the best cell of the matrix as written"),
    "per_token": Arm(
        {"kind": "per_token", "price": PRICE},
        "CQ",
        1,
        "the user pays for the response: fewer words",
    ),
    "subscription": Arm(
        {"kind": "subscription", "price": PRICE},
        "CQ",
        1,
        "the provider pays for the response: fewer words",
    ),
    "latency": Arm({"kind": "latency", "price": 0.4}, "CQ", -1, "asking back makes the user wait"),
    "user_effort": Arm(
        {"kind": "user_effort", "clarifying": 5.0}, "CQ", -1, "asking back is work for the user"
    ),
    "constant llm −2": Arm(
        {"kind": "costs", "llm": dict.fromkeys(ACTIONS, 2.0)}, "CQ", 0, "the same for every action"
    ),
    "published": Arm("none", why="no edit; the largest product of all six cells", published=True),
    "llm −2": Arm(
        {"kind": "released", "llm": -2.0},
        "AQ",
        1,
        "the user's bonus 0 / 1 / ½ for DA / AQ / CQ",
        True,
    ),
    "user −0.5": Arm(
        {"kind": "released", "user": -0.5},
        "DA",
        1,
        "the model's bonus 1 / ½ / 0 for DA / AQ / CQ",
        True,
    ),
}


@dataclass
class ArmReplies:
    """The actions in an arm's replies, one for each prompt."""

    responses: list[str] = field(default_factory=list)
    # Of the chosen cell; "–" where there is none.
    cells: list[str] = field(default_factory=list)
    followed: int = 0
    steered: int = 0


def shares(actions: Sequence[str]) -> dict[str, float]:
    """The share of each action."""
    counts = Counter(actions)
    return {name: counts[name] / len(actions) for name in ("DA", "CQ", "AQ")}


@contextmanager
def served(model: str) -> Iterator[tuple[str, str, str]]:
    """(address, token, the model's name there) of a server process for `model`."""
    command = [sys.executable, "-m", "equipoise", "serve", model, "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the server did not start: exit code {process.wait()}")
            text += line
        facts = json.loads(text)
        yield facts["url"], facts["token"], facts["models"][0]
    finally:
        process.terminate()
        process.wait(30)


async def ask(
    url: str, token: str, model: str, arm: Arm, prompts: Sequence[Prompt], arguments: Any
) -> ArmReplies:
    """The served model's replies to all prompts under an arm."""
    from openai import AsyncOpenAI

    replies, places = ArmReplies(), asyncio.Semaphore(32)
    wish = arm.steering
    if wish != "strip":
        # The published edits are shown to the model as they are, the costs without the constant in
        # them.
        level = not (arm.published or arguments.as_edited)
        wish = {"pricing": wish, "by": arguments.by, "question": arguments.question, "level": level}
        wish |= {"by": "product_released", "question": "any"} if arm.published else {}
    async with AsyncOpenAI(base_url=url, api_key=token, max_retries=0, timeout=300) as client:

        async def send(prompt: Prompt) -> Any:
            chat: Any = [{"role": m.role, "content": m.content} for m in prompt.messages]
            async with places:
                return await client.chat.completions.create(
                    model=model,
                    messages=chat,
                    seed=seeds.child(arguments.seed, "steering", prompt.id) >> 1,
                    temperature=arguments.temperature,
                    max_tokens=arguments.max_tokens,
                    extra_body={"steering": wish, "equipoise": {"blocks": True}},
                )

        for reply in await asyncio.gather(*map(send, prompts)):
            message = reply.choices[0].message
            facts = message.model_extra["equipoise"]
            response = response_action(message.content or "")
            cell = (facts["chosen"] or "–")[-2:]
            replies.responses.append(response)
            replies.cells.append(cell)
            replies.steered += facts["steered"]
            replies.followed += response == cell
    return replies


def change(arm: Arm, steered: ArmReplies, plain: ArmReplies) -> tuple[float, float, float]:
    """The change of the share of the arm's action, by the response, from the plain choice's: mean,
    low, high.

    Prompts are paired; 95 % by the bootstrap.
    """
    pairs = zip(steered.responses, plain.responses, strict=True)
    delta_P = np.array([(a == arm.moves) - (b == arm.moves) for a, b in pairs], float)
    rng = seeds.generator(0, "bootstrap")
    means = delta_P[rng.integers(len(delta_P), size=(4000, len(delta_P)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(delta_P.mean()), float(low), float(high)


def verdict(arm: Arm, low: float, high: float) -> str:
    """Whether the expected change shows."""
    if arm.by == 0:
        return "yes" if low <= 0 <= high else "no"
    return "yes" if (low > 0 if arm.by > 0 else high < 0) else "no"


def table(by_arm: Mapping[str, ArmReplies], arguments: Any) -> Table:
    """A row for each arm: the shares of the actions, by the response and by the chosen cell."""
    title = (
        f"{len(by_arm['none'].responses)} questions; cells chosen by {arguments.by}; "
        "DA / CQ / AQ in %"
    )
    table = Table(title=title, box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.add_column("steering", no_wrap=True)
    for column in ("responses", "cells", "follow"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("expect")
    for column in ("change, 95 %", "shows"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, replies in by_arm.items():
        arm = ARMS[name]
        row = [
            " ".join(f"{100 * share:3.0f}" for share in shares(actions).values())
            for actions in (replies.responses, replies.cells)
        ]
        row.append(f"{100 * replies.followed / len(replies.responses):.0f} %")
        if arm.moves:
            plain = by_arm["published" if arm.published else "none"]
            mean, low, high = change(arm, replies, plain)
            arrow = {1: "↑", -1: "↓", 0: "="}[arm.by]
            row += [
                f"{arm.moves} {arrow}",
                f"{100 * mean:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]",
                verdict(arm, low, high),
            ]
        table.add_row(name, *map(escape, row))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--model", default="builtin/assistant")
    parser.add_argument(
        "--by", default="sum", help="how a cell is chosen, except after the published edits"
    )
    parser.add_argument(
        "--question",
        default="written",
        help="any: of all six cells; written: of those with the question type as written",
    )
    parser.add_argument(
        "--as-edited",
        action="store_true",
        help="show the model the edited matrices, constants included",
    )
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--json", type=Path, help="write the shares here")
    arguments = parser.parse_args()
    console = Console()
    source = ClerkQuestions.model_validate(
        {"count": 1, "per_generation": 1, "held_out": arguments.prompts}
    ).load()
    prompts = source.held_out or []
    by_arm: dict[str, ArmReplies] = {}
    started = time.perf_counter()
    with served(arguments.model) as (url, token, model):
        for name in dict.fromkeys(["none", "published", *arguments.arms]):
            by_arm[name] = asyncio.run(ask(url, token, model, ARMS[name], prompts, arguments))
    by_arm = {name: by_arm[name] for name in ARMS if name in by_arm}
    console.print(table(by_arm, arguments))
    for name in by_arm:
        if ARMS[name].why:
            console.print(f"  {name}: {ARMS[name].why}", style="dim", highlight=False)
    console.print(
        f"{time.perf_counter() - started:.0f} s, the server's start included", style="dim"
    )
    if arguments.json:
        figures = {
            name: {"said": shares(replies.responses), "chosen": shares(replies.cells)}
            for name, replies in by_arm.items()
        }
        settings = {
            name: value for name, value in vars(arguments).items() if name not in ("json", "arms")
        }
        write_results(arguments.json, figures, **settings)


if __name__ == "__main__":
    main()
