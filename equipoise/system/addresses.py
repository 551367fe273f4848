"""Addresses of servers, the variables of the environment that hold their keys, and what belongs to
the machine that runs: how it starts commands and reaches others.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from equipoise.errors import ConfigError
from equipoise.system.effects import KEY
from equipoise.system.subprocesses import withhold
from equipoise.system.user_parts import is_only_read

T = TypeVar("T")


def check_address(url: str) -> str:
    """The address of a server. Raises ValueError for one without a host, or with a secret in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"'{url}' must begin with http:// or https:// and name a host")
    if "@" in parts.netloc or parts.query:
        raise ValueError("must hold no key or password; name the key's variable in api_key_env")
    return url.rstrip("/")


# A host with a port, or with the /v1 of OpenAI's protocol, and nothing before it.
BARE_ADDRESS = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+)(:\d{1,5}(/[\w./-]*)?|/v1/?)")


def lacks_scheme(text: str) -> bool:
    """True for a server's address without the http:// or https:// before it."""
    return BARE_ADDRESS.fullmatch(text) is not None


def is_loopback(host: str) -> bool:
    """True if a host's name or address is this machine's own."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_variable(name: str) -> str:
    # Capitals are asked for because a key pasted here by mistake has small letters: it must not go
    # further.
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise ValueError(
            "must be an environment variable's name, in capitals, such as MY_API_KEY; never the key"
        )
    withhold(name)  # only this process asks servers
    return name


KeyVariable = Annotated[
    Annotated[str, AfterValidator(_check_variable)] | None,
    KEY,
    Field(
        description="the environment variable that holds the key, not the key; null: "
        "the server asks for none"
    ),
]


def key_of(variable: str | None, server: str) -> str | None:
    """The key in the environment for `server`, None if none is needed. Raises ConfigError."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"the environment variable {variable} is not set; it should hold the key for {server}"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the environment variable {variable} holds a character that no key has; "
            "was it copied whole, and nothing else with it?"
        )
    return key


# -- the machine

VARIABLES = {
    "launch_prefix": "EQUIPOISE_LAUNCH_PREFIX",
    "ray_address": "EQUIPOISE_RAY_ADDRESS",
    "proxy": "EQUIPOISE_PROXY",
}
"""A setting of the machine -> its variable; the option of commands has the setting's name."""
ENVIRONMENT = "environment"  # a proxy: what the environment names


@dataclass(frozen=True)
class Machine:
    """What whoever starts a run says of the machine; no configuration can.

    `launch_prefix`: goes before the command of `learner.launch`, to start it once on each machine;
    `ray_address`: of a Ray cluster that is up; None: one of this machine's. `proxy`: requests to
    endpoints go through it; None: through none. `uses_environment`: through what HTTPS_PROXY,
    ALL_PROXY and NO_PROXY name, with the certificates of SSL_CERT_FILE and SSL_CERT_DIR.
    """

    launch_prefix: tuple[str, ...] = ()
    ray_address: str | None = None
    proxy: str | None = None
    uses_environment: bool = False

    @classmethod
    def here(cls) -> Self:
        """The machine by its variables. Raises ConfigError for one that says nothing sensible."""
        proxy = _variable("proxy", _check_proxy)
        return cls(
            tuple(_variable("launch_prefix", shlex.split)),
            _variable("ray_address", str) or None,
            None if proxy == ENVIRONMENT else proxy or None,
            proxy == ENVIRONMENT,
        )


def _variable(name: str, read: Callable[[str], T]) -> T:
    try:
        return read(os.environ.get(VARIABLES[name], "").strip())
    except ValueError as error:
        raise ConfigError(f"--{name.replace('_', '-')} or {VARIABLES[name]}: {error}") from error


def _check_proxy(url: str) -> str:
    parts = urlsplit(url)
    if url in ("", ENVIRONMENT):
        return url
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("must begin with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise ValueError(
            f"must hold no password; put the address into HTTPS_PROXY, and say {ENVIRONMENT} here"
        )
    return url


@contextmanager
def machine(*, launch_prefix: str = "", ray_address: str = "", proxy: str = "") -> Iterator[None]:
    """Say how this machine starts commands and reaches others, for what is done within.

    Args: launch_prefix: a command that starts another once on each machine, such as "srun
    --nodes=2"; ray_address: of a Ray cluster that is up, or auto; proxy: of endpoints' requests, or
    environment for what the environment names. "": as before. Raises ConfigError for another proxy.
    """
    given = {"launch_prefix": launch_prefix, "ray_address": ray_address, "proxy": proxy}
    before = {key: os.environ.get(key) for key in VARIABLES.values()}
    os.environ.update({VARIABLES[name]: value for name, value in given.items() if value})
    try:
        Machine.here()
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def of_the_machine(given: Any, moved: Mapping[str, str]) -> Any:
    """Settings without keys that are the machine's now: key -> the setting of `Machine`.

    A key that says nothing, or that is only read, is left out; another is a PydanticCustomError.
    """
    if not isinstance(given, Mapping):
        return given
    for key in moved.keys() & given.keys():
        if given[key] and not is_only_read():
            name = moved[key]
            raise PydanticCustomError(
                "of_the_machine",
                "'{key}' is the machine's and no configuration's: leave it out, and give the "
                "command {option}, or set {variable}",
                {"key": key, "option": f"--{name.replace('_', '-')}", "variable": VARIABLES[name]},
            )
    return {key: value for key, value in given.items() if key not in moved}
