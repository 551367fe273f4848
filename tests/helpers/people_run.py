"""A run directory with recorded answers of scripted players, for people to vote on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from recorded_run import add_judged, recorded_run, user_prompt

from equipoise.runs.directory import RunDirectory
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, record_id

PLAYERS = ("poet", "clerk", "sage")
ANSWERS = {
    "poet": "O number {i}, thou art a rose among numbers.",
    "clerk": "It is {i}.",
    "sage": "Whether it is {i}, ask yourself.",
}


def write(
    folder: Path, prompts: int = 4, answers: Mapping[str, str] = ANSWERS, split: str = "held_out"
) -> Path:
    """Write the run: each player has answered each prompt, `shorter` judged them."""
    settings = {
        "name": "people",
        "generations": 0,
        "players": {name: {"kind": "scripted", "text": text} for name, text in answers.items()},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": {"kind": "answers", "samples": 1},
        "judge": "shorter",
        "evaluate": "sets",
    }
    with recorded_run(folder, settings) as run:
        for i in range(prompts):
            add_answers(run, i, answers, split)
    return folder


def add_answers(
    run: RunDirectory, i: int, answers: Mapping[str, str], split: str = "held_out"
) -> None:
    """Record prompt number i, everybody's answers to it, and their judgements."""
    prompt = user_prompt(f"p{i}", f"What is number {i}?")
    run.ledger.add_prompts([prompt], split, 0)
    for name, text in answers.items():
        match = match_of(prompt, {"1": (name, text.format(i=i))}, split)
        add_judged(run, match, "shorter", {"1": {"score": -float(len(text))}})


def match_of(prompt: Prompt, seats: Mapping[str, tuple[str, str]], split: str) -> Match:
    """A match on the prompt: seat -> the player's name and its answer."""
    turns: Sequence[Turn] = [
        Turn(seat, View(prompt.messages), Move(text)) for seat, (_, text) in seats.items()
    ]
    players = {seat: PlayerId(name) for seat, (name, _) in seats.items()}
    identity = record_id(prompt.id, split, *players.values())
    return Match(identity, 0, split, "answers", prompt.id, players, 0, tuple(turns))
