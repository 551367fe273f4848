"""Equipoise trains language models by letting them play: games, judges, pay-offs, equilibria,
learners.

    run = equipoise.run("quickstart", {"generations": 2}, out="runs/x")
    run = equipoise.open_run("runs/x")
    equipoise.evaluate("runs/x", ["gsm8k", "ifeval"])
    equipoise.compare("runs/x", "runs/y", on="held_out.jsonl").write("page.html")
    equipoise.attack_judge("myjudge.py", "prompts.jsonl").write("attack.html")
    equipoise.plan("mnpo", {"policy.model": "…"})
    equipoise.recipes()
    equipoise.rows("pairs.jsonl")

Start reading at `equipoise.runs.loop`. Importing this package loads no torch.
"""

from __future__ import annotations

# Nothing is imported here: only after this file can the command answer Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from equipoise.api.attacking_judges import attack_judge
    from equipoise.api.comparing import compare
    from equipoise.api.functions import evaluate, open_run, plan, recipes, run
    from equipoise.api.handle import Run
    from equipoise.api.played_elsewhere import import_matches
    from equipoise.api.read_rows import rows
    from equipoise.system.addresses import machine

__all__ = [
    "Run",
    "attack_judge",
    "compare",
    "evaluate",
    "import_matches",
    "machine",
    "open_run",
    "plan",
    "recipes",
    "rows",
    "run",
]
__version__ = "0.2.0"

_HOMES = {
    "Run": "equipoise.api.handle",
    "attack_judge": "equipoise.api.attacking_judges",
    "compare": "equipoise.api.comparing",
    "import_matches": "equipoise.api.played_elsewhere",
    "rows": "equipoise.api.read_rows",
    "machine": "equipoise.system.addresses",
    **dict.fromkeys(("evaluate", "open_run", "plan", "recipes", "run"), "equipoise.api.functions"),
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "trl":
        return import_module("equipoise.trl")
    raise AttributeError(f"module 'equipoise' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
