"""Numeric settings of the loss and of learners that change from generation to generation.

    loss: {ratio: {0: 0.333, 2: 0.85}}     from generation 0, and from generation 2 on
    loss: {ratio: [0.333, 0.333, 0.85]}    the same, one by one; the last goes on

The resolved configuration has the value of generation 0 in its place, and all of them under
`by_generation`, by the part's name: loss, losses.NAME, learner, learners.NAME.
"""

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from equipoise.component import Component, import_object
from equipoise.learners.base import Learner
from equipoise.losses.base import PreferenceLoss

Schedule = dict[int, float]  # generation -> the value from there on
ROOMS: dict[str, type[Component]] = {"loss": PreferenceLoss, "learner": Learner}
CHANGING = (
    "loss",
    "losses",
    "learner",
    "learners",
    "by_generation",
)  # settings that hold schedules


def separate_schedules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Move every schedule in the `CHANGING` settings under `by_generation`; the value of generation
    0 takes its place.
    """
    filled = dict(values)
    schedules = dict(filled.get("by_generation") or {})
    for part in ROOMS:
        filled[part] = _first(part, filled.get(part), schedules)
        if filled[part] is None:
            filled.pop(part)
    for room in ("losses", "learners"):
        parts = filled.get(room)
        if not isinstance(parts, Mapping):
            continue
        filled[room] = {}
        for name, settings in parts.items():
            filled[room][name] = _first(f"{room}.{name}", settings, schedules)
    if schedules:
        filled["by_generation"] = schedules
    return filled


def value_at(schedule: Mapping[int, float], t: int) -> float:
    """The value in force in generation t."""
    return schedule[max(begin for begin in schedule if begin <= t)]


def part_at(part: Component, schedules: Mapping[str, Schedule], t: int) -> Any:
    """The part as it is in generation t. Raises ValidationError where it is not valid."""
    if not schedules:
        return part
    changes = {name: value_at(schedule, t) for name, schedule in schedules.items()}
    return type(part).model_validate({**part.settings(), **changes})


def schedule_fault(part: str, settings: Component, schedules: Mapping[str, Schedule]) -> str:
    """The fault in a part's schedules, "" for none; generations after the end are allowed."""
    for name, schedule in schedules.items():
        if name not in type(settings).model_fields:
            return f"{part} has no setting '{name}'"
        if 0 not in schedule or min(schedule) < 0:
            return (
                f"{part}.{name}: generations count from 0; give its value, too, as in "
                "{0: 0.3, 2: 0.8}"
            )
        if getattr(settings, name) != schedule[0]:
            return (
                f"{part}.{name} is {getattr(settings, name)}, but by_generation begins "
                f"with {schedule[0]:g}; take one of them away"
            )
    return ""


def _first(part: str, settings: Any, schedules: dict[str, Any]) -> Any:
    """Put the schedules of a part into `schedules`; its settings with each one's first value."""
    if not isinstance(settings, Mapping):
        return settings
    numeric = _numeric(part, settings.get("kind"))
    plain = dict(settings)
    for name, value in settings.items():
        schedule = _schedule(value) if name in numeric else None
        if schedule is not None:
            schedules[part] = {**schedules.get(part, {}), name: schedule}
            plain[name] = schedule.get(0, next(iter(schedule.values())))
    return plain


def _schedule(value: Any) -> Schedule | None:
    if isinstance(value, list) and value:
        return dict(enumerate(value))
    if isinstance(value, Mapping) and value:
        return dict(value) if all(isinstance(t, int) for t in value) else None
    return None


def _numeric(part: str, kind: Any) -> set[str]:
    room = ROOMS["loss" if part.startswith("loss") else "learner"]
    path = room.known_kinds().get(str(kind), str(kind))
    if ":" not in path:
        return set()
    fields = getattr(import_object(path), "model_fields", {}).items()
    return {name for name, field in fields if is_number(field.annotation)}


def is_number(annotation: Any) -> bool:
    if get_origin(annotation) not in (None, Union, UnionType):
        return False  # several numbers
    kinds = set(get_args(annotation)) or {annotation}
    return bool(kinds & {int, float}) and kinds <= {int, float, type(None)}
