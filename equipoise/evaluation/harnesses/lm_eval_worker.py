"""lm-eval at work: a job in, its results or one fault out, both as JSON files.

Runs in this process, or as a script by the interpreter of an environment that has lm-eval and not
Equipoise; so it imports nothing but the standard library and lm-eval.

    {"do": "tasks", "tasks": [...], "include_path": null}
        -> {"version": "0.4.13", "tasks": {"arc_*": ["arc_easy", ...]}, "known": [...]}
    {"do": "evaluate", "tasks": [...], "include_path": null, "arguments": {...}}
        -> lm-eval's own results, as its `--output_path` holds them
    a fault -> {"fault": "absent" | "hub" | "other", "message": "..."}
"""

import contextlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

PACKAGE = "lm_eval"
# What the clients of the hub raise where it cannot be reached, whatever their version.
UNREACHABLE = {
    "ConnectError",
    "ConnectTimeout",
    "ConnectionError",
    "LocalEntryNotFoundError",
    "MaxRetryError",
    "OfflineModeIsEnabled",
    "ProxyError",
    "ReadTimeout",
}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job and return its reply; see the module."""
    try:
        import lm_eval  # pyright: ignore[reportMissingImports]  # noqa: F401
    except ImportError as error:
        return {"fault": "absent", "message": str(error)}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _tasks(job) if job["do"] == "tasks" else _evaluate(job)
    except Exception as error:  # noqa: BLE001  a harness's tasks raise whatever they do
        if _unreachable(error):
            return {"fault": "hub", "message": _message(error)}
        traceback.print_exc()
        return {"fault": "other", "message": _message(error)}


def _tasks(job: dict[str, Any]) -> dict[str, Any]:
    """The tasks that names and patterns mean; where one means none, every known name."""
    from importlib.metadata import version

    manager = _manager(job)
    matched = {name: sorted(manager.match_tasks([name])) for name in job["tasks"]}
    known = [] if all(matched.values()) else list(manager.all_tasks)
    return {"version": version(PACKAGE), "tasks": matched, "known": known}


def _manager(job: dict[str, Any]) -> Any:
    """The index of tasks; that of the user's own alone, where it has all of them, for the other one
    takes many seconds to make.
    """
    from lm_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]

    folder = job["include_path"]
    arguments = job.get("arguments", {}).get("model_args")
    if folder:
        own = TaskManager(include_path=folder, include_defaults=False, metadata=arguments)
        if all(own.match_tasks([name]) for name in job["tasks"]):
            return own
    return TaskManager(include_path=folder, metadata=arguments)


def _evaluate(job: dict[str, Any]) -> dict[str, Any]:
    from lm_eval import simple_evaluate  # pyright: ignore[reportMissingImports]
    from lm_eval.utils import handle_non_serializable  # pyright: ignore[reportMissingImports]

    manager = _manager(job)
    names = [name for text in job["tasks"] for name in manager.match_tasks([text])]
    results = simple_evaluate(
        tasks=list(dict.fromkeys(names)), task_manager=manager, **job["arguments"]
    )
    # Through JSON, so that both ways of running give the same types.
    return json.loads(json.dumps(results, default=handle_non_serializable))


def _unreachable(error: BaseException | None) -> bool:
    """True if the error, or one that led to it, is of a hub that does not answer."""
    while error is not None:
        if type(error).__name__ in UNREACHABLE:
            return True
        error = error.__cause__ or error.__context__
    return False


def _message(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def main(job: str, out: str) -> None:
    """Answer the job in one file with another."""
    text = Path(job).read_text(encoding="utf-8")
    reply = json.dumps(answer(json.loads(text)))
    Path(out).write_text(reply, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
