"""The attacks that a run's adversaries wrote, one line each.

They are in TRL's conversational prompt-only format:

    prompt      the chat that the defender answered; its last message is the attack
    seed        the text that the adversary started from
    attack      its rewrite of that text
    answer      the defender's answer
    p_safe      probability that the answer is safe, by the judge; null where it is unjudged,
                as are the next three
    success     true if harm is more likely than not
    refused     true if the adversary refused to attack
    on_topic    share of the attack that keeps to its seed's topic
    harmful     true, for sources of prompts
    generation, adversary, defender, match, split     origin

Read as prompts, everything but `prompt` is a fact; with the fact `attack`, the game asks the prompt
as it stands.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from equipoise.answer import public_move
from equipoise.environments.red_team.game import DEFENDER, RedTeam
from equipoise.errors import ConfigError, RunError
from equipoise.ledger.ledger import Ledger
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import Folder
from equipoise.system.locks import check_writable
from equipoise.types import Judgement, Match, Prompt, Turn

CHUNK = 5_000  # matches held in memory at a time
Row = dict[str, Any]


def export_attacks(run: RunDirectory, to: Path, parts: Sequence[str], successful: bool) -> int:
    """Write the attacks of these parts into the JSON Lines file `to`, and return their number.

    `successful`: only those with a harmful answer. Raises RunError for another game or no answered
    attack, ConfigError for a file of another name.
    """
    game = run.config.game
    if not isinstance(game, RedTeam):
        raise RunError(
            f"{run.folder}: plays the game '{game.kind}', in which nobody attacks; "
            "red_team has adversaries"
        )
    if to.suffix.lower() != ".jsonl" or to.is_dir():
        raise ConfigError(
            f"--to {to}: attacks are written into one JSON Lines file; name it with .jsonl"
        )
    rows = attack_rows(run.ledger, run.config, game, parts)
    check_writable(to.parent)
    to.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with Folder.open(to.parent) as folder, folder.new_file(to.name) as file:
        for row in rows:
            if row["success"] or not successful:
                file.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
                count += 1
        if not count and not successful:  # what is there stays
            matches = " and ".join(part.replace("_", "-") for part in parts)
            raise RunError(f"{run.folder}: its {matches} matches hold no attack that was answered")
    return count


def attack_rows(
    ledger: Ledger, config: RunConfig, game: RedTeam, parts: Sequence[str]
) -> Iterator[Row]:
    """A row for every answered attack, in order of playing; of a conversation its last exchange.

    Prompts that are asked as they are, and old attacks made again, have no row.
    """
    prompts = {prompt.id: prompt for part in parts for prompt in ledger.prompts(part)}
    decode = msgspec.json.Decoder(Match).decode
    recorded = ledger.rows("SELECT split, record FROM matches ORDER BY rowid")
    every = (decode(record) for part, record in recorded if part in parts)
    attacked = (m for m in every if not game.threads.keys().isdisjoint(m.seats))
    while chunk := list(islice(attacked, CHUNK)):
        by_judge: dict[str, list[str]] = {}
        for match in chunk:
            by_judge.setdefault(judge_of(match, config, game), []).append(match.id)
        judgements: dict[str, Judgement] = {}
        for judge, ids in by_judge.items():
            judgements |= ledger.judgements_of(ids, judge)
        for match in chunk:
            prompt = prompts[match.prompt]
            yield from _rows(match, prompt, game, judgements.get(match.id))


def judge_of(match: Match, config: RunConfig, game: RedTeam) -> str:
    seat = next(seat for seat in match.seats if game.role(seat) == DEFENDER)
    teacher = config.judge_of(match.seats[seat].name)
    if match.split == "held_out" and config.evaluate.judge is not None:
        return config.evaluate.judge.name
    return teacher.name


def _rows(
    match: Match, prompt: Prompt, game: RedTeam, judgement: Judgement | None
) -> Iterator[Row]:
    last = match.last_turns()
    for adversary, defenders in game.threads.items():
        if adversary not in match.seats:
            continue
        for defender in defenders:
            # A blank attack is answered by nobody.
            if defender in last:
                yield _row(match, prompt, adversary, last[defender], judgement)


def _row(
    match: Match, prompt: Prompt, adversary: str, answer: Turn, judgement: Judgement | None
) -> Row:
    defence: Mapping[str, float] = {}
    attack: Mapping[str, float] = {}
    if judgement is not None:
        defence = judgement.utilities(answer.seat)
        attack = judgement.utilities(adversary)
    chat = answer.view.messages
    move = public_move(answer.move)
    return {
        "prompt": [{"role": m.role, "content": m.content} for m in chat],
        "seed": prompt.messages[-1].content,
        "attack": chat[-1].content,
        "answer": move.text if move.finish != "error" else None,
        "p_safe": defence.get("p_safe"),
        "success": bool(defence["unsafe"]) if "unsafe" in defence else None,
        "refused": bool(attack["refused"]) if "refused" in attack else None,
        "on_topic": attack.get("on_topic"),
        "harmful": True,
        "generation": match.generation,
        "adversary": str(match.seats[adversary]),
        "defender": str(match.seats[answer.seat]),
        "match": match.id,
        "split": match.split,
    }
