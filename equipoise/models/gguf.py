"""Models from GGUF files, kept as ordinary model folders: configuration and tokenizer as the header
has them, weights, dequantised once by transformers, when they are first loaded. A file of 32 or 16
bits a weight keeps its precision, a quantised one becomes bfloat16.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.errors import ModelError, first_line
from equipoise.models.progress import quiet
from equipoise.system.files import user_cache, write_checksums

SUFFIX = ".gguf"
TOKENIZER = "tokenizer.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")  # of one file, and of several


def is_gguf(model: str) -> bool:
    """True if a model is named by a GGUF file, here or in a hub's repository."""
    return model.lower().endswith(SUFFIX)


def gguf_folder(model: str, weights: bool = True) -> Path:
    """The folder of the ordinary model in a GGUF file, here or of a hub (`org/name/file.gguf`).

    It is made on first use, in the user's cache, without `weights` from the file's header alone,
    with them with the checksums of its files.
    Raises ModelError for a file that is missing, damaged, or of an unknown architecture.
    """
    path = _local(model)
    state = path.stat()
    text = f"{path}:{state.st_size}:{state.st_mtime_ns}"
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    folder = user_cache() / "gguf" / f"{path.stem}-{digest}"
    if not (folder / TOKENIZER).is_file():
        with _draft(folder) as draft:
            _describe(model, path, draft)
            if not folder.is_dir():  # another process may have been first
                draft.rename(folder)
    if weights and not any((folder / name).is_file() for name in WEIGHTS):
        with _draft(folder) as draft:
            _convert(model, path, folder, draft)
            files = [file for file in draft.iterdir() if not (folder / file.name).exists()]
            for file in sorted(files, key=lambda file: file.name in WEIGHTS):
                file.replace(folder / file.name)
            write_checksums(folder)
    return folder


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that is gone afterwards, if it is still there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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


def _describe(model: str, path: Path, draft: Path) -> None:
    """Write configuration and tokenizer, as the header has them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    with _reading(model):
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        with torch.device("meta"):
            built: Any = AutoModelForCausalLM.from_config(config, dtype=_dtype(path))
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        built.config.architectures = [type(built).__name__]
        built.config.save_pretrained(draft)
        if built.generation_config is not None:
            built.generation_config.save_pretrained(draft)
        tokenizer.save_pretrained(draft)


def _convert(model: str, path: Path, folder: Path, draft: Path) -> None:
    """Write the dequantised weights, in the precision that the configuration in `folder` says."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with _reading(model):
        built: Any = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=AutoConfig.from_pretrained(folder).dtype
        )
    # The dequantised model is an ordinary model, but is still marked as quantised.
    built.config.__dict__.pop("quantization_config", None)
    built.hf_quantizer, built.is_quantized = None, False
    with quiet():
        built.save_pretrained(draft)


def _dtype(path: Path) -> Any:
    """The torch dtype that holds what most of the file's weights say."""
    import torch
    from gguf import GGUFReader

    most = max(GGUFReader(path).tensors, key=lambda tensor: tensor.n_elements).tensor_type.name
    return {"F32": torch.float32, "F16": torch.float16}.get(most, torch.bfloat16)


@contextmanager
def _reading(model: str) -> Iterator[None]:
    """Silence what reads the file. Raises ModelError for what fails, and without the package."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"model '{model}' is a GGUF file, which needs the package gguf; "
            "pip install 'equipoise[gguf]'"
        ) from error
    try:
        with quiet(all_bars=True):
            yield
    except Exception as error:
        raise ModelError(
            f"model '{model}' is no GGUF file that transformers reads: {first_line(error)}"
        ) from error
