"""Starts that are taught before a game: rows, fine-tuning, and the gates that a start must pass.

A small pretrained model has no signal in most games: it never refuses, never grades, never writes a
game's blocks. A warm start makes rows (by rule, or around the model's own sampled answers; never
rows that are measured later), teaches an adapter for each player on one base, and measures what a
game needs of them. It is kept under a hash of all that went in, so that arms and seeds share it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field

from equipoise import seeds
from equipoise.api.fine_tune import fine_tune
from equipoise.component import Component
from equipoise.errors import DataError, NoSignal
from equipoise.learners.sft_learner import SFT, Example
from equipoise.models.adapters import Lora, resolve
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.players.local_actor import LocalActor
from equipoise.players.population import Population
from equipoise.runs.monitor import Monitor, Silent
from equipoise.system.files import faults
from equipoise.system.folder import Folder
from equipoise.types import Message, Move, View

GATES = "gates.json"
Chat = Sequence[Message]
ChatTokens = Annotated[int, Field(ge=2, description="tokens of a chat and its answer")]
Training = Annotated[SFT, Field(description="the fine-tuning")]


def fine_tuning(learning_rate: float, batch_size: int, epochs: int) -> SFT:
    """The fine-tuning that a start has unless its user names another."""
    settings = {"learning_rate": learning_rate, "batch_size": batch_size, "epochs": epochs}
    return SFT.model_validate(settings)


@dataclass(frozen=True)
class Gate:
    """A number that a start must have: from `least` to `most`, over `count` answers or rows."""

    title: str
    value: float
    least: float
    most: float
    count: int

    @property
    def is_met(self) -> bool:
        """True if the number lies within its bounds."""
        return self.least <= self.value <= self.most

    def text(self) -> str:
        """The gate as a line."""
        if self.most >= 1:
            bounds = f"at least {self.least:.2f}"
        elif self.least <= 0:
            bounds = f"at most {self.most:.2f}"
        else:
            bounds = f"{self.least:.2f} to {self.most:.2f}"
        state = "ok" if self.is_met else "NOT MET"
        return f"{self.title}: {self.value:.2f} of {self.count:,} ({bounds})  {state}"


def ended_gate(moves: Sequence[Move], least: float = 0.85) -> Gate:
    """The share of answers that end by themselves."""
    ended = fmean(move.finish == "stop" for move in moves)
    return Gate("answers that end", ended, least, 1.0, len(moves))


def need_rows(rows: int, least: int, answers: int, need: str) -> None:
    """Raises NoSignal where too few of the model's own answers have what their rows need."""
    if rows < least:
        raise NoSignal(
            f"only {rows} rows from {answers} answers of the model: too few of them {need}"
        )


class StartModel:
    """A base model with or without an adapter, as warm starts sample and read it."""

    def __init__(self, model: str, start: WarmStart, resources: Resources) -> None:
        self.model = model
        self.start = start
        self.resources = resources

    def answers(
        self,
        chats: Sequence[Chat],
        *,
        adapter: Path | None = None,
        temperature: float = 0.7,
        max_new_tokens: int = 64,
        seed: int = 0,
    ) -> list[Move]:
        """An answer to each chat."""
        settings = {"temperature": temperature, "top_p": 0.95, "max_new_tokens": max_new_tokens}
        views, dice = self.posed(chats, seed)
        with self.opened(adapter, settings) as actor:
            return actor.act(views, dice)

    def continued(
        self,
        chats: Sequence[Chat],
        texts: Sequence[str],
        *,
        adapter: Path | None = None,
        temperature: float = 0.7,
        max_new_tokens: int = 64,
        seed: int = 0,
    ) -> list[str]:
        """Answers that begin with these texts, and what the model writes after them."""
        settings = {"temperature": temperature, "top_p": 0.95, "max_new_tokens": max_new_tokens}
        views, dice = self.posed(chats, seed)
        with self.opened(adapter, settings) as actor:
            return actor.continued(views, texts, dice)

    def posed(self, chats: Sequence[Chat], seed: int) -> tuple[list[View], list[int]]:
        """(the chats as an actor sees them, a seed for each)."""
        start = self.start.seed
        dice = [seeds.child(start, "warm start", seed, row) for row in range(len(chats))]
        return [View(tuple(chat)) for chat in chats], dice

    @contextmanager
    def opened(self, adapter: Path | None, settings: Mapping[str, Any]):
        """The model as an actor, in the precision in which a run's players carry it."""
        given = {
            "model": self.model,
            "max_length": self.start.max_length,
            "batch_size": self.start.batch_size,
            "precision": "bf16",
            **settings,
        }
        if adapter is not None:
            given |= {"adapter": str(adapter), "lora": self.start.lora}
        population = Population({}, Path(), resources=self.resources)
        actor = population.actor(Local.model_validate(given))
        assert isinstance(actor, LocalActor)
        try:
            yield actor
        finally:
            actor.close()


class WarmStart(Component):
    """Rows to teach the players of a game before it begins, and the gates that they must pass."""

    KINDS: ClassVar = {}

    seed: int = Field(0, ge=0, description="seed of the rows, of sampling and of training")
    lora: Lora = Field(
        default_factory=lambda: Lora.model_validate({}), description="the adapters' shape"
    )
    max_length: ChatTokens = 384
    batch_size: int = Field(64, ge=1, description="answers that are sampled at once")
    training: Training = fine_tuning(5e-4, 16, 1)

    @abstractmethod
    def rows(self, model: StartModel) -> Mapping[str, Sequence[Example]]:
        """Player -> the chats and answers that its adapter learns; `model` samples its own."""

    @abstractmethod
    def gates(self, model: StartModel, adapters: Mapping[str, Path]) -> list[Gate]:
        """The numbers that the taught adapters must have."""

    def files(self) -> Sequence[Path]:
        """The files that its rows are made of, beside its own module."""
        return ()

    def digest(self, model: str) -> str:
        """A hash of all that goes in: settings, module, files and the model's weights.

        Raises ModelError where the model is not there, DataError where a file is not.
        """
        mixed = hashlib.blake2b(digest_size=6)
        mixed.update(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode())
        place = Path(resolve(model, weights=False))
        weights: list[Path] = []
        if place.is_dir():
            weights = sorted(path for path in place.iterdir() if path.is_file())
        else:
            mixed.update(model.encode())
        for path in (Path(inspect.getfile(type(self))), *self.files(), *weights):
            mixed.update(path.name.encode())
            try:
                with path.open("rb") as file:
                    mixed.update(hashlib.file_digest(file, "blake2b").digest())
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        return mixed.hexdigest()


@dataclass(frozen=True)
class TaughtStart:
    """A taught start: its folder, an adapter for each player, its gates, and the time it took."""

    folder: Path
    adapters: dict[str, Path]
    gates: list[Gate]
    seconds: float
    examples: dict[str, int] = field(default_factory=dict)
    was_there: bool = False


def warm_start(
    start: WarmStart,
    model: str,
    place: Path,
    *,
    overwrite: bool = False,
    monitor: Monitor | None = None,
) -> TaughtStart:
    """Teach a start into a folder of `place`, named by a hash of what went in, or read it there.

    Args: model: hub id, folder, GGUF file or packaged name; overwrite: teach it anew. The folder
    appears whole or not at all, also where gates are not met; `check_gates` stops there.
    """
    name = f"{start.kind}-{start.digest(model)}"
    with Folder.open(place, make=True) as starts:
        if starts.has(name) and not overwrite:
            with starts.inner(name) as files:
                if files.has(GATES):
                    return read_start(files)
        starts.write_folder(name, partial(teach, start, model, monitor or Silent()))
        with starts.inner(name) as files:
            return replace(read_start(files), was_there=False)


def teach(start: WarmStart, model: str, monitor: Monitor, draft: Path) -> None:
    """Teach a start's adapters into an empty folder, and write there which gates they meet."""
    began = time.monotonic()
    resources = Resources()
    student = StartModel(model, start, resources)
    monitor.stage("rows")
    rows = start.rows(student)
    for name, of_player in rows.items():
        fine_tune(
            model,
            of_player,
            draft / name,
            start.training,
            seed=start.seed,
            max_length=start.max_length,
            lora=start.lora,
            resources=resources,
            monitor=monitor,
        )
    monitor.stage("gates")
    gates = start.gates(student, {name: draft / name for name in rows})
    taught = {
        "gates": [asdict(gate) for gate in gates],
        "examples": {name: len(of_player) for name, of_player in rows.items()},
        "seconds": round(time.monotonic() - began, 1),
        "start": start.model_dump(mode="json"),
    }
    text = json.dumps(taught, indent=2, ensure_ascii=False)
    (draft / GATES).write_text(f"{text}\n", encoding="utf-8")


def read_start(files: Folder) -> TaughtStart:
    """The start that was taught into a folder, which may be a stranger's.

    Raises DataError where it is none or is damaged, RunError where it holds other than plain files
    and folders.
    """
    folder = files.path
    files.check(of="a start")
    try:
        record = msgspec.convert(json.loads(files.read(GATES)), _Record)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder / GATES}: is no record of a warm start ({error})") from error
    for name in record.examples:
        if not files.is_folder(name):
            raise DataError(f"{folder}: has no adapter {name}; --overwrite teaches it anew")
    if messages := faults(folder):
        raise DataError(f"{messages[0]}; --overwrite teaches it anew")
    adapters = {name: folder / name for name in record.examples}
    return TaughtStart(
        folder, adapters, record.gates, record.seconds, record.examples, was_there=True
    )


class _Record(msgspec.Struct):
    """What a start's GATES holds, beside its settings."""

    gates: list[Gate]
    examples: dict[Annotated[str, msgspec.Meta(pattern=r"^[\w-]+\Z")], int]
    seconds: float


def check_gates(taught: TaughtStart) -> None:
    """Raises NoSignal that names every gate which is not met."""
    missed = [gate.text() for gate in taught.gates if not gate.is_met]
    if missed:
        raise NoSignal(
            f"{taught.folder}: the start has no signal for its game; nothing is played: "
            f"{'; '.join(missed)}. Change its settings, such as -s count=… or -s training.epochs=…"
        )
