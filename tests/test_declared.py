"""What the package declares stands in a record: the settings with their bounds and defaults, the
fields of records, the arguments that have defaults, and the numbers that have a name.
"""

import ast
import dataclasses
import enum
import hashlib
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path, PurePath
from types import FunctionType
from typing import get_type_hints

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import equipoise
from equipoise.component import Settings
from equipoise.system.effects import DeclaredEffect

pytestmark = pytest.mark.long

PROSE = {"description", "title", "examples", "annotation", "default", "default_factory"}
LONGEST = 1_000  # characters of a value that are shown
ENCODED = ("tag", "omit_defaults", "forbid_unknown_fields", "array_like")
SHARED = dict(Settings.model_config)
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*$")


def modules():
    """Every module of the package, but those that are started as processes or need another's
    library.
    """
    for found in pkgutil.walk_packages(equipoise.__path__, "equipoise."):
        if not found.name.endswith("__main__"):
            try:
                yield import_module(found.name)
            except ModuleNotFoundError as error:
                assert not (error.name or "equipoise").startswith("equipoise"), error


def shown(value):
    """A value as it reads in every process."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(shown, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
    if isinstance(value, tuple | list):
        inner = ", ".join(map(shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, type | FunctionType):
        return value.__qualname__
    if isinstance(value, PurePath | float):
        return f"{value}" if isinstance(value, PurePath) else repr(float(value))
    return re.sub(r"<(\S+) .*? at 0x\w+>", r"<\1>", re.sub(r" at 0x\w+", "", repr(value)))


def is_plain(value):
    """True for numbers and truths, and for what is made of them and of texts."""
    if isinstance(value, dict):
        return is_plain([*value.keys(), *value.values()])
    if isinstance(value, tuple | list | set | frozenset):
        return any(map(is_plain, value)) and all(
            is_plain(each) or isinstance(each, str) or each is None for each in value
        )
    return isinstance(value, bool | int | float) and not isinstance(value, enum.Enum)


def settings(kind):
    """`name = default, bounds` of every field of a model."""
    ours = {key: value for key, value in kind.model_config.items() if value != SHARED.get(key)}
    if ours:
        yield f"  {shown(dict(sorted(ours.items())))}"
    for name, info in kind.model_fields.items():
        if name not in inspect.get_annotations(kind):
            continue
        if info.default is not PydanticUndefined:
            default = f" = {shown(info.default)}"
        else:
            default = f" = {shown(info.default_factory)}()" if info.default_factory else ""
        bounds = [
            shown(m) for m in info.metadata if not callable(m) and not isinstance(m, DeclaredEffect)
        ]
        more = {k: v for k, v in info._attributes_set.items() if k not in PROSE}
        yield f"  {name}{default}  {' '.join([*bounds, shown(more) if more else ''])}".rstrip()


def fields(kind):
    """`name = default` of every field of a record that has one."""
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        ours = {key: getattr(config, key) for key in ENCODED if getattr(config, key)}
        if ours:
            yield f"  {shown(ours)}"
        rows = [(f.name, f.default, f.default_factory) for f in msgspec.structs.fields(kind)]
        missing = msgspec.NODEFAULT
    else:
        rows = [(f.name, f.default, f.default_factory) for f in dataclasses.fields(kind)]
        missing = dataclasses.MISSING
    for name, default, factory in rows:
        if name not in inspect.get_annotations(kind):
            continue
        if default is not missing:
            yield f"  {name} = {shown(default)}"
        elif factory is not missing:
            yield f"  {name} = {shown(factory)}()"


def defaults(name, function):
    """`name(argument=default)` of a function that has any."""
    given = [
        f"{each.name}={shown(each.default)}"
        for each in inspect.signature(inspect.unwrap(function)).parameters.values()
        if each.default is not each.empty
    ]
    return [f"  {name}({', '.join(given)})"] if given else []


def options(name, function):
    """The options of a verb that have bounds."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError:  # a helper with types that are imported for a checker alone; no verb has such
        return
    for argument, kind in hints.items():
        for each in getattr(kind, "__metadata__", ()):
            bounds = {k: getattr(each, k, None) for k in ("min", "max", "clamp", "is_flag")}
            if any(value is not None and value is not False for value in bounds.values()):
                yield f"  {name} {argument} {shown(bounds)}"


def declared(module):
    """The lines of one module."""
    body = ast.parse(Path(module.__file__).read_text()).body
    assigned = {
        name.id
        for part in body
        if isinstance(part, ast.Assign | ast.AnnAssign | ast.If)
        for name in ast.walk(part)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for name, value in vars(module).items():
        own = getattr(value, "__module__", "") == module.__name__
        if CONSTANT.match(name) and name != "TYPE_CHECKING" and is_plain(value):
            text = shown(value)
            if len(text) > LONGEST:  # a table
                text = f"{text[:LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:12]}"
            if name in assigned:
                yield f"{name} = {text}"
        elif own and inspect.isclass(value):
            inner = []
            if issubclass(value, BaseModel):
                inner += settings(value)
            elif issubclass(value, msgspec.Struct) or dataclasses.is_dataclass(value):
                inner += fields(value)
            known = getattr(value, "model_fields", None) or getattr(
                value, "__dataclass_fields__", {}
            )
            for each, member in vars(value).items():
                if isinstance(member, FunctionType | classmethod | staticmethod):
                    function = getattr(member, "__func__", member)
                    if getattr(function, "__module__", "") == module.__name__ and (
                        not each.startswith("__") or (each == "__init__" and not known)
                    ):
                        inner += defaults(each, function)
                elif (
                    each not in known and not each.startswith(("_", "model_")) and is_plain(member)
                ):
                    inner.append(f"  {each} = {shown(member)}")
            if inner:
                yield f"class {name}"
                yield from inner
        elif own and isinstance(inspect.unwrap(value) if callable(value) else value, FunctionType):
            yield from (line[2:] for line in defaults(name, value))
            if module.__name__.startswith("equipoise.cli") and not name.startswith("_"):
                yield from options(name, value)


def test_what_is_declared_is_what_is_recorded(as_recorded):
    lines = []
    for module in modules():
        if found := [*declared(module)]:
            lines += ["", module.__name__.removeprefix("equipoise."), *found]
    as_recorded("declared.txt", "\n".join(lines), exact=True)
