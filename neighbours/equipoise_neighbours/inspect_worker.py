"""A scorer of Inspect at work, under the interpreter of an environment that has inspect_ai.

A script that imports the standard library and inspect_ai. It reads JSON, a line each, and writes
the same to its output:

    {"scorer": "inspect_ai.scorer:includes", "options": {...}, "model": null, "base_url": null,
     "value": null, "path": "/where/the/user/is"}  the first line
        -> {"fault": ""}, or why the scorer cannot be made
    {"answers": [{"messages": [...], "text": "...", "target": ["4"], "facts": {...}}, ...]}
        -> {"verdicts": [{"score": 1.0, ...} or "why there is none", ...]}

Each answer becomes a sample of a log that Inspect's own `score_async` scores.
"""

import asyncio
import json
import math
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's `value_to_float`, which takes any other word for 0."""
Verdict = dict[str, float] | str


def main() -> None:
    """Score what the lines hold until there are no more."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what scorers print

    def send(**line: Any) -> None:
        print(json.dumps(line), file=output, flush=True)

    job = json.loads(sys.stdin.readline())
    sys.path.append(job["path"])
    try:
        scorer, model = scorer_of(job), model_of(job)
    except Exception as error:  # noqa: BLE001  a scorer raises whatever it does
        return send(fault=f"{type(error).__name__}: {error}")
    send(fault="")
    for line in sys.stdin:
        answers = json.loads(line)["answers"]
        send(verdicts=asyncio.run(score(answers, scorer, model, job["value"])))


def scorer_of(job: Mapping[str, Any]) -> Any:
    """The scorer, made with its options."""
    from inspect_ai.scorer import Scorer  # pyright: ignore[reportMissingImports]

    module, _, name = job["scorer"].partition(":")
    made = getattr(import_module(module), name)(**job["options"])
    if not isinstance(made, Scorer):
        raise TypeError(f"{name} makes no scorer, but {type(made).__name__}")
    return made


def model_of(job: Mapping[str, Any]) -> Any:
    """The model that grading scorers ask; without one, what Inspect takes for none."""
    from inspect_ai.model import get_model  # pyright: ignore[reportMissingImports]

    return get_model(job["model"] or "none/none", base_url=job["base_url"])


async def score(answers: list[Any], scorer: Any, model: Any, value: str | None) -> list[Verdict]:
    """The verdict on each answer, all at the same time."""
    return await asyncio.gather(*(verdict(each, scorer, model, value) for each in answers))


async def verdict(answer: Mapping[str, Any], scorer: Any, model: Any, value: str | None) -> Verdict:
    """The utilities of an answer, or the reason why there are none."""
    from inspect_ai import score_async  # pyright: ignore[reportMissingImports]

    try:
        log = await score_async(log_of(answer, str(model)), [scorer], model=model, display="none")
    except Exception as error:  # noqa: BLE001  a scorer raises whatever it does
        return f"the scorer failed: {type(error).__name__}: {error}"
    scores = [score for score in (log.samples[0].scores or {}).values() if score is not None]
    return utilities(scores[-1], value) if scores else "the scorer gave none"


def log_of(answer: Mapping[str, Any], model: str) -> Any:
    """The log of an evaluation with this one answer."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec  # pyright: ignore[reportMissingImports]
    from inspect_ai.model import ModelOutput  # pyright: ignore[reportMissingImports]

    output = ModelOutput.from_content(model, answer["text"])
    chat = answer["messages"]
    alone = len(chat) == 1 and chat[0]["role"] == "user"
    sample = EvalSample.model_validate(
        {
            "id": 1,
            "epoch": 1,
            "input": chat[0]["content"] if alone else chat,
            "target": answer["target"],
            "messages": [*chat, {"role": "assistant", "content": answer["text"]}],
            "output": output,
            "metadata": answer["facts"],
        }
    )
    spec = EvalSpec(
        created="2000-01-01T00:00:00+00:00",
        task="equipoise",
        dataset=EvalDataset(),
        model=model,
        config=EvalConfig(),
    )
    return EvalLog(eval=spec, samples=[sample], status="success")


def utilities(score: Any, chosen: str | None) -> Verdict:
    """The numbers in a score; `score` is the only one, or the one that is `chosen`."""
    value, own = score.value, chosen or "score"
    if isinstance(value, list | tuple):
        return "the scorer gives a list, which has no score"
    named = value if isinstance(value, Mapping) else {own: value}
    numbers = {name: n for name, each in named.items() if (n := number(each)) is not None}
    if own in numbers:
        return {**numbers, "score": numbers[own]}
    if own not in named:
        return f"the scorer gives {', '.join(named)}; name one of them: value: {next(iter(named))}"
    why = [str(each) for each in (score.reason, score.explanation) if each]
    return "; ".join(["unscored", *why]) if why else f"'{named[own]}' is no number"


def number(value: Any) -> float | None:
    """A value as Inspect reads it; None where it is no finite number."""
    if isinstance(value, str):
        if value in LETTERS or value.lower() in LETTERS:
            return LETTERS.get(value, LETTERS.get(value.lower()))
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


if __name__ == "__main__":
    main()
