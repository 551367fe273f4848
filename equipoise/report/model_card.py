"""The model card of a generation: what it was made of, how, and what it scores.

A card is the `README.md` in the generation's folder, with the metadata that model hubs read. It
names models and data, never where they lie on this machine, and is a function of the run's records:
a resumed run writes the same card.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.blocks.section import Headline
from equipoise.evaluation.measures import History, Measures
from equipoise.models.adapters import published_name
from equipoise.models.quantization import PACKAGES
from equipoise.players.population import home
from equipoise.report.history import history
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Observer
from equipoise.system.folder import Folder
from equipoise.system.locks import check_writable
from equipoise.system.yaml_text import yaml_text
from equipoise.types import PlayerId

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard, EvalResult, ModelCard

CARD = "README.md"
PROJECT = "https://github.com/equipoise-ai/equipoise"
RECORDS = f"Every record of a run of [Equipoise]({PROJECT})."
MODEL_CARD = """---
{{ card_data }}
---

# {{ player }} of {{ run }}

Generation {{ player.generation }} of the player `{{ player.name }}`, trained by {{ maker }}: \
language models aligned by playing games.
{%- if merged %}

The adapter of this generation is merged into the base model.{{ merged_note }}
{%- endif %}

| what | which |
| --- | --- |
{%- for what, which in facts %}
| {{ what }} | {{ which }} |
{%- endfor %}

## Scores
{% if measured %}
| measure | value (95 % interval) | beside it |
| --- | --- | --- |
{%- for line in headlines %}
| {{ line.label }} | {{ line.value }} | {{ line.note }} |
{%- endfor %}
{%- else %}
This generation was not measured.
{%- endif %}

## Settings

```yaml
{{ settings }}```

## Command

```
{{ command }}
```

"""
DATA_CARD = """---
{{ card_data }}
---

# Records of {{ run }}

{{ records }}

| file | rows |
| --- | --- |
{%- for name, rows in files.items() %}
| `{{ name }}` | {{ "{:,}".format(rows) }} |
{%- endfor %}

## Command

```
{{ command }}
```

"""
# The folders of an absolute path, or of one below a home; not those of an address.
FOLDERS = re.compile(r"(?<![\w./:~-])(?:~[\w-]*)?/(?:[^/'\",{}\[\]=]+/)*")


class ModelCards(Observer):
    """Writes a card beside all weights that a run saves."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    def saved(self, players: Sequence[PlayerId]) -> None:
        """Write the cards of these players."""
        write_cards(self.run, players)


def write_cards(run: RunDirectory, players: Iterable[PlayerId]) -> None:
    """Write the cards of those players that have a folder of their own."""
    for player in players:
        folder = home(run.folder / "players", player)
        if player.generation and folder.is_dir():
            write_card(model_card(run, player), folder)


def write_card(card: ModelCard | DatasetCard, folder: Path) -> None:
    """Put a card into a folder, in place of another one, whole or not at all."""
    content = str(card).encode()
    with Folder.open(folder) as files:
        if not files.holds(CARD, content):
            files.write(CARD, content)


def model_card(run: RunDirectory, player: PlayerId, *, merged: bool = False) -> ModelCard:
    """The card of a generation; `merged`: of the whole model its adapter makes with the base."""
    from huggingface_hub import ModelCard, ModelCardData

    config = run.config
    model = config.players[player.name].base_model
    quantization = getattr(config.players[player.name], "quantization", None)
    base = None
    if model is not None:
        base = published_name(model, Path(run.ledger.meta("directory")))
    weights = home(run.folder / "players", player)
    adapter = (weights / "adapter_config.json").is_file() and not merged
    library = "peft" if adapter else "transformers"
    measured = history_until(run, player)
    learner, loss = learner_and_loss(run.config, player)
    data = ModelCardData(
        base_model=None if base is None else base.hub,
        datasets=list(config.prompts.hub_ids) or None,
        library_name=None if base is None else library,
        pipeline_tag=None if base is None else "text-generation",
        tags=["equipoise", config.name, *filter(None, (learner, loss))],
        model_name=f"{config.name} {player}",
        eval_results=held_out_results(run, player, measured),
    )

    facts = {"recipe": f"`{config.name}`, seed {config.seed}"}
    if base is not None:
        packaged = ", packaged with Equipoise" if base.packaged else ""
        facts["base model"] = f"`{base.name}`{packaged}"
        facts["weights"] = "a PEFT adapter on the base model" if adapter else "a whole model"
        if quantization:
            packages = f"{quantization}, by {PACKAGES[quantization]}"
            facts["base as it was trained, played and measured"] = packages
    for birth in run.ledger.players():
        if birth.player == player:
            facts["trained from"] = f"{birth.parent} by the learner `{birth.learner}`"
    facts["loss"] = f"`{loss}`" if loss else f"that of the learner `{learner}`"
    facts["game"] = f"`{config.game.kind}`"
    facts["judge"] = f"`{config.judge_of(player.name).kind}`"
    facts["data"] = ", ".join(f"`{name}`" for name in config.prompts.names)

    return ModelCard.from_template(
        data,
        template_str=MODEL_CARD,
        run=config.name,
        player=player,
        maker=f"[Equipoise]({PROJECT}) {run.ledger.meta('version')}".rstrip(),
        merged=merged,
        merged_note=f" {merged_note(quantization)}".rstrip(),
        facts=facts.items(),
        measured=measured,
        headlines=headlines_of(player, measured),
        settings=settings_text(run, player),
        command=command_text(run),
    )


def data_card(run: RunDirectory, files: Mapping[Path, int]) -> DatasetCard:
    """The card of an exported ledger, with a configuration for each Parquet file with rows."""
    from huggingface_hub import DatasetCard, DatasetCardData

    filled = {path.name: rows for path, rows in files.items() if rows}
    configs: list[dict[str, Any]] = []
    for name in filled:
        stem = name.removesuffix(".parquet")
        configs.append({"config_name": stem, "data_files": name, "default": not configs})
    return DatasetCard.from_template(
        DatasetCardData(tags=["equipoise", run.config.name], configs=configs),
        template_str=DATA_CARD,
        run=run.config.name,
        records=RECORDS,
        files=filled,
        command=command_text(run),
    )


def write_data_card(run: RunDirectory, files: Mapping[Path, int], folder: Path) -> list[Path]:
    """Write the export's card, unless another README is there; what was written."""
    path = folder / CARD
    if path.is_file() and RECORDS.encode() not in path.read_bytes():
        return []
    write_card(data_card(run, files), folder)
    return [path]


def copy_cards(run: RunDirectory, folder: Path) -> list[Path]:
    """Copy the cards of all generations on disk to `folder`/NAME@N.md. Raises RunError."""
    copies = []
    for birth in run.ledger.players():
        place = home(run.folder / "players", birth.player)
        if (place / CARD).is_file():
            check_writable(folder)
            folder.mkdir(parents=True, exist_ok=True)
            copies.append(folder / f"{birth.player}.md")
            with Folder.open(place) as files, Folder.open(folder) as copied:
                copied.write(copies[-1].name, files.read(CARD))
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


def merged_note(quantization: str | None) -> str:
    """A note on the base of a merged adapter that was trained on a quantised one, else ""."""
    if quantization is None:
        return ""
    return (
        f"It was trained and measured on the base in {quantization}, and is merged into the base "
        "as it was before: it answers a little differently."
    )


def history_until(run: RunDirectory, player: PlayerId) -> History[Measures] | None:
    """The measurements up to the first of this generation; None before it."""
    whole = history(run)
    for count, measurement in enumerate(whole.measurements, 1):
        if measurement.player(player.name) == player:
            return dataclasses.replace(whole, measurements=whole.measurements[:count])
    return None


def learner_and_loss(config: RunConfig, player: PlayerId) -> tuple[str, str | None]:
    """The kinds of the player's learner and of the run's loss, None where that is not used."""
    learner = config.learner_of(player.name)
    by_loss = learner.by_loss and learner.needs in ("pairs", "game")
    loss = config.loss_of(player.name)
    if not by_loss or loss is None:
        return learner.kind, None
    return learner.kind, loss.kind


def held_out_results(
    run: RunDirectory, player: PlayerId, measured: History[Measures] | None
) -> list[EvalResult] | None:
    """The held-out score in the form that hubs read, None where there is none."""
    from huggingface_hub import EvalResult

    if measured is None or measured.last is None:
        return None
    score = measured.last.measures.scores.get(str(player))
    if not score or score.mean is None:
        return None
    prompts = run.config.prompts
    result = EvalResult(
        task_type="text-generation",
        dataset_type=next(iter(prompts.hub_ids), prompts.kind),
        dataset_name=f"held-out prompts of {', '.join(prompts.names)}",
        metric_type=measured.utility,
        metric_name=f"held-out {measured.utility} by {measured.judge}",
        metric_value=score.mean,
        metric_args={"low": score.low, "high": score.high, "n": score.n},
    )
    return [result]


def headlines_of(player: PlayerId, measured: History[Measures] | None) -> list[Headline]:
    """The player's own score first, then what was measured of its generation."""
    if measured is None or measured.last is None:
        return []
    own = dataclasses.replace(measured, learners=(player.name,))
    return list(dict.fromkeys([*own.headlines(), *measured.headlines()]))


def settings_text(run: RunDirectory, player: PlayerId) -> str:
    """The settings of learner and loss, of the generation in which the player was trained."""
    turns = [stage for stage in run.ledger.stages("turn") if player.name in stage.facts["learn"]]
    t = turns[player.generation - 1].generation
    settings = {"learner": run.config.learner_at(player.name, t).settings()}
    loss = run.config.loss_at(player.name, t)
    if learner_and_loss(run.config, player)[1] and loss is not None:
        settings["loss"] = loss.settings()
    return yaml_text(without_folders(settings))


def command_text(run: RunDirectory) -> str:
    """The command of the run, with names in place of paths."""
    words = shlex.split(run.ledger.meta("command"))
    return shlex.join(without_folders(words)) or "equipoise run config.yaml"
