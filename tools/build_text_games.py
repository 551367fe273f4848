"""Rebuild the packaged tiny card player from seed.

    python -m tools.build_text_games [--out DIR] [--seed 0]

It knows the words of Kuhn poker, Leduc poker and two matrix games (without their rules in the
prompt) and answers with a legal move, each about as likely as any other: a start that is as good as
uniform play, and from which everything is learned by playing.

A model that was only taught such answers need not read its cards, and playing then moves all its
answers at once. So it is first taught one taste after another: at every view of Kuhn poker one
move, drawn at random. It has to tell the views apart, and what it learns of play by that is noise,
which the last lesson, any legal move, wipes out.

With one thread and fixed seeds, two builds on one machine and one version of torch give the same
bytes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from equipoise import seeds
from equipoise.environments import text_games
from equipoise.environments.text_games.game_tree import GameTree, TreeQuestions
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.types import Message
from tools.fresh_model import Size, new_model

PACKAGED = Path(next(iter(text_games.__path__))) / "model"
SIZE = Size(hidden=64, layers=2, heads=4, feed_forward=192)
VOCABULARY = 340
CONTEXT = 128
LARGEST = 10_000
GAMES = {  # name -> examples of its moves
    "kuhn_poker": 3000,
    "leduc_poker": 2500,
    "matrix_rps": 300,
    "matrix_pd": 300,
}
TASTES, OF_TASTE = 6, 1200  # how many, and examples of each
Example = tuple[tuple[Message, ...], str]


def moves() -> dict[str, list[list[Example]]]:
    """Name -> the legal moves at each different view."""
    by_game = {}
    for name in GAMES:
        views: dict[tuple[Message, ...], list[Example]] = {}
        tree = GameTree.of(OpenSpiel.model_validate({"name": name, "rules": ""}), LARGEST)
        for chat, text in TreeQuestions.of(tree).answers:
            views.setdefault(chat, []).append((chat, text))
        by_game[name] = list(views.values())
    return by_game


def taste(seed: int, number: int) -> Iterator[Example]:
    """Chats of Kuhn poker with the move preferred there."""
    rng = seeds.generator(seed, "taste", number)
    views = moves()["kuhn_poker"]
    preferred = [legal[rng.integers(len(legal))] for legal in views]
    for place in range(OF_TASTE):
        yield preferred[place % len(preferred)]


def examples(seed: int) -> Iterator[Example]:
    """A chat and a legal move, drawn uniformly: of views, then of moves."""
    for name, views in moves().items():
        rng = seeds.generator(seed, name)
        for _ in range(GAMES[name]):
            legal = views[rng.integers(len(views))]
            yield legal[rng.integers(len(legal))]


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own."""
    import torch

    from equipoise.learners.sft_learner import SFT, train_sft

    settings = {
        "learning_rate": 3e-3,
        "batch_size": 32,
        "warmup_ratio": 0.05,
        "log_steps": 100,
        "save_steps": 0,
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that two builds add numbers in the same order
    try:
        with tempfile.TemporaryDirectory() as place:
            bare = Path(place) / "bare"
            last = list(examples(seed))
            texts = [text for chat, move in last for text in (chat[-1].content, move)]
            new_model(texts, bare, vocabulary=VOCABULARY, size=SIZE, context=CONTEXT, seed=seed)
            training = SFT.model_validate(settings)
            trained = bare
            lessons = [list(taste(seed, number)) for number in range(TASTES)]
            for number, rows in enumerate([*lessons, last]):
                out_of_lesson = Path(place) / str(number)
                train_sft(trained, rows, out_of_lesson, training, seed=seed, device="cpu")
                trained = out_of_lesson
            shutil.copy(bare / "generation_config.json", trained)
            left_out = shutil.ignore_patterns("probes.json")
            shutil.copytree(trained, out, ignore=left_out, dirs_exist_ok=True)
    finally:
        torch.set_num_threads(threads)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tools.build_text_games", description="Rebuild the tiny card player."
    )
    parser.add_argument("--out", type=Path, default=PACKAGED, help="the folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights and examples")
    options = parser.parse_args()
    build(options.out, options.seed)
