"""Models from GGUF files: dequantised once by transformers, kept as ordinary model folders."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from equipoise.errors import ModelError, first_line
from equipoise.models.progress import quiet

SUFFIX = ".gguf"
TOKENIZER = "tokenizer.json"


def is_gguf(model: str) -> bool:
    """True if a model is named by a GGUF file, here or in a hub's repository."""
    return model.lower().endswith(SUFFIX)


def gguf_folder(model: str) -> Path:
    """The folder of the ordinary float32 model in a GGUF file, here or of a hub
    (`org/name/file.gguf`).

    It is made on first use, in the user's cache. Raises ModelError for a file that is missing,
    damaged, or of an unknown architecture.
    """
    path = _local(model)
    state = path.stat()
    text = f"{path}:{state.st_size}:{state.st_mtime_ns}"
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "equipoise" / "gguf" / f"{path.stem}-{digest}"
    if not (folder / TOKENIZER).is_file():
        _convert(model, path, folder)
    return folder


def _local(model: str) -> Path:
    path = Path(model).expanduser()
    if path.is_file():
        return path.resolve()
    parts = model.split("/")
    if path.is_absolute() or model.startswith((".", "~")) or len(parts) < 3:
        raise ModelError(f"model file '{model}' does not exist")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download("/".join(parts[:2]), "/".join(parts[2:])))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"there is no file '{model}' here, and the hub did not give one ({first_line(error)})"
        ) from error


def _convert(model: str, path: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        built, tokenizer = _read(model, path)
        with quiet():
            built.save_pretrained(draft)
            tokenizer.save_pretrained(draft)
        if not folder.is_dir():  # another process may have been first
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _read(model: str, path: Path) -> tuple[Any, Any]:
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"model '{model}' is a GGUF file, which needs the package gguf; "
            "pip install 'equipoise[gguf]'"
        ) from error
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with quiet(all_bars=True):
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            built: Any = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32
            )
    except Exception as error:
        raise ModelError(
            f"model '{model}' is no GGUF file that transformers reads: {first_line(error)}"
        ) from error
    # The dequantised model is an ordinary model, but is still marked as quantised.
    built.config.__dict__.pop("quantization_config", None)
    built.hf_quantizer, built.is_quantized = None, False
    return built, tokenizer
