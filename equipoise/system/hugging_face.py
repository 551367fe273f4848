"""The Hugging Face hub: check early what it has, and upload folders under the user's login."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, NamedTuple

from equipoise.errors import ConfigError, RunError, first_line

SECONDS = 10.0  # that the hub is given to answer


class OnHub(Enum):
    """The state of an id on the hub."""

    THERE = "there"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


class HubAnswer(NamedTuple):
    """The state of an id on the hub, and the reason in words; "" where it is there."""

    state: OnHub
    reason: str = ""


def ask_hub(identity: str, what: Literal["model", "dataset"]) -> HubAnswer:
    """Ask the hub, in one request, whether it has a model or a data set of this id."""
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


Kind = Literal["model", "dataset"]


@dataclass(frozen=True)
class HubRepository:
    """A repository that the logged-in user may write to; made by `hub_repository`."""

    id: str
    kind: Kind

    def upload(self, folder: Path, files: Sequence[Path] | None = None) -> str:
        """Upload `folder`, or these files of it; the address. A new repository is private.

        Raises RunError when the hub does not take it; the folder stays as it is.
        """
        from huggingface_hub import HfApi

        hub = HfApi()
        names = None
        if files is not None:
            names = [str(file.relative_to(folder)) for file in files]
        try:
            address = hub.create_repo(self.id, repo_type=self.kind, private=True, exist_ok=True)
            hub.upload_folder(
                repo_id=self.id,
                repo_type=self.kind,
                folder_path=folder,
                allow_patterns=names,
                commit_message="Upload from Equipoise",
            )
        except _hub_errors() as error:
            raise RunError(
                f"{folder} is written, but the hub did not take it as {self.id}: "
                f"{first_line(error)}"
            ) from error
        return str(address)


def hub_repository(name: str, kind: Kind) -> HubRepository:
    """The repository ORG/NAME, where the user may write; nothing is made on the hub.

    Raises ConfigError for a faulty name, a missing or rejected login, another's ORG.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(f"--push {name}: {first_line(error)}") from error
    owner, slash, _ = name.partition("/")
    if not slash:
        raise ConfigError(f"--push {name}: name the owner, too: ORG/{name}")
    if get_token() is None:
        raise ConfigError(
            f"--push {name}: nobody is logged in to the hub; run `hf auth login`, or set HF_TOKEN"
        )
    try:
        account = HfApi().whoami()
    except _hub_errors() as error:
        raise ConfigError(
            f"--push {name}: the hub did not accept the login: {first_line(error)}"
        ) from error
    owners = [account["name"], *(org["name"] for org in account.get("orgs", ()))]
    if owner not in owners:
        raise ConfigError(
            f"--push {name}: {account['name']} may not write there, but to {', '.join(owners)}"
        )
    return HubRepository(name, kind)


def _hub_errors() -> tuple[type[BaseException], ...]:
    """The error of the HTTP client that the hub's package uses, and OSError."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__
