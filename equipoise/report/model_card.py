"""The model card of a generation: what it was made of, how, and what it scores.

A card is the `README.md` in the generation's folder, with the metadata that model hubs read. It
names models and data, never where they lie on this machine, and is a function of the run's records:
a resumed run writes the same card.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.blocks.section import Headline
from equipoise.evaluation.measures import History, Measures
from equipoise.models.adapters import PublishedName, published_name
from equipoise.models.quantization import PACKAGES
from equipoise.players.population import home
from equipoise.report.history import history
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Observer
from equipoise.system.folder import write_text
from equipoise.system.yaml_text import yaml_text
from equipoise.types import PlayerId

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard, EvalResult, ModelCard, ModelCardData

CARD = "README.md"
PROJECT = "https://github.com/equipoise-ai/equipoise"
RECORDS = f"Every record of a run of [Equipoise]({PROJECT})."
# The folders of an absolute path, or of one below a home; not those of an address.
FOLDERS = re.compile(r"(?<![\w./:~-])(?:~[\w-]*)?/(?:[^/'\",{}\[\]=]+/)*")


class ModelCards(Observer):
    """Writes a card beside all weights that a run saves."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run

    def saved(self, players: Sequence[PlayerId]) -> None:
        """Write the cards of these players."""
        write_cards(self._run, players)


def write_cards(run: RunDirectory, players: Iterable[PlayerId]) -> None:
    """Write the cards of those players that have a folder of their own."""
    for player in players:
        folder = home(run.folder / "players", player)
        if player.generation and folder.is_dir():
            write_card(model_card(run, player), folder)


def write_card(card: ModelCard | DatasetCard, folder: Path) -> None:
    """Put a card into a folder, in place of another one, whole or not at all."""
    path = folder / CARD
    text = str(card)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    write_text(path, text)


def model_card(run: RunDirectory, player: PlayerId, *, merged: bool = False) -> ModelCard:
    """The card of a generation; `merged`: of the whole model its adapter makes with the base."""
    from huggingface_hub import ModelCard

    base = _base(run, player)
    measured = _history(run, player)
    adapter = _is_adapter(run, player) and not merged
    data = _metadata(run, player, base, measured, adapter)
    body = "\n\n".join(_body(run, player, base, measured, adapter, merged))
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{body}\n")


def data_card(run: RunDirectory, files: Mapping[Path, int]) -> DatasetCard:
    """The card of an exported ledger, with a configuration for each Parquet file with rows."""
    from huggingface_hub import DatasetCard, DatasetCardData

    filled = {path: rows for path, rows in files.items() if rows}
    configs = [
        {"config_name": path.stem, "data_files": path.name, "default": not number}
        for number, path in enumerate(filled)
    ]
    data = DatasetCardData(tags=["equipoise", run.config.name], configs=configs)
    rows = [(f"`{path.name}`", f"{count:,}") for path, count in filled.items()]
    body = [
        f"# Records of {run.config.name}",
        RECORDS,
        _table(("file", "rows"), rows),
        f"## Command\n\n```\n{_command(run)}\n```",
    ]
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(body) + "\n")


def write_data_card(run: RunDirectory, files: Mapping[Path, int], folder: Path) -> list[Path]:
    """Write the export's card, unless another README is there; what was written."""
    path = folder / CARD
    if path.is_file() and RECORDS not in path.read_text(encoding="utf-8"):
        return []
    write_card(data_card(run, files), folder)
    return [path]


def copy_cards(run: RunDirectory, folder: Path) -> list[Path]:
    """Copy the cards of all generations on disk to `folder`/NAME@N.md."""
    copies = []
    for birth in run.ledger.players():
        card = home(run.folder / "players", birth.player) / CARD
        if card.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            copies.append(folder / f"{birth.player}.md")
            write_text(copies[-1], card.read_text(encoding="utf-8"))
    return copies


def without_folders(value: Any) -> Any:
    """Plain values, with absolute paths in their texts cut down to the last name."""
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: without_folders(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return value


def _base(run: RunDirectory, player: PlayerId) -> PublishedName | None:
    """The model that the player started from; None for a player that is no model."""
    model = run.config.players[player.name].base_model
    folder = Path(run.ledger.meta("directory"))
    return None if model is None else published_name(model, folder)


def _quantization(run: RunDirectory, player: PlayerId) -> str | None:
    return getattr(run.config.players[player.name], "quantization", None)


def merged_note(quantization: str | None) -> str:
    """A note on the base of a merged adapter that was trained on a quantised one, else ""."""
    if quantization is None:
        return ""
    return (
        f"It was trained and measured on the base in {quantization}, and is merged into the base "
        "as it was before: it answers a little differently."
    )


def _is_adapter(run: RunDirectory, player: PlayerId) -> bool:
    folder = home(run.folder / "players", player)
    return (folder / "adapter_config.json").is_file()


def _history(run: RunDirectory, player: PlayerId) -> History[Measures] | None:
    """The measurements up to the first of this generation; None before it."""
    whole = history(run)
    for count, measurement in enumerate(whole.measurements, 1):
        if measurement.player(player.name) == player:
            return dataclasses.replace(whole, measurements=whole.measurements[:count])
    return None


# -- metadata


def _metadata(
    run: RunDirectory,
    player: PlayerId,
    base: PublishedName | None,
    measured: History[Measures] | None,
    adapter: bool,
) -> ModelCardData:
    from huggingface_hub import ModelCardData

    library = None
    if base is not None:
        library = "peft" if adapter else "transformers"
    return ModelCardData(
        base_model=None if base is None else base.hub,
        datasets=list(run.config.prompts.hub_ids) or None,
        library_name=library,
        pipeline_tag=None if base is None else "text-generation",
        tags=["equipoise", run.config.name, *_method(run, player)],
        model_name=f"{run.config.name} {player}",
        eval_results=list(_results(run, player, measured)) or None,
    )


def _method(run: RunDirectory, player: PlayerId) -> list[str]:
    trainer = run.config.learner_of(player.name)
    by_loss = trainer.by_loss and trainer.needs in ("pairs", "game")
    loss = run.config.loss if by_loss else None
    return [trainer.kind] if loss is None else [trainer.kind, loss.kind]


def _results(
    run: RunDirectory, player: PlayerId, measured: History[Measures] | None
) -> Iterator[EvalResult]:
    """The held-out score in the form that hubs read."""
    from huggingface_hub import EvalResult

    score = measured and measured.last and measured.last.measures.scores.get(str(player))
    if not measured or not score or score.mean is None:
        return
    prompts = run.config.prompts
    name = ", ".join(prompts.names)
    yield EvalResult(
        task_type="text-generation",
        dataset_type=next(iter(prompts.hub_ids), prompts.kind),
        dataset_name=f"held-out prompts of {name}",
        metric_type=measured.utility,
        metric_name=f"held-out {measured.utility} by {measured.judge}",
        metric_value=score.mean,
        metric_args={"low": score.low, "high": score.high, "n": score.n},
    )


# -- text


def _body(
    run: RunDirectory,
    player: PlayerId,
    base: PublishedName | None,
    measured: History[Measures] | None,
    adapter: bool,
    merged: bool,
) -> Iterator[str]:
    version = run.ledger.meta("version")
    maker = f"[Equipoise]({PROJECT}) {version}".rstrip()
    yield f"# {player} of {run.config.name}"
    yield (
        f"Generation {player.generation} of the player `{player.name}`, "
        f"trained by {maker}: language models aligned by playing games."
    )
    if merged:
        note = merged_note(_quantization(run, player))
        yield f"The adapter of this generation is merged into the base model. {note}".strip()
    yield _table(("what", "which"), _facts(run, player, base, adapter))
    yield "## Scores"
    if measured is None:
        yield "This generation was not measured."
    else:
        rows = [(line.label, line.value, line.note) for line in _headlines(player, measured)]
        yield _table(("measure", "value (95 % interval)", "beside it"), rows)
    yield "## Settings"
    yield f"```yaml\n{_settings(run, player)}```"
    yield "## Command"
    yield f"```\n{_command(run)}\n```"


def _facts(
    run: RunDirectory, player: PlayerId, base: PublishedName | None, adapter: bool
) -> Iterator[Sequence[str]]:
    config = run.config
    yield "recipe", f"`{config.name}`, seed {config.seed}"
    if base is not None:
        packaged = ", packaged with Equipoise" if base.packaged else ""
        yield "base model", f"`{base.name}`{packaged}"
        yield ("weights", "a PEFT adapter on the base model" if adapter else "a whole model")
        if quantization := _quantization(run, player):
            packages = f"{quantization}, by {PACKAGES[quantization]}"
            yield "base as it was trained, played and measured", packages
    for birth in run.ledger.players():
        if birth.player == player:
            yield "trained from", f"{birth.parent} by the learner `{birth.learner}`"
    learner, *loss = _method(run, player)
    yield "loss", f"`{loss[0]}`" if loss else f"that of the learner `{learner}`"
    yield "game", f"`{config.game.kind}`"
    yield "judge", f"`{config.judge_of(player.name).kind}`"
    yield "data", ", ".join(f"`{name}`" for name in config.prompts.names)


def _headlines(player: PlayerId, measured: History[Measures]) -> Iterator[Headline]:
    """The player's own score first, then what was measured of its generation."""
    own = dataclasses.replace(measured, learners=(player.name,))
    lines = own.headlines() if own.last else []
    together = measured.headlines() if measured.last else []
    yield from dict.fromkeys([*lines, *together])


def _settings(run: RunDirectory, player: PlayerId) -> str:
    t = _generation_of_turn(run, player)
    settings = {"learner": run.config.learner_at(player.name, t).settings()}
    loss = run.config.loss_at(t)
    if len(_method(run, player)) > 1 and loss is not None:
        settings["loss"] = loss.settings()
    return yaml_text(without_folders(settings))


def _generation_of_turn(run: RunDirectory, player: PlayerId) -> int:
    """The generation of the loop in which the player was trained."""
    turns = [stage for stage in run.ledger.stages("turn") if player.name in stage.facts["learn"]]
    return turns[player.generation - 1].generation


def _command(run: RunDirectory) -> str:
    words = shlex.split(run.ledger.meta("command"))
    return shlex.join(without_folders(words)) or "equipoise run config.yaml"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
