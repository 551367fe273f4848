"""What a user can mend about an endpoint that fails: the address, the key, the model's
name, a field of the request.
"""

from __future__ import annotations

import re

from equipoise.players.endpoint import SAID, Endpoint
from equipoise.players.requests import Failure

ABSENT = re.compile(
    r"requested|not a valid|invalid model|not exist|not found|no such|unknown model|not available"
)
UNWANTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed"
)


def fault(player: Endpoint, failure: Failure) -> str | None:
    """What to mend, where a failure concerns every question; None where it is this
    question's own.
    """
    words = failure.words
    holder = (
        f"the variable {player.api_key_env}"
        if player.api_key_env
        else "api_key_env: none is named"
    )
    match failure:
        case Failure(unreachable=True):
            return f"cannot be reached ({words}); does the server run, and is base_url right?"
        case Failure(status=401 | 403):
            return f"the server refuses the key (HTTP {failure.status}: {words}); check {holder}"
        case Failure(status=402) | Failure(code="insufficient_quota"):
            return f"the account has no credit left (HTTP {failure.status}: {words})"
        case Failure(status=404):
            return f"no model '{player.model}' there, or base_url lacks its /v1 (HTTP 404: {words})"
        case Failure(status=400 | 422) if _absent(player, words):
            return f"no model '{player.model}' there (HTTP {failure.status}: {words})"
    field = _unwanted(player, failure)
    if field is None:
        return None
    if field in player.extra_body:
        return (
            f"the server does not take '{field}' ({words}); leave it out of extra_body"
        )
    if field.startswith("max_"):
        return f"the server does not take '{field}' ({words}); choose the other max_tokens_field"
    cure = {
        "send_seed": "false",
        "logprobs": "false",
        "structured": "auto",
        "stop": "[]",
    }.get(SAID[field], "null")
    return f"the server does not take '{field}' ({words}); set {SAID[field]}: {cure}"


def _absent(player: Endpoint, words: str) -> bool:
    """Whether the server says that it has no such model; a model's name may be a common
    word, such as `model`.
    """
    name = re.escape(player.model)
    named = re.search(rf"""['"`]{name}['"`]|\b{name} is not a valid model""", words)
    return named is not None and ABSENT.search(words.lower()) is not None


def _unwanted(player: Endpoint, failure: Failure) -> str | None:
    """The field of ours that the server does not know; not one whose value is wrong in
    this question.
    """
    if failure.status not in (400, 422) or not UNWANTED.search(
        f"{failure.code} {failure.words}".lower()
    ):
        return None
    ours = [field for field in (*SAID, *player.extra_body) if field != "model"]
    if failure.field in ours:
        return failure.field
    return next(
        (
            field
            for field in ours
            if re.search(rf"\b{re.escape(field)}\b", failure.words)
        ),
        None,
    )
