"""Functions that a user gives from Python: of a notebook, at a prompt, made by another function.

What has a module of its own is named by its import path. Others are kept in this process, under
their name and a hash of their source text, which a run records beside it. Another process is given
the function again; one whose source differs has another hash, and is refused.
"""

import functools
import hashlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from equipoise.errors import ConfigError

MODULE = "equipoise_given"  # under which the process keeps them
NAMED = re.compile(rf"{MODULE}:(\w+)_([0-9a-f]{{12}})")


def give(function: Callable[..., Any]) -> tuple[str, str]:
    """(import path, source text or "") by which settings name a function.

    Raises ConfigError for a function without a source text.
    """
    name = getattr(function, "__name__", "")
    home = sys.modules.get(getattr(function, "__module__", None) or "")
    is_in_module = home is not None and home.__name__ not in ("__main__", MODULE)
    if is_in_module and getattr(home, name, None) is function:
        return f"{home.__name__}:{name}", ""  # type: ignore[union-attr]
    source = source_of(function)
    stem = re.sub(r"\W", "", name) or "function"
    identity = f"{stem}_{hash_of(function, source)}"
    setattr(given_module(), identity, function)
    return f"{MODULE}:{identity}", source


def source_of(function: Callable[..., Any]) -> str:
    """The source text of a function. Raises ConfigError where there is none."""
    try:
        return textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError) as error:
        instead = "define it by def in a cell or a file, and give that"
        if isinstance(function, functools.partial):
            instead = (
                "give a function that another one makes, as def make(target): def judge(prompt, "
                "text): …; return judge, or a class whose setting it is (docs/change_a_piece.md)"
            )
        raise ConfigError(f"{function!r}: has no source text to record; {instead}") from error


def hash_of(function: Callable[..., Any], source: str) -> str:
    """A hash of a function's source and of the plain values that it has from around it."""
    values: list[Any] = list(getattr(function, "__defaults__", None) or ())
    for cell in getattr(function, "__closure__", None) or ():
        values.append(cell.cell_contents)
    plain = json.dumps(values, default=lambda value: type(value).__name__, sort_keys=True)
    return hashlib.blake2b(f"{source}\n{plain}".encode(), digest_size=6).hexdigest()


def given_module() -> ModuleType:
    """The module of this process that keeps the functions."""
    return sys.modules.setdefault(MODULE, ModuleType(MODULE, __doc__))


def given_name(path: str) -> str:
    """The name of a given function at an import path, without its hash; "" for other paths."""
    named = NAMED.fullmatch(path)
    return named[1] if named else ""


def absent(path: str) -> str:
    """A hint where a given function is not in this process; "" where it is, or is no such."""
    named = NAMED.fullmatch(path)
    if named is None or hasattr(given_module(), path.partition(":")[2]):
        return ""
    name, begun_with = named.groups()
    others = []
    for known in vars(given_module()):
        match = NAMED.fullmatch(f"{MODULE}:{known}")
        if match and match[1] == name:
            others.append(match[2])
    if others:
        return (
            f"the function '{name}' is not the one that this was begun with: its source has the "
            f"hash {others[-1]}, and that one {begun_with}; its text stands in config.yaml"
        )
    return (
        f"the function '{name}' was given from Python and is needed again: "
        f"equipoise.open_run(RUN, functions=[{name}]); its text stands in config.yaml"
    )


def give_all(functions: Iterable[Callable[..., Any]]) -> None:
    """Keep functions that a run was begun with, for this process."""
    for function in functions:
        give(function)
