"""Readers of what the releases of MNPO, SPARTA and GTAlign write while they run, so that nothing
has to be played again.

mnpo      output_SEED.json, all_outputs.json, and the files that reward models scored: the answers
          of a policy to a prompt are one match of as many seats
sparta    iteration_N_judge_pairs.json (or judged_pairs.json), with the model_info.json and
          iteration_N_rating_history.json of the same iterations, if they are given
gtalign   N.jsonl of `validation_data_dir` or `rollout_data_dir`: the answers of several steps or
          runs to one input are one match
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from equipoise.api.imported_records import Record, Scores
from equipoise.errors import DataError
from equipoise.prompts.prompt_files import read
from equipoise.types import Message, Move, Turn, View, Vote, user

ITERATION = re.compile(r"iteration_(\d+)")
Output = tuple[str, str, Mapping[str, Any]]
"""A player, the place of its line, and the line."""
UTILITIES = {"user_reward": "user", "llm_reward": "llm"}
"""What GTAlign calls the pay-offs of both sides -> what they are called here."""


@dataclass(frozen=True)
class Released:
    """Contents of a release's files: matches with their places, and the ratings that it kept."""

    records: list[tuple[str, Record]]
    ratings: dict[str, float] = field(default_factory=dict)


@contextmanager
def record_at(where: str, source: str) -> Iterator[None]:
    """Turn what an odd row raises into a DataError that names it."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DataError(f"{where}: is no record of {source}: {reason}") from error


# -- MNPO


def read_mnpo(files: Sequence[Path]) -> Released:
    """A match for each prompt: every answer that the files have to it, with their scores.

    Files of several folders are of several players, named like the folders.
    """
    folders = list(dict.fromkeys(file.resolve().parent for file in files))
    answers: dict[str, dict[str, str]] = {}  # prompt -> seat -> answer
    players: dict[str, dict[str, str]] = {}
    judged: dict[str, dict[str, Scores]] = {}
    places: dict[str, str] = {}
    scored_files = 0
    for file in files:
        player = file.resolve().parent.name if len(folders) > 1 else "policy"
        scored = False
        for where, row in read(file):
            with record_at(where, "mnpo"):
                prompt = _text(row["prompt"], "prompt")
                places.setdefault(prompt, where)
                given = _answers_of(row)
                seats = _seats(answers.setdefault(prompt, {}), given, player, players, prompt)
                scores = _scores_of(row, seats, given)
                if scores:
                    scored = True
                    judged.setdefault(prompt, {})[file.stem] = scores
        scored_files += scored
    records: list[tuple[str, Record]] = []
    for prompt, by_seat in answers.items():
        chat = (user(prompt),)
        turns = [Turn(seat, View(chat), Move(text)) for seat, text in by_seat.items()]
        scores_by: dict[str, Scores | str] = dict(judged.get(prompt, {}))
        if scored_files == 1 and scores_by:
            scores_by = {"reward": next(iter(scores_by.values()))}
        if not scores_by:
            scores_by = {"reward": "no score is recorded"}
        record = Record("answers", players[prompt], turns, scores_by)
        records.append((places[prompt], record))
    return Released(records)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text")
    return value


def _answers_of(row: Mapping[str, Any]) -> list[str]:
    """The answers of a row: one of `output_SEED.json`, or those that were put together."""
    if "all_generated_responses" in row:
        return [_text(text, "all_generated_responses") for text in row["all_generated_responses"]]
    return [_text(row["generated_text"], "generated_text")]


def _seats(
    known: dict[str, str],
    given: Sequence[str],
    player: str,
    players: dict[str, dict[str, str]],
    prompt: str,
) -> list[str]:
    """The seats of a row's answers to a prompt: its own where they came before, else new ones."""
    owners = players.setdefault(prompt, {})
    own = [seat for seat, name in owners.items() if name == player]
    if len(given) > 1 and [known[seat] for seat in own] == list(given):
        return own  # the same answers, scored by another
    seats = []
    for text in given:
        seat = str(len(known) + 1)
        known[seat], owners[seat] = text, player
        seats.append(seat)
    return seats


def _scores_of(row: Mapping[str, Any], seats: Sequence[str], given: Sequence[str]) -> Scores:
    """The scores of a row's answers; of a preference model's, 1 of the best, 0 of the worst."""
    if "all_rm_scores" in row:
        values = list(row["all_rm_scores"])
        if len(values) != len(seats):
            raise ValueError(f"{len(values)} scores of {len(seats)} answers in all_rm_scores")
        numbers = {seat: float(value) for seat, value in zip(seats, values, strict=True)}
        return {seat: {"score": value} for seat, value in numbers.items() if isfinite(value)}
    scores: Scores = {}
    for name, value in (("chosen", 1.0), ("rejected", 0.0)):
        if name in row and len(given) > 1:
            text = row[name][-1]["content"]
            if text not in given:
                raise ValueError(f"{name} is none of all_generated_responses")
            scores[seats[given.index(text)]] = {"score": value}
    return scores


# -- SPARTA


def read_sparta(files: Sequence[Path]) -> Released:
    """The duels of the iterations, each with its judges' votes.

    The score of an answer is the mean of its readable grades, weighed by the judges' reputations
    after that iteration where model_info.json or a rating history has them. Where a reply could not
    be read the release wrote 5 for both answers; here that vote has no value. Models of several
    iterations are players of their own, `name@iteration`.
    """
    duels: dict[int, list[tuple[str, Any]]] = {}
    reputations: dict[int, dict[str, float]] = {}
    for file in files:
        iteration = _iteration(file)
        content = _json(file)
        if isinstance(content, list):
            rows = [(f"{file}: row {number}", row) for number, row in enumerate(content, 1)]
            duels.setdefault(iteration, []).extend(rows)
            continue
        with record_at(str(file), "sparta"):
            held = content["final_ratings"] if "history" in content else content
            ratings = {name: float(info["score"]) for name, info in (held or {}).items()}
            reputations[iteration] = ratings
    if not duels:
        raise DataError(
            "none of the files has duels; name iteration_N_judge_pairs.json or judged_pairs.json, "
            "too"
        )
    several = len(duels) > 1
    records: list[tuple[str, Record]] = []
    for iteration in sorted(duels):
        name = (lambda model, t=iteration: f"{model}@{t}") if several else str
        for where, row in duels[iteration]:
            with record_at(where, "sparta"):
                record = _duel(row, name, reputations.get(iteration, {}))
            records.append((where, record))
    last = max(duels)
    named = (lambda model: f"{model}@{last}") if several else str
    ratings = {named(model): value for model, value in reputations.get(last, {}).items()}
    return Released(records, ratings)


def _iteration(file: Path) -> int:
    """The iteration that a file is of, by its name or else its folders'; 0 where none says it."""
    for part in reversed(file.resolve().parts):
        if number := ITERATION.search(part):
            return int(number[1])
    return 0


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: is no JSON file that can be read: {error}") from error


def _duel(
    row: Mapping[str, Any], name: Callable[[str], str], reputations: Mapping[str, float]
) -> Record:
    question = _text(row["instruction"], "instruction")
    models, responses = list(row["models"]), list(row["responses"])
    if len(models) != 2 or len(responses) != 2:
        raise ValueError("a duel has two models and two responses")
    chat = (user(question),)
    turns = []
    for seat, text in zip("12", responses, strict=True):
        turns.append(Turn(seat, View(chat), Move(_text(text, "responses"))))
    votes: list[Vote] = []
    grades: dict[str, list[tuple[float, float]]] = {"1": [], "2": []}
    for judge, grading in row["judges"].items():
        given, reason = _grades(grading)
        for seat, value in zip("12", given or (None, None), strict=True):
            votes.append(Vote(name(judge), seat, value, reason=reason))
            if value is not None:
                grades[seat].append((value, reputations.get(judge, 1.0)))
    scores: Scores = {}
    for seat, weighed in grades.items():
        weight = sum(share for _, share in weighed)
        if weight > 0:
            mean = sum(value * share for value, share in weighed) / weight
            scores[seat] = {"score": mean}
    players = {seat: name(_text(model, "models")) for seat, model in zip("12", models, strict=True)}
    judged: dict[str, Scores | str] = {"sparta": scores or "no judge's reply could be read"}
    return Record("answers", players, turns, judged, votes={"sparta": votes})


def _grades(grading: Mapping[str, Any]) -> tuple[tuple[float, float] | None, str]:
    """(a judge's mean grades of both answers, None where it gave none; why it gave none)."""
    read_rounds: list[tuple[float, float]] = []
    reason = ""
    for each in grading.get("rounds", ()):
        replies = each.get("responses") or {}
        errors = [replies.get("error_0"), replies.get("error_1")]
        unread = [str(error) for error in errors if error is not None]
        missing = "response_0" in replies and None in (
            replies["response_0"],
            replies.get("response_1"),
        )
        if unread or missing or replies.get("default_scores_used"):
            reason = unread[0] if unread else "the judge gave no reply"
            continue
        first, second = each["scores"]
        read_rounds.append((float(first), float(second)))
    if not grading.get("rounds") and "ave_scores" in grading:
        first, second = grading["ave_scores"]
        return (float(first), float(second)), ""
    if not read_rounds:
        return None, reason or "no round is recorded"
    return (fmean(a for a, _ in read_rounds), fmean(b for _, b in read_rounds)), ""


# -- GTAlign


def read_gtalign(files: Sequence[Path]) -> Released:
    """A match for each input: the output of every step, and of every folder, with its rewards.

    Players are named by their step, and by their folder where there are several. The i-th output
    to an input that stands several times in a file meets the i-th of the others.
    """
    several = len({file.resolve().parent for file in files}) > 1
    by_input: dict[str, dict[str, list[tuple[str, Mapping[str, Any]]]]] = {}
    for file in files:
        for where, row in read(file):
            with record_at(where, "gtalign"):
                step = row.get("step", file.stem)
                player = f"step_{step}"
                if several:
                    player = f"{file.resolve().parent.name}@{step}"
                outputs = by_input.setdefault(_text(row["input"], "input"), {})
                outputs.setdefault(player, []).append((where, row))
    records: list[tuple[str, Record]] = []
    for question, by_player in by_input.items():
        for together in zip_longest(*by_player.values()):
            present: list[Output] = []
            for player, each in zip(by_player, together, strict=True):
                if each is not None:
                    where, row = each
                    present.append((player, where, row))
            where = present[0][1]
            with record_at(where, "gtalign"):
                record = _outputs(question, present)
            records.append((where, record))
    return Released(records)


def _outputs(question: str, present: Sequence[Output]) -> Record:
    chat: tuple[Message, ...] = (user(question),)
    turns: list[Turn] = []
    players: dict[str, str] = {}
    scores: Scores = {}
    for seat, (player, _, row) in enumerate(present, 1):
        players[str(seat)] = player
        turns.append(Turn(str(seat), View(chat), Move(_text(row["output"], "output"))))
        numbers = {
            UTILITIES.get(name, name): float(value)
            for name, value in row.items()
            if isinstance(value, int | float) and name != "step"
        }
        _ = numbers["score"]
        scores[str(seat)] = {name: value for name, value in numbers.items() if isfinite(value)}
    first = present[0][2]
    source = first.get("source") or first.get("data_source") or "gtalign"
    facts = {} if first.get("gts") is None else {"ground_truth": first["gts"]}
    judged: dict[str, Scores | str] = {"gtalign": scores}
    return Record("answers", players, turns, judged, facts=facts, source=str(source))


RELEASES: Mapping[str, Callable[[Sequence[Path]], Released]] = {
    "mnpo": read_mnpo,
    "sparta": read_sparta,
    "gtalign": read_gtalign,
}
"""The release that wrote the files -> their reader."""
