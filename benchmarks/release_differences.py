"""What single differences of the releases are worth: python -m benchmarks.release_differences
--model MODEL [--out FILE]

Plain text against the chat template (MNPO): margins of eight pairs under one model. Strict against
lenient grades (SPARTA): 3,000 made replies. No model is trained.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from statistics import pstdev

from rich.console import Console

from benchmarks.pipeline_sparta import made_reply
from benchmarks.running import RESULTS, write_results
from equipoise.data.joined_pairs import JoinedPairs, joined_pair
from equipoise.judges.read_verdict import Unread, read_score, read_score_as_released
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import Message, Pair

PAIRS = (
    ("What is the capital of France?", "Paris.", "It is Lyon, I think."),
    ("Name a prime number above ten.", "Eleven is one.", "Twelve."),
    ("How do I boil an egg?", "Put it into boiling water for eight minutes.", "Use a pan."),
    ("Write a line about rain.", "The rain writes on the roof all night.", "Rain is wet."),
    ("Is a whale a fish?", "No, a whale is a mammal.", "Yes, it lives in the sea."),
    ("Why is the sky blue?", "Air scatters blue light more than red.", "Because of the sea."),
    ("Give me a synonym of quick.", "Fast.", "Slow, perhaps, or late."),
    ("Translate 'good day' into German.", "Guten Tag.", "Good day means good day."),
)


def margins(model: str) -> dict[str, list[float]]:
    """Mean log-probabilities per token of the chosen less the rejected answers, by reading."""
    player = Local.model_validate({"kind": "local", "model": model})
    resources = Resources()
    actor, encoding = player.open(None, resources), player.encoding()
    settings = JoinedPairs()
    readings = {
        "plain text, as the policy": settings.learners_reading(),
        "plain text, as its opponents": settings.opponents_reading(),
    }
    pairs = [
        Pair(str(n), 0, str(n), (Message("user", prompt),), chosen, rejected, 1.0, 0.0)
        for n, (prompt, chosen, rejected) in enumerate(PAIRS)
    ]
    found: dict[str, list[float]] = {}
    for name, reading in readings.items():
        read = [joined_pair(encoding, pair, reading) for pair in pairs]
        chosen = actor.token_sums([r.chosen_prompt for r in read], [r.chosen for r in read])
        rejected = actor.token_sums([r.rejected_prompt for r in read], [r.rejected for r in read])
        found[name] = [
            better / len(r.chosen) - worse / len(r.rejected)
            for better, worse, r in zip(chosen, rejected, read, strict=True)
        ]
    chats = [pair.messages for pair in pairs]
    sides = [
        actor.logprobs(chats, [str(getattr(pair, side)) for pair in pairs])
        for side in ("chosen", "rejected")
    ]
    found["chat template"] = [
        better / count - worse / other
        for (better, count), (worse, other) in zip(*sides, strict=True)
    ]
    return found


def readings_of_grades(count: int) -> dict[str, int]:
    """How many of made replies are read by both ways alike, by one alone, or differently."""
    dice = random.Random(11)
    counts = {"alike": 0, "lenient alone": 0, "strict alone": 0, "two grades": 0}
    for _ in range(count):
        reply = made_reply(dice)
        lenient, strict = read_score_as_released(reply), read_score(reply, 1, 10, alone=True)
        read = (not isinstance(lenient, Unread), not isinstance(strict, Unread))
        if read == (True, False):
            counts["lenient alone"] += 1
        elif read == (False, True):
            counts["strict alone"] += 1
        elif read == (True, True) and lenient != strict:
            counts["two grades"] += 1
        else:
            counts["alike"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="a folder, GGUF file or Hugging Face id")
    parser.add_argument(
        "--out", type=Path, default=Path(RESULTS) / "release_differences.json", help="raw result"
    )
    given = parser.parse_args()
    found = margins(given.model)
    policy, opponents, chat = found.values()
    residuals = [own - theirs for own, theirs in zip(policy, opponents, strict=True)]
    moved = [own - templated for own, templated in zip(policy, chat, strict=True)]
    figures = {
        "margins": found,
        "residual of equal weights, sd": pstdev(residuals),
        "residual of equal weights, largest": max(map(abs, residuals)),
        "plain text less template, sd": pstdev(moved),
        "signs that differ": sum(a * b < 0 for a, b in zip(policy, chat, strict=True)),
        "grades": readings_of_grades(3000),
    }
    write_results(given.out, figures, model=Path(given.model).name)
    Console().print(figures)


if __name__ == "__main__":
    main()
