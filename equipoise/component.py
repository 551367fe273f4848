"""A component is its configuration: a frozen pydantic model with a `kind`; its fields are its
settings.

A room's base class lists the room's kinds (`KINDS`: kind -> "module:Class", imported only when
named), and every environment, a folder below `equipoise.environments`, adds its own in its file
`plugin.py`. Wherever a configuration has a field of that base type, a mapping with `kind`, or the
bare kind as a string, becomes the component. `kind: my_package.my_module:MyJudge` or
`folder/file.py:MyJudge` names a user's own part; a kind that an installed package's entry point
gives (a plug-in) is short for such a path.

The tables of a `plugin.py`, and entry points, are described in `equipoise.system.plugins`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from equipoise.system.addresses import lacks_scheme
from equipoise.system.plugins import installed_kinds, plugin_modules
from equipoise.system.user_parts import (
    NotImported,
    definitions_in,
    functions_in,
    import_hint,
    import_module,
    is_users,
    may_read_files,
    raised,
    stand_in,
    stays_unimported,
    with_records,
)

S = TypeVar("S", bound=BaseModel)
MANY = 40  # names that a message lists


def nearest(name: str, known: list[str]) -> str:
    """ "did you mean 'x'?" for the known name that is closest, else the known names."""
    cutoff = 0.5 if len(name) > 4 else 0.6  # of four letters, two are no likeness
    close = [each for each in known if each.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, known, 1, cutoff)
    if close := close or [each for each in sorted(known) if name and each.startswith(f"{name}_")]:
        return f"did you mean '{close[0]}'?"
    more = [f"and {len(known) - MANY:,} more"] if len(known) > MANY else []
    return f"known: {', '.join([*sorted(known)[:MANY], *more])}"


def import_path(kind: type) -> str:
    """The import path by which `import_object` finds the class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def import_object(path: str) -> Any:
    """The object at `package.module:name` or `folder/file.py:name`; of a user's part that is only
    read, a stand-in.

    Raises PydanticCustomError where there is none.
    """
    if stays_unimported(path):
        return NotImported(path)
    try:
        return getattr(import_module(path), path.rpartition(":")[2])
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        why = f"{error}{import_hint(path)}"
        cause: BaseException = error
    except (Exception, SystemExit) as error:  # a user's module may raise anything, or leave
        if not is_users(path):
            raise
        why, cause = raised(error), error
    raise PydanticCustomError(
        "import", "cannot import '{path}': {error}", {"path": path, "error": why}
    ) from cause


def own_part_hint(kind: str) -> str:
    """A hint for a part of one's own that was named by its file or with a dot; "" for others."""
    if lacks_scheme(kind):
        return f"a server's address begins with http:// or https://, as http://{kind}"
    if may_read_files():
        if Path(f"{kind}.py").is_file():
            return f"did you mean '{kind}.py'?"
        if kind.endswith(".py") and Path(kind).is_file():
            try:
                classes = definitions_in(kind, ast.ClassDef)
            except ImportError as error:
                return str(error)
            if classes:
                return f"name the class in the file, as '{kind}:{classes[0]}'"
            return f"this part is a class (docs/change_a_piece.md), and {kind} has none"
        if "." in kind and Path(kind).is_file():
            return "a part of your own lies in a file that ends in .py"
    module, dot, name = kind.rpartition(".")
    if dot and module and name and "/" not in kind:
        return f"a part of your own is named as '{module}:{name}'"
    return ""


def function_path(path: str) -> str:
    """`file.py:name` for a file with one public function; other paths as they are.

    The file is read, not executed. Raises PydanticCustomError where it has none or several.
    """
    if not path.endswith(".py") or not may_read_files():
        return path
    try:
        names = functions_in(path)
    except ImportError as error:
        raise PydanticCustomError("import", "{error}", {"error": str(error)}) from error
    if len(names) == 1:
        return f"{path}:{names[0]}"
    listed = ", ".join(names)
    why = f"has {len(names)} public functions ({listed}); name one" if names else "has no function"
    context = {"path": path, "why": why, "name": names[0] if names else "score"}
    raise PydanticCustomError("function", "{path} {why}, as '{path}:{name}'", context)


# Settings of any component that limit or address a computation but do not change its result: they
# may differ when a run is resumed.
FREE = frozenset(
    {
        "api_key_env",
        "base_url",
        "budget",
        "concurrency",
        "currency",
        "executor",
        "patience",
        "python",
        "readable_by_others",
        "replicas",
        "retries",
        "timeout",
        "tried_on",
    }
)


def fixed_settings(values: Any, but: tuple[str, ...] = ()) -> Any:
    """Plain settings without those that are `FREE` or in `but`: what determines the result."""
    if isinstance(values, Mapping):
        left_out = FREE.union(but)
        return {
            key: fixed_settings(value, but) for key, value in values.items() if key not in left_out
        }
    if isinstance(values, list):
        return [fixed_settings(value, but) for value in values]
    return values


class Settings(BaseModel):
    """A frozen group of settings; an unknown key is an error that suggests a known one."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        takes_any = cls.model_config.get("extra") == "allow"
        if isinstance(value, Mapping) and not takes_any:
            unknown = [str(key) for key in value if key not in cls.model_fields]
            if unknown:
                own = {key: hint for key in unknown if (hint := cls.hint_of_unknown(key))}
                hint = own.get(unknown[0]) or nearest(unknown[0], list(cls.model_fields))
                context = {"key": unknown[0], "hint": hint, "unknown": unknown, "own": own}
                raise PydanticCustomError("unknown_key", "unknown key '{key}'; {hint}", context)
        return value

    @classmethod
    def hint_of_unknown(cls, key: str) -> str:
        """The hint of the class itself for an unknown key; "" where the nearest setting is hint
        enough.
        """
        return ""


def named_within(value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of what lies directly in settings, a mapping or a list."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield name, getattr(value, name)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name), inner
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield str(number), inner


def settings_in(value: Any) -> Iterator[BaseModel]:
    """All groups of settings in a value, parts among them, and those within them."""
    if isinstance(value, BaseModel):
        yield value
    for _, inner in named_within(value):
        yield from settings_in(inner)


def with_inner(part: S, change: Callable[[Any, str], BaseModel]) -> S:
    """The part with each group of settings in its fields changed.

    `change` gets the group, and its name within the part.
    """
    changed: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            new: Any = change(value, name)
        elif isinstance(value, Mapping | tuple):
            new = tuple(
                change(each, f"{name}.{key}") if isinstance(each, BaseModel) else each
                for key, each in named_within(value)
            )
            if isinstance(value, Mapping):
                new = dict(zip(value, new, strict=True))
        else:
            continue
        if new != value:
            changed[name] = new
    return part.model_copy(update=changed) if changed else part


def has_stand_ins(*parts: Any) -> bool:
    """True where any of these parts, or one within them, stands in for a user's own, which was not
    imported: what its class says of itself is not known, so that nothing is to be refused for it.
    """
    return any(getattr(type(part), "STANDS_FOR", "") for part in settings_in(parts))


class Component(Settings):
    """Base of every pluggable part.

    A room's base class sets `KINDS`, and makes abstract what each of its parts must define. Each
    part sets `kind: Literal["its_name"]`; a user's own part keeps its import path.
    """

    KINDS: ClassVar[Mapping[str, str]] = {}

    REMOVED: ClassVar[Mapping[str, str]] = {}
    """A kind that there is no more -> what to write instead."""

    READ: ClassVar[tuple[str, ...]] = ()
    """What is recorded of a user's part when it is played, by the names of attributes, so that the
    run can be read without it.
    """
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    """Class attributes that each part must set, beside its abstract methods."""
    STANDS_FOR: ClassVar[str] = ""
    """The import path of the user's part that this class stands in for."""

    kind: Any  # each part narrows it to its own Literal

    @field_validator("kind", mode="wrap")
    @classmethod
    def _own_kind_or_import_path(cls, kind: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """The kind as the class narrows it, or the import path of the class itself."""
        if cls.STANDS_FOR:
            return cls.STANDS_FOR
        if isinstance(kind, str) and ":" in kind and import_object(kind) is cls:
            return kind
        return validate(kind)

    @field_serializer("kind")
    def _kind_as_configured(self, kind: Any) -> Any:
        return kind

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if "KINDS" in cls.__dict__:
            return core_schema.no_info_plain_validator_function(
                cls.build,
                serialization=core_schema.plain_serializer_function_ser_schema(
                    lambda part: part.settings()
                ),
            )
        return handler(source)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The settings' JSON schema; where any part of a room may stand, a kind or a mapping with
        it, since users' parts have settings of their own.
        """
        if "KINDS" not in cls.__dict__:
            return handler(schema)
        kind = {"type": "string", "examples": sorted(cls.packaged_kinds())}
        settings = {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}
        return {"title": cls.__name__, "anyOf": [kind, settings]}

    def settings(self) -> dict[str, Any]:
        """The component as plain data, `kind` first, for the resolved configuration."""
        return {"kind": self.kind, **self.model_dump(mode="json")}

    @classmethod
    def build(cls, value: Any) -> Any:
        """The component for a mapping with `kind`, a bare kind, or a component."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping) or "kind" not in value:
            raise PydanticCustomError(
                "kind",
                "needs a mapping with 'kind', or a kind's name; known: {known}",
                {"known": ", ".join(sorted(cls.known_kinds()))},
            )
        value = {**value, "kind": cls.plugin_path(str(value["kind"]))}
        part = cls.find(value["kind"])
        if part.STANDS_FOR:
            part = with_records(part, value)
        return part.model_validate(value)

    @classmethod
    def plugin_path(cls, kind: str) -> str:
        """The import path for a plug-in's kind, others as they are.

        Raises PydanticCustomError for the kind of several plug-ins.
        """
        if ":" in kind or kind in cls.packaged_kinds():
            return kind
        path = installed_kinds().get(cls.__name__, {}).get(kind, kind)
        if " or " in path:
            context = {"kind": kind, "paths": path}
            raise PydanticCustomError(
                "plugins", "'{kind}' is a kind of several plug-ins; write {paths}", context
            )
        return path

    @classmethod
    def known_kinds(cls) -> dict[str, str]:
        """kind -> "module:Class": those of this package, and those of plug-ins."""
        return installed_kinds().get(cls.__name__, {}) | cls.packaged_kinds()

    @classmethod
    def packaged_kinds(cls) -> dict[str, str]:
        """kind -> "module:Class": the room's own, and those that environments add."""
        tables = [getattr(plugin, "KINDS", {}) for plugin in plugin_modules()]
        kinds = dict(cls.KINDS)
        for table in tables:
            kinds |= table.get(cls.__name__, {})
        return kinds

    @classmethod
    def find(cls, kind: str) -> type[Component]:
        """The class for `kind`, the room's or at an import path; an error if it is abstract."""
        kinds = cls.known_kinds()
        names_no_part = ":" not in kind or "://" in kind or lacks_scheme(kind)
        if kind not in kinds and names_no_part:
            hint = cls.REMOVED.get(kind) or own_part_hint(kind) or nearest(kind, list(kinds))
            raise PydanticCustomError(
                "unknown_kind", "unknown kind '{kind}'; {hint}", {"kind": kind, "hint": hint}
            )
        path = kinds.get(kind, kind)
        if stays_unimported(path):
            return stand_in(cls, path)
        part = import_object(path)
        if not (isinstance(part, type) and issubclass(part, cls)):
            raise PydanticCustomError(
                "wrong_room", "'{kind}' is not a {room}", {"kind": kind, "room": cls.__name__}
            )
        absent = {name for name in part.REQUIRED if not hasattr(part, name)}
        if missing := sorted(part.__abstractmethods__ | absent):
            raise PydanticCustomError(
                "unfinished_component",
                "'{kind}' does not define {methods}, which every {room} must have",
                {"kind": kind, "methods": ", ".join(missing), "room": cls.__name__},
            )
        return part
