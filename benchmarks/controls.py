"""The measurements that could refute a gain, shown beside it.

A start that is sampled at temperature 1 may know more than it samples, and training that only
sharpens it looks like learning. So the same players answer the same held-out prompts, under the
same judge and by the same evaluation, in other ways: `start` and `end` greedily, before and after
training; `base` greedily too, the model without the adapters that its members start from. What
labels allow is in `by_labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import equipoise
from equipoise.players.local import Local
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

Decoded = Literal["start", "end", "base"]


def decoded(
    folder: Path,
    which: Decoded,
    out: Path,
    *,
    players: Sequence[str] | None = None,
    temperature: float = 0.0,
    settings: Mapping[str, Any] | None = None,
    asked: Path | None = None,
) -> Path:
    """The folder of a run that trains nothing and measures the learners of the finished run in
    `folder` anew, at this temperature; made where it is not there yet.

    Args: players: which learners, None: all that are local models; the others answer as they did at
    the start; settings: over the run's own, such as fewer samples, for greedy answers are all
    alike; asked: a file of other prompts. Raises ValueError where the held-out prompts are not the
    run's and no others were asked for.
    """
    if not (out / "report.html").exists():
        with RunDirectory.read(folder) as run:
            learners = {
                name: player
                for name, player in run.config.players.items()
                if player.learns and isinstance(player, Local)
            }
        values: dict[str, Any] = {"generations": 0, **(settings or {})}
        if asked is not None:
            values["prompts.held_out_path"] = str(asked)
        for name in learners if players is None else players:
            values[f"players.{name}.temperature"] = temperature
            values |= _weights(name, learners[name], folder, which)
        equipoise.run(folder / "config.yaml", values, out, progress=False, overwrite=True)
    if asked is None:
        _check_same_prompts(folder, out)
    return out


def _weights(name: str, player: Local, folder: Path, which: Decoded) -> dict[str, Any]:
    """The settings by which a player starts from the weights that are to be measured."""
    if which == "start":
        return {}
    if which == "base":
        return {f"players.{name}.adapter": None}
    kept = "model" if player.lora is None else "adapter"
    return {f"players.{name}.{kept}": str(newest_weights(folder, name))}


def newest_weights(folder: Path, player: str) -> Path:
    """The folder of a player's weights at the end of the run in `folder`."""
    place = folder.resolve() / "players" / player
    generations = [int(child.name) for child in place.iterdir() if child.name.isdigit()]
    return place / str(max(generations))


def _check_same_prompts(folder: Path, out: Path) -> None:
    """Raises ValueError where two runs measured on different prompts."""
    asked = []
    for place in (folder, out):
        with RunDirectory.read(place) as run:
            matches = run.ledger.matches("held_out")
            asked.append({match.prompt for match in matches})
    if asked[0] != asked[1]:
        raise ValueError(f"{out} was measured on other prompts than {folder}")


def held_out_scores(folder: Path, player: str, generation: int = 0) -> dict[str, float]:
    """Prompt id -> the mean score of a player's answers, as the newest judge of a run scored them;
    answers that nobody could judge are left out.
    """
    sought = PlayerId(player, generation)
    by_prompt: dict[str, list[float]] = {}
    with RunDirectory.read(folder) as run:
        utility = run.config.utility
        matches = [
            match
            for match in run.ledger.matches("held_out")
            if set(match.seats.values()) == {sought}
        ]
        judgements = run.ledger.judgements_of(match.id for match in matches)
    for match in matches:
        for seat in match.seats:
            score = judgements[match.id].score(seat, utility)
            if score is not None:
                by_prompt.setdefault(match.prompt, []).append(score)
    return {prompt: fmean(scores) for prompt, scores in by_prompt.items()}
