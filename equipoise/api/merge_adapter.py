"""Merge an adapter into its base, or write a whole generation anew in another precision: a model
that needs neither PEFT nor this run.
"""

from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from equipoise.blocks.terminal import show_notes
from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.models.adapters import packaged_models
from equipoise.models.loading import Dtype, load_model, load_tokenizer, written_dtype
from equipoise.models.progress import quiet
from equipoise.players.local import Local
from equipoise.report.model_card import merged_note, model_card, write_card
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import write_folder
from equipoise.system.locks import check_place
from equipoise.types import PlayerId


def run_of(generation: Path) -> tuple[Path, PlayerId]:
    """The run and player of a folder RUN/players/NAME/N. Raises RunError for another."""
    folder = generation.resolve()
    parts = folder.parents
    is_generation = folder.is_dir() and folder.name.isdigit() and len(parts) > 2
    if not is_generation or not (parts[2] / "config.yaml").is_file():
        raise RunError(
            f"{generation}: is no generation of a run; name one, as in runs/first/players/policy/3"
        )
    return parts[2], PlayerId(parts[0].name, int(folder.name))


def merge(
    generation: Path,
    to: Path,
    *,
    base: str | None = None,
    dtype: Dtype = "auto",
    trust: bool = False,
) -> None:
    """Merge the adapter in `generation` with its base into the folder `to`, whole or not at all.

    A generation of whole weights is written as it is, but for the precision: learners keep theirs
    in float32, whatever the base has.

    Args: base: where the base lies now, None: as the run names it; dtype: of the merged weights,
    which are computed in float32; auto: the base's own; trust: the base that somebody else's run
    names may be read.

    Raises RunError for a folder that is no generation, and where `to` is not empty; ModelError for
    a generation that is no language model and a base that cannot be loaded.
    """
    folder, player = run_of(generation)
    adapter = (generation / "adapter_config.json").is_file()
    if not adapter and not (generation / "config.json").is_file():
        raise ModelError(
            f"{generation}: holds neither an adapter (adapter_config.json) nor a model "
            "(config.json), so there is nothing to write"
        )
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise RunError(f"{to}: exists and is not empty; choose another --to")
    check_place(to)
    with RunDirectory.read(folder) as run:
        if base is None:
            show_notes(run.agree_without_parts(trust))
        settings = run.config.players[player.name]
        assert isinstance(settings, Local), "it alone has adapters"
        model = base or _base(run, settings.model)
        card = model_card(run, player, merged=adapter)
    if note := merged_note(settings.quantization):
        show_notes([f"{player}: {note[0].lower()}{note[1:]}"])
    with quiet():
        merged = load_model(model, generation, settings.lora, dtype="float32", device="cpu")
        if adapter:
            merged = merged.merge_and_unload()
        tokenizer = load_tokenizer(
            str(generation) if (generation / "tokenizer.json").is_file() else model
        )

    kind = written_dtype(model, dtype)

    def write(draft: Path) -> None:
        with quiet():
            merged.to(kind).save_pretrained(draft)
            tokenizer.save_pretrained(draft)
        write_card(card, draft)

    write_folder(to, write)


def checked_dtype(name: str) -> Dtype:
    """The dtype of that name. Raises ConfigError for another text."""
    try:
        return TypeAdapter(Dtype).validate_python(name)
    except ValidationError as error:
        raise ConfigError(f"--dtype {name}: must be one of {', '.join(get_args(Dtype))}") from error


def _base(run: RunDirectory, model: str) -> str:
    """The base model; relative paths are of the directory that the run was started in."""
    place = Path(run.ledger.meta("directory"), model)
    return str(place) if model not in packaged_models() and place.exists() else model
