"""Names of models and adapters, packaged ones included; LoRA adapters on a base."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from equipoise.component import Settings, nearest
from equipoise.errors import ModelError, first_line, unreadable
from equipoise.models.gguf import gguf_folder, is_gguf
from equipoise.system.addresses import lacks_scheme
from equipoise.system.effects import Text
from equipoise.system.interrupts import time_limit
from equipoise.system.plugins import plugin_modules

MOST_LAYERS = 2_000  # that an adapter may make by repeating them


class Lora(Settings):
    """A low-rank adapter (PEFT LoRA) in place of full weights."""

    r: int = Field(16, ge=1, description="rank of the two factors")
    alpha: float = Field(32.0, gt=0, description="the update is scaled by alpha / r")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the adapter's input in training"
    )
    target_modules: Text | list[Text] = Field(
        "all-linear",
        description="'all-linear' (all but the output head), or names of modules as in PEFT",
    )


@cache
def packaged_models() -> dict[str, Path]:
    """Models that come with the package, by name, with their folders."""
    return _folders("MODELS")


@cache
def packaged_adapters() -> dict[str, Path]:
    """Adapters that come with the package, by name, with their folders."""
    return _folders("ADAPTERS")


class PublishedName(NamedTuple):
    """A model's name elsewhere: `hub` is its repository on a hub, if it has one."""

    name: str
    hub: str | None = None
    packaged: bool = False


def published_name(model: str, folder: Path = Path()) -> PublishedName:
    """A model's name without its place on this machine; relative paths start at `folder`."""
    if model in packaged_models():
        return PublishedName(model, packaged=True)
    path = folder / Path(model).expanduser()
    if Path(model).is_absolute() or model.startswith((".", "~")) or path.exists():
        return PublishedName(path.resolve().name)
    return PublishedName(model, "/".join(model.split("/")[:2]))


def _folders(table: str) -> dict[str, Path]:
    """The entries of the environments' tables, as folders below the environments' own.

    Those that only examples and tests use are there in the source, and not in the wheel.
    """
    folders: dict[str, Path] = {}
    for plugin in plugin_modules():
        home = Path(str(plugin.__file__)).parent
        entries = getattr(plugin, table, {})
        folders |= {name: home / folder for name, folder in entries.items()}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def resolve(model: str, *, weights: bool = True) -> str:
    """The folder of a model (packaged, from GGUF, given), or its hub id. Raises ModelError.

    Without `weights` that of a GGUF file may have none yet.
    """
    if model in packaged_models():
        return str(packaged_models()[model])
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path.resolve())
    if "://" in model or lacks_scheme(model):
        hub = re.match(r"https?://(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)", model)
        meant = f"of the hub is '{hub[1]}'" if hub else "behind a server plays as kind: endpoint"
        whole = "" if "://" in model else ", which begins with http:// or https://"
        raise ModelError(f"model '{model}' is a server's address{whole}; a model {meant}")
    if is_gguf(model):
        return str(gguf_folder(model, weights))
    if path.is_file():
        raise ModelError(
            f"model '{model}' is a file and no GGUF; name the folder that holds config.json and "
            "the weights"
        )
    if model.startswith("builtin"):
        raise ModelError(f"no model '{model}' is packaged; {nearest(model, [*packaged_models()])}")
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise ModelError(f"model folder '{model}' does not exist")
    before_colon = Path(model.partition(":")[0])
    if ":" in model and (before_colon / "ledger.sqlite").is_file():
        raise ModelError(
            f"there is no run and no model in '{model}'; a player of a run is written with @, as "
            f"{before_colon}@PLAYER or {before_colon}@PLAYER@GENERATION"
        )
    run = Path(model.partition("@")[0])
    if "@" in model and (run / "ledger.sqlite").is_file():
        there = ", ".join(str(each) for each in sorted(run.glob("players/*/*")))
        raise ModelError(f"there is no model '{model}'; the run has {there or 'none'}")
    if "/" in model and (path.parts[0] == "runs" or any(path.parent.glob("*/ledger.sqlite"))):
        raise ModelError(f"there is no run and no model in '{model}'{runs_like(path)}")
    return model


def check_folder(path: Path, model: str) -> None:
    """Raises ModelError for a folder that holds an adapter, a run or its player, and no model."""
    if (path / "config.json").is_file():
        return
    if (path / "adapter_config.json").is_file():
        raise ModelError(
            f"model '{model}' is an adapter; name its base as model, and the folder as adapter"
        )
    generations = [each.parent for each in sorted(path.glob("**/config.json"))]
    if (generations and (path / "ledger.sqlite").is_file()) or path.parent.name == "players":
        meant = f", as {path / generations[-1].relative_to(path)}" if generations else ""
        raise ModelError(f"model '{model}' is no model: it is of a run; name a generation{meant}")


def runs_like(path: Path) -> str:
    """A hint at the run that a path was meant for, for messages."""
    there = [ledger.parent.name for ledger in path.parent.glob("*/ledger.sqlite")]
    return f"; {nearest(path.name, there)}" if there else ""


def resolve_adapter(adapter: str) -> Path:
    """The folder of an adapter; `builtin/NAME` is a packaged one. Raises ModelError."""
    folder = packaged_adapters().get(adapter, Path(adapter).expanduser().resolve())
    if not (folder / "adapter_config.json").is_file():
        hint = "name a folder that holds adapter_config.json"
        if adapter.startswith("builtin/"):
            hint = nearest(adapter, sorted(packaged_adapters()))
        raise ModelError(f"there is no adapter '{adapter}'; {hint}")
    return folder


def holds_adapter(weights: Path, lora: Lora | None) -> bool:
    """True if a generation folder holds an adapter. Raises ModelError unless `lora` agrees."""
    adapter = (weights / "adapter_config.json").is_file()
    if not adapter and not (weights / "config.json").is_file():
        raise ModelError(
            f"{weights} holds neither a model (config.json) nor an adapter (adapter_config.json)"
        )
    if adapter != (lora is not None):
        held, other = "an adapter", "full weights"
        if not adapter:
            held, other = "full weights", "an adapter (lora)"
        raise ModelError(f"{weights} holds {held}, but the player is configured for {other}")
    return adapter


def add_adapter(base: Any, lora: Lora, name: str = "default") -> Any:
    """`base`, a plain or a PEFT model, with a fresh adapter to be trained; a PEFT model."""
    from peft import LoraConfig, PeftModel, get_peft_model

    settings = LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.r,
        # PEFT divides it by r; a float serves.
        lora_alpha=lora.alpha,  # pyright: ignore[reportArgumentType]
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules,
    )
    try:
        if isinstance(base, PeftModel):
            base.add_adapter(name, settings)
            return base
        return get_peft_model(base, settings, name)
    except ValueError as error:
        raise ModelError(
            f"lora.target_modules = {lora.target_modules!r}: {first_line(error)}"
        ) from error


def load_adapter(base: Any, model: str, folder: Path, name: str, *, trainable: bool = False) -> Any:
    """A PEFT model with the adapter in `folder` under `name`; ModelError for another's."""
    from peft import PeftConfig, PeftModel, get_peft_model

    what = f"adapter {folder} does not fit model '{model}'"
    with unreadable(what):
        config = json.loads((folder / "adapter_config.json").read_text())
        check_adapter(folder, config, (module for module, _ in base.named_modules()))
        check_base(config, model, folder)
        if not isinstance(base, PeftModel):
            settings = PeftConfig.from_pretrained(str(folder))
            settings.inference_mode = not trainable
            settings.base_model_name_or_path = base.name_or_path
            base = get_peft_model(base, settings, name)
        result = base.load_adapter(str(folder), name, is_trainable=trainable)
    # PEFT also tells of other adapters' weights, where this name is a part of their names.
    own = re.compile(rf"\.lora_\w+\.{re.escape(name)}(\.|$)")
    if any(map(own.search, result.missing_keys)) or result.unexpected_keys:
        raise ModelError(f"{what}: its weights are for other modules")
    return base


def check_base(config: Mapping[str, Any], model: str, folder: Path) -> None:
    """Raises ModelError if an adapter names another base, copies and what is gone left out."""
    base = config.get("base_model_name_or_path") or ""
    is_path = base.startswith(("/", ".", "~")) or base.count("/") > 1
    moved = is_path and not Path(base).expanduser().is_dir()
    if base and not moved and not is_copy(resolve(base), resolve(model)):
        raise ModelError(
            f"adapter {folder} was made for '{base}', but the player's model is '{model}'"
        )


def is_copy(first: str, second: str) -> bool:
    """True for one model, or two folders whose configurations and weights have the same sizes.

    None of their files is opened: an adapter from elsewhere may name any folder of the user's.
    """
    if first == second or not (Path(first).is_dir() and Path(second).is_dir()):
        return first == second
    own, other = model_sizes(Path(first)), model_sizes(Path(second))
    return own == other != {}


def model_sizes(folder: Path) -> dict[str, int]:
    """The bytes of a model's configuration and weights, by name."""
    files = [*folder.glob("*model*"), *folder.glob("config.json")]
    return {file.name: file.lstat().st_size for file in files}


def check_adapter(folder: Path, config: Any, modules: Iterable[str]) -> None:
    """Raises ValueError for an adapter's folder, with this configuration, that is no LoRA's, or
    without bounds.

    `modules`: the names of the base's, which its expressions are tried on.
    """
    for path in folder.iterdir():
        if not path.is_file() and not path.is_dir():
            raise ValueError(f"{path.name} is no ordinary file")
    if not isinstance(config, Mapping):
        raise ValueError("adapter_config.json is no object")
    kind = config.get("peft_type")
    if kind != "LORA":
        raise ValueError(f"its kind is {kind!r}; only LoRA adapters can be read")
    repeated = sum(end - start for start, end in config.get("layer_replication") or ())
    if repeated > MOST_LAYERS:
        raise ValueError(f"layer_replication makes {repeated:,} layers")
    chosen = [config.get(name) for name in ("target_modules", "exclude_modules")]
    parts = [*(config.get("rank_pattern") or ()), *(config.get("alpha_pattern") or ())]
    patterns = [text for text in chosen if isinstance(text, str)]
    patterns += [rf"(?:.*\.)?(?:{part})$" for part in parts]
    names = list(modules)
    for pattern in patterns:
        with time_limit():
            for name in names:
                re.match(pattern, name)
                re.fullmatch(pattern, name)
