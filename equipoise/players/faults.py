"""Failures of an endpoint that its configuration causes: the address, the key, the model's name, a
field of the request.
"""

from __future__ import annotations

import re

from equipoise.players.endpoint_settings import SETTING_OF_FIELD, EndpointSettings
from equipoise.players.requests import Failure

NO_SUCH_MODEL = re.compile(
    r"requested|not a valid|invalid model|not exist|not found|no such|unknown model|not available"
)
NO_SUCH_FIELD = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed"
)


# What to set a setting to so that its field is not sent; null for the others.
NOT_SENT = {"send_seed": "false", "logprobs": "false", "structured": "auto", "stop": "[]"}


def configuration_fault(player: EndpointSettings, failure: Failure) -> str | None:
    """What to change, where a failure concerns every request; None where it concerns this one
    alone.
    """
    message = failure.message
    match failure:
        case Failure(unreachable=True):
            return f"cannot be reached ({message}); is the server running, and is base_url right?"
        case Failure(status=401 | 403):
            key = (
                f"the variable {player.api_key_env}"
                if player.api_key_env
                else "api_key_env: none is named"
            )
            return f"the server refuses the key ({failure}); check {key}"
        case Failure(status=402) | Failure(code="insufficient_quota"):
            return f"the account has no credit left ({failure})"
        case Failure(status=404):
            return f"no model '{player.model}' there, or base_url lacks its /v1 ({failure})"
        case Failure(status=400 | 422) if _model_is_unknown(player, message):
            return f"no model '{player.model}' there ({failure})"
    field = _unknown_field(player, failure)
    if field is None:
        return None
    return f"the server does not take '{field}' ({message}); {_remedy(player, field)}"


def _remedy(player: EndpointSettings, field: str) -> str:
    if field in player.extra_body:
        return "leave it out of extra_body"
    if field.startswith("max_"):
        return "choose the other max_tokens_field"
    setting = SETTING_OF_FIELD[field]
    return f"set {setting}: {NOT_SENT.get(setting, 'null')}"


def _model_is_unknown(player: EndpointSettings, message: str) -> bool:
    """Whether the server says that it has no such model; a model's name may be a common word, such
    as `model`.
    """
    name = re.escape(player.model)
    named = re.search(rf"""['"`]{name}['"`]|\b{name} is not a valid model""", message)
    return named is not None and NO_SUCH_MODEL.search(message.lower()) is not None


def _unknown_field(player: EndpointSettings, failure: Failure) -> str | None:
    """The field of ours that the server does not know; not one whose value is wrong in this request
    alone.
    """
    cause = f"{failure.code} {failure.message}".lower()
    if failure.status not in (400, 422) or not NO_SUCH_FIELD.search(cause):
        return None
    sent = [*SETTING_OF_FIELD, *player.extra_body]
    ours = [field for field in sent if field != "model"]
    if failure.field in ours:
        return failure.field
    for field in ours:
        if re.search(rf"\b{re.escape(field)}\b", failure.message):
            return field
    return None
