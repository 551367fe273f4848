"""Settings that a run fixes when it begins, so that all its texts are read alike at any time.

The day that a chat template prints, and the tokens of a prompt that are read where longer ones are
cut, stand in config.yaml from then on: workers, a resumed run and a server of the run read them
there.
"""

import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from equipoise.component import with_inner
from equipoise.errors import UserError
from equipoise.models.chat_encoding import today
from equipoise.models.loading import row_length
from equipoise.players.local_settings import LocalSettings
from equipoise.runs.config import RunConfig

P = TypeVar("P", bound=BaseModel)


def fix_at_start(
    config: RunConfig, day: datetime.date | None = None
) -> tuple[RunConfig, tuple[str, ...]]:
    """(the configuration with what a run fixes at its start, a note for each).

    `day`: that is written where none is; None: today.
    """
    dated: list[str] = []
    day = day or today()
    config = with_day(config, day, "", dated)
    notes = [
        f"{place}: the model's chat template prints the date, and is given {day} throughout the "
        f"run ({place}.date)"
        for place in dated
    ]
    if config.too_long == "cut_prompt":
        players = {name: with_most(player) for name, player in config.players.items()}
        config = config.model_copy(update={"players": players})
    return config, tuple(notes)


def with_day(part: P, day: datetime.date, place: str, dated: list[str]) -> P:
    """The part with the day in all its parts that print one and have none; adds their places."""
    part = with_inner(
        part, lambda inner, name: with_day(inner, day, f"{place}.{name}".lstrip("."), dated)
    )
    if "date" in type(part).model_fields and part.date is None and prints_date(part):  # type: ignore[attr-defined]
        dated.append(place)
        return part.model_copy(update={"date": day})
    return part


def prints_date(part: Any) -> bool:
    try:
        return part.prints_date()
    except UserError:  # a model that is not there, which the plan reports
        return False


def with_most(player: Any) -> Any:
    """The player with the tokens of a prompt that it reads: all but what an answer needs, or half.

    Unchanged where it is set, and where the model is not there, which the plan reports.
    """
    if not isinstance(player, LocalSettings) or player.max_prompt is not None:
        return player
    try:
        length = row_length(player.model, player.max_length)
    except UserError:
        return player
    most = max(length - player.most_tokens, length // 2, 1)
    return player.model_copy(update={"max_prompt": most})
