"""Asks the Hugging Face hub whether it has something, before anything long begins."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

from equipoise.errors import first_line

SECONDS = 10.0  # that the hub is given to answer


class OnHub(Enum):
    """What the hub says of an id."""

    THERE = "there"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


class HubAnswer(NamedTuple):
    """What the hub says of an id, and why in words; "" where it is there."""

    state: OnHub
    reason: str = ""


def ask_hub(identity: str, what: Literal["model", "dataset"]) -> HubAnswer:
    """Whether the hub has a model or a data set of this id, in one request."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    name = "data set" if what == "dataset" else what
    try:
        HfApi().repo_info(identity, repo_type=what, timeout=SECONDS)
    except HFValidationError:
        return HubAnswer(OnHub.ABSENT, f"'{identity}' is no id of the hub")
    except RepositoryNotFoundError:
        reason = f"the hub has no {name} '{identity}', or it needs a login (`hf auth login`)"
        return HubAnswer(OnHub.ABSENT, reason)
    except OfflineModeIsEnabled:
        return HubAnswer(OnHub.UNREACHABLE, "the hub cannot be reached (HF_HUB_OFFLINE is set)")
    except Exception as error:  # noqa: BLE001  each version's client has its own errors
        reason = f"the hub cannot be reached ({type(error).__name__}: {first_line(error)})"
        return HubAnswer(OnHub.UNREACHABLE, reason)
    return HubAnswer(OnHub.THERE)
