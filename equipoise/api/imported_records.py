"""Readers of matches that other programs recorded: a row or several become a `Record`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from equipoise.ledger.votes_and_matches import BOTH_BAD
from equipoise.prompts.prompt_files import read
from equipoise.types import Message, Move, Turn, View, Vote

MOST_TURNS = 1_000  # of one match
Scores = dict[str, dict[str, float]]
BAD = ("tie (bothbad)", "both_bad")
WINS = {"model_a": (1.0, 0.0), "model_b": (0.0, 1.0), **dict.fromkeys(("tie", *BAD), (0.5, 0.5))}
"""What LMArena's voters may say -> what both models get."""
Rows = Iterator[tuple[str, Any]]
"""Rows of files, each with its place for messages."""


class Record(NamedTuple):
    """A match as another program recorded it.

    `players`: seat -> its player's name there; `judged`: judge -> its scores of the seats, or the
    reason why there are none; `dealt`: what tells its prompt from others that say the same, or say
    nothing; `votes`: judge -> the votes behind its scores, by players' names there; `facts` and
    `source` of its prompt.
    """

    game: str
    players: Mapping[str, str]
    turns: Sequence[Turn]
    judged: Mapping[str, Scores | str]
    dealt: str = ""
    votes: Mapping[str, Sequence[Vote]] = {}
    facts: Mapping[str, Any] = {}
    source: str = ""


def _message(given: Mapping[str, Any]) -> Message:
    """A message; newer files give its content in parts, images among them."""
    content = given.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text") or "" for part in content)
    return Message(str(given["role"]), content)


def _scores(values: Mapping[str, float], reason: str) -> Scores | str:
    """Each seat's score, or the reason why there is none."""
    return {seat: {"score": float(value)} for seat, value in values.items()} or reason


# -- sources


def read_lmarena(rows: Iterable[Any]) -> Iterator[Record]:
    """Two models' answers and a person's vote a row."""
    for number, row in enumerate(rows):
        turns = []
        for seat, side in (("1", "a"), ("2", "b")):
            chat = tuple(map(_message, row.get(f"conversation_{side}") or ()))
            turns += [
                Turn(seat, View(chat[:i]), Move(message.content))
                for i, message in enumerate(chat)
                if message.role == "assistant"
            ]
        winner = row.get("winner")
        if winner not in (None, *WINS):
            raise ValueError(f"winner '{winner}' must be one of {', '.join(WINS)}")
        bad = {BOTH_BAD: 1.0} if winner in BAD else {}
        won = zip("12", WINS.get(winner or "", ()), strict=False)
        scores: Scores = {seat: {"score": value, **bad} for seat, value in won}
        players = {"1": row["model_a"], "2": row["model_b"]}
        judged: dict[str, Scores | str] = {"lmarena": scores or "no vote is recorded"}
        yield Record("arena", players, turns, judged, "" if turns else str(number))


def read_textarena(rows: Iterable[Any]) -> Iterator[Record]:
    """A game a row: who played, what `env.close()` returned, and each step where it was kept."""
    for number, row in enumerate(rows):
        turns = [
            Turn(
                f"player {step['player_id']}",
                View((Message("user", str(step["observation"])),)),
                Move(str(step["action"])),
            )
            for step in row.get("steps") or ()
        ]
        seats = {f"player {seat}": name for seat, name in row["agents"].items()}
        rewards = {f"player {seat}": value for seat, value in (row["rewards"] or {}).items()}
        scores = _scores(rewards, "no rewards are recorded")
        yield Record(row["env_id"], seats, turns, {"textarena": scores}, str(number))


def read_verifiers(rows: Iterable[Any]) -> Iterator[Record]:
    """Episodes of several agents as they are; of one agent, the i-th of every model on a task."""
    alone: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for row in rows:
        game, traces = row["env"]["id"], row["traces"]
        names = [trace["agent"]["name"] for trace in traces]
        if len(set(names)) < len(names):
            raise ValueError("an agent has several traces; one a seat is read")
        if len(traces) > 1:
            seated = dict(zip(names, traces, strict=True))
            yield _episode(game, seated, _fault_of(row), row["task"]["hash"])
        for trace in traces if len(traces) == 1 else ():
            of_task = alone.setdefault((game, row["task"]["hash"]), {})
            model = trace["agent"]["config"]["model"]
            of_task.setdefault(model, []).append({**trace, "fault": _fault_of(row)})
    for (game, task), by_model in alone.items():
        for each in zip_longest(*by_model.values()):
            seated = {str(i): trace for i, trace in enumerate(filter(None, each), 1)}
            faults = (trace["fault"] for trace in seated.values())
            yield _episode(game, seated, next(filter(None, faults), ""), task)


def _fault_of(row: Mapping[str, Any]) -> str:
    """Why an episode failed, "" where it did not."""
    rows = (row, *row["traces"])
    errors = [
        f"{each['type']}: {each['message']}" for traced in rows for each in traced.get("errors", ())
    ]
    return "" if row["ok"] else ": ".join(["the episode failed", *errors[:1]])


def _episode(game: str, traces: Mapping[str, Any], fault: str, task: str) -> Record:
    """One match of the traces, by seat; the reward is the weighted sum, as in verifiers."""
    turns, scores = [], {}
    for seat, trace in traces.items():
        nodes = trace["nodes"]
        for node in nodes:
            chat: list[Message] = []
            parent = node.get("parent")
            while parent is not None and len(chat) < MOST_TURNS:
                chat.append(_message(nodes[parent]["message"]))
                parent = nodes[parent].get("parent")
            if node.get("sampled"):
                move = Move(_message(node["message"]).content)
                turns.append(Turn(seat, View(tuple(chat[::-1])), move))
        rewards = [each for each in trace["rewards"].values() if each is not None]
        if rewards and not fault:
            scores[seat] = sum(float(each["score"]) * each.get("weight", 1.0) for each in rewards)
    players = {seat: trace["agent"]["config"]["model"] for seat, trace in traces.items()}
    judged = {"verifiers": _scores(scores, fault or "no reward is recorded")}
    return Record(game, players, turns, judged, task)


def exported_rows(folder: Path) -> Rows:
    """One mapping a match of an exported run: its rows of matches, turns, scores and prompts."""
    tables: dict[str, dict[str, list[Any]]] = {}
    for table, key in {"prompts": "id", "turns": "match", "scores": "match"}.items():
        rows = tables[table] = {}
        for _, row in read(folder / f"{table}.parquet"):
            rows.setdefault(row.get(key), []).append(row)
    for where, row in read(folder / "matches.parquet"):
        own = {table: tables[table].get(row.get("id"), []) for table in ("turns", "scores")}
        of_match = tables["prompts"].get(row.get("prompt"), [{}])[0]
        yield where, {**row, **own, "asked": of_match.get("prompt") or ()}


def _equipoise(rows: Iterable[Any]) -> Iterator[Record]:
    """Matches of another run by `equipoise export`; each generation is a player of its own."""
    for row in rows:
        view = View(tuple(map(_message, row["asked"])))
        turns = [
            Turn(each["seat"], view, Move(each["text"], each["finish"], error=each["error"]))
            for each in row["turns"]
        ]
        judged: dict[str, Scores | str] = {}
        for each in row["scores"]:
            if each["value"] is None:
                judged[each["judge"]] = each["reason"] or "no reason is recorded"
            elif not isinstance(scores := judged.setdefault(each["judge"], {}), str):
                scores.setdefault(each["seat"], {})[each["utility"]] = each["value"]
        seats = msgspec.json.decode(row["seats"], type=dict[str, str])
        yield Record(row["game"], seats, turns, judged, str(row.get("prompt")))


READERS: Mapping[str, Callable[[Iterable[Any]], Iterator[Record]]] = {
    "lmarena": read_lmarena,
    "textarena": read_textarena,
    "verifiers": read_verifiers,
    "equipoise": _equipoise,
}
"""The program that wrote the records -> their reader."""
