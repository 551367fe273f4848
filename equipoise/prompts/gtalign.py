"""Rows of GTAlign's schema: a prompt with its task's ground truth.

    {"prompt": [messages], "data_source", "reward_model": {"ground_truth"}, "extra_info"}

Source: GTAlign (arXiv 2510.08872), the published data files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from equipoise.errors import DataError
from equipoise.prompts.values import plain, read_chat
from equipoise.types import Message

PromptText = Literal["prompt", "chat", "single"]


def is_gtalign(row: Mapping[str, Any]) -> bool:
    """Whether a row has this schema."""
    return isinstance(row.get("reward_model"), Mapping) and "data_source" in row


def read_gtalign(
    row: Mapping[str, Any], where: str, text: PromptText
) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """(messages, facts) of a row.

    `text`: the `prompt` with all instructions, the bare `chat` that led to it, or the `single`
    request that the ground truth answers.

    Raises DataError, beginning with `where`, where the row lacks it.
    """
    extra = row.get("extra_info") or {}
    single = extra.get("single_turn_prompt")
    if text == "prompt":
        chat, name = row.get("prompt"), "prompt"
    elif text == "chat" and extra.get("chat_history"):
        chat, name = list(extra["chat_history"]), "extra_info.chat_history"
    else:
        chat, name = single, "extra_info.single_turn_prompt"
    if chat is None:
        raise DataError(f"{where}: no {name}")
    truth = row["reward_model"].get("ground_truth")
    facts = _ground_truth(str(row["data_source"]), truth, where)
    if isinstance(single, str) and single.strip():
        facts["request"] = single
    return read_chat(chat, f"{where}: {name}"), facts


def _ground_truth(task: str, truth: Any, where: str) -> dict[str, Any]:
    """The facts in a task's ground truth; of an unknown task it is the answer."""
    if truth is None or (isinstance(truth, str) and not truth.strip()):
        return {}
    if task == "wildguard":
        labels = {"harmful": True, "unharmful": False}
        return {"harmful": _label(truth, labels, where)}
    if task == "abg-coqa":
        labels = {"ambiguous": True, "non_ambiguous": False}
        return {"ambiguous": _label(truth, labels, where)}
    if task == "ambig_qa":
        kind, _, rest = str(truth).partition("###")
        if _label(kind, {"multipleQAs": True, "singleAnswer": False}, where):
            return {"ambiguous": True, "meanings": rest}
        return {"ambiguous": False, "answer": rest}
    if task == "advbench":
        return {"harmful": True, "unsafe_answer": truth}
    if task == "medium":
        return {"reference": truth}
    return {"answer": plain(truth, f"{where}: reward_model.ground_truth")}


def _label(value: Any, labels: Mapping[str, bool], where: str) -> bool:
    if value not in labels:
        raise DataError(
            f"{where}: reward_model.ground_truth is {value!r}; known: {', '.join(labels)}"
        )
    return labels[value]
