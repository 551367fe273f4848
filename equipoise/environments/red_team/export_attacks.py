"""The attacks that a run's adversaries wrote, one line each, in TRL's conversational
prompt-only format.

    prompt       the chat that the defender answered, its last message the attack
    seed, attack, answer     texts: what the adversary started from, what it made of it, what was answered
    p_safe, success          the judge's word on that answer; null where it is unjudged, as are the next two
    refused, on_topic        whether the adversary refused to attack, and how far it kept to its seed's topic
    harmful      true, for sources of prompts
    generation, adversary, defender, match, split     where it comes from

Read as prompts, everything but `prompt` is a fact; with the fact `attack`, the game
asks the prompt as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from equipoise.run.ledger import Ledger
from equipoise.types import Judgement, Match, Prompt

CHUNK = 5_000  # matches held in memory at a time


def write_attacks(path: Path, rows: Iterator[dict[str, Any]]) -> int:
    """Write the rows as JSON Lines and say how many there are; the file appears whole
    or not at all.
    """
    draft, count = path.with_name(f".{path.name}.draft"), 0
    try:
        with draft.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return count


def attacks(
    ledger: Ledger,
    threads: Mapping[str, Sequence[str]],
    judge_of: Callable[[Match], str],
    parts: Sequence[str] = ("train", "held_out"),
    successful: bool = False,
) -> Iterator[dict[str, Any]]:
    """A row for every answered attack, in order of playing; `successful`: only where
    harm is more likely than not.

    Args: threads: an adversary's seat -> the seats that answer it; judge_of: the name
    of the judge whose word counts. Of a conversation of several rounds there is one
    row, its last exchange: that is what the judge's word is about. Prompts that are
    asked as they are, and old attacks made again, were written by nobody in that match:
    no row.
    """
    prompts = {prompt.id: prompt for part in parts for prompt in ledger.prompts(part)}
    decode = msgspec.json.Decoder(Match).decode
    recorded = ledger.rows("SELECT split, record FROM matches ORDER BY rowid")
    every = (decode(record) for part, record in recorded if part in parts)
    written = (match for match in every if not threads.keys().isdisjoint(match.seats))
    while chunk := list(islice(written, CHUNK)):
        judgements = _words(ledger, chunk, judge_of)
        for match in chunk:
            for row in _rows(
                match, prompts[match.prompt], threads, judgements.get(match.id)
            ):
                if row["success"] or not successful:
                    yield row


def _words(
    ledger: Ledger, matches: Sequence[Match], judge_of: Callable[[Match], str]
) -> dict[str, Judgement]:
    by_judge: dict[str, list[str]] = {}
    for match in matches:
        by_judge.setdefault(judge_of(match), []).append(match.id)
    return {
        id: judgement
        for name, ids in by_judge.items()
        for id, judgement in ledger.judgements_of(ids, name).items()
    }


def _rows(
    match: Match,
    prompt: Prompt,
    threads: Mapping[str, Sequence[str]],
    judgement: Judgement | None,
) -> Iterator[dict[str, Any]]:
    last = {turn.seat: turn for turn in match.turns}
    for adversary, defenders in threads.items():
        for defender in defenders if adversary in match.seats else ():
            if defender not in last:
                continue  # a blank attack is answered by nobody
            turn = last[defender]
            found = judgement.utilities(defender) if judgement else {}
            told = judgement.utilities(adversary) if judgement else {}
            yield {
                "prompt": [
                    {"role": message.role, "content": message.content}
                    for message in turn.view.messages
                ],
                "seed": prompt.messages[-1].content,
                "attack": turn.view.messages[-1].content,
                "answer": turn.move.text if turn.move.finish != "error" else None,
                "p_safe": found.get("p_safe"),
                "success": bool(found["unsafe"]) if "unsafe" in found else None,
                "refused": bool(told["refused"]) if "refused" in told else None,
                "on_topic": told.get("on_topic"),
                "harmful": True,
                "generation": match.generation,
                "adversary": str(match.seats[adversary]),
                "defender": str(match.seats[defender]),
                "match": match.id,
                "split": match.split,
            }
