"""Asks a player the items of a benchmark: answers and likelihoods, recorded as they come and asked
only where they are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import ConfigError
from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.records import Answer, Continuation, Item, Likelihood
from equipoise.matches.play import play
from equipoise.players.base import Actor, Scorer, TextScorer
from equipoise.runs.named_sets.answers import (
    planned_conversations,
    recorded_answers,
    recorded_matches,
)
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import Batch, chunks, unplayed_chunks
from equipoise.types import Match, Move, PlayerId


def answers(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> dict[str, list[Answer]]:
    """Item id -> the player's answers, `samples` of each seat that it takes.

    Raises ConfigError for a player that cannot give what the set asks for.
    """
    sampled = [item for item in items if not item.choices]
    scored = [item for item in items if item.choices]
    _ask(run, name, benchmark, sampled, player)
    seed = run.config.seed
    answers = recorded_answers(run.ledger, seed, benchmark, sampled, player)
    if scored:
        answers |= _likelihoods(run, name, scored, player)
    return answers


def matches(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> list[tuple[Item, Match]]:
    """Every item with the matches on it, `samples` of each, the player in all seats."""
    _ask(run, name, benchmark, items, player)
    seed = run.config.seed
    return recorded_matches(run.ledger, seed, benchmark, items, player)


def _ask(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> None:
    seed = run.config.seed
    conversations = planned_conversations(seed, benchmark, items, player)
    known = run.ledger.known("matches", [plan.id for plan in conversations])
    # What a killed measurement left are whole chunks, so that those that follow are composed as
    # they would have been.
    planned = [plan for plan in conversations if plan.id not in known]
    if not planned:
        return
    run.monitor.stage(f"{name}: {player} answers", len(planned), player.generation)

    actor = _actor(run, player, benchmark.temperature, benchmark.max_new_tokens)

    def act(batches: Sequence[Batch]) -> list[list[Move]]:
        return [actor.act(views, dice) for _, views, dice in batches]

    for chunk in unplayed_chunks(run, planned):
        run.ledger.add_matches(play(chunk, benchmark.game_played, None, act))


def _actor(
    run: OpenRun,
    player: PlayerId,
    temperature: float | None = None,
    max_new_tokens: int | None = None,
) -> Actor:
    """The open actor. Relative paths of players mean what they meant when the run was started,
    those of sets and their judges what they mean now.
    """
    with run.directory.started_in():
        return run.population.actor_with(player, temperature, max_new_tokens)


# -- the likelihood of choices


def _likelihoods(
    run: OpenRun, name: str, items: Sequence[Item], player: PlayerId
) -> dict[str, list[Answer]]:
    actor = _actor(run, player)
    if not isinstance(actor, Scorer):
        kind = run.config.players[player.name].kind
        raise ConfigError(
            f"{name}: players.{player.name}: a player of kind '{kind}' gives no "
            "likelihoods of given answers; measure a local model, or a set whose "
            "answers are generated"
        )
    rows = [text for item in items for text in item.continuations]
    run.monitor.stage(f"{name}: {player} scores", len(rows), player.generation)
    keys = [row.key for row in rows]
    known = run.ledger.logprobs(player, actor.encoding, keys)
    for chunk in chunks(rows, run.config.commit_every):
        missing = {row.key: row for row in chunk if row.key not in known}
        for plain in (False, True):
            part = {key: row for key, row in missing.items() if row.plain == plain}
            if part:
                texts = list(part)
                values = _logprobs(name, player, actor, list(part.values()), plain)
                run.ledger.add_logprobs(player, actor.encoding, texts, values)
                known |= dict(zip(texts, values, strict=True))
        run.monitor.advance(len(chunk))
    return {
        item.id: [
            Answer(
                item=item.id,
                likelihoods=tuple(Likelihood(*known[text.key]) for text in item.continuations),
            )
        ]
        for item in items
    }


def _logprobs(
    name: str, player: PlayerId, actor: Actor, rows: Sequence[Continuation], plain: bool
) -> list[tuple[float, int]]:
    """(log p of each text after what comes before it, its tokens)."""
    texts = [row.text for row in rows]
    if not plain:
        assert isinstance(actor, Scorer)
        chats = [row.messages for row in rows]
        return actor.logprobs(chats, texts, whole=True, cut=[not r.ended for r in rows])
    if not isinstance(actor, TextScorer):
        raise ConfigError(
            f"{name}: {player} cannot score plain texts without a chat template; "
            "measure a local model"
        )
    contexts = [row.messages[-1].content for row in rows]
    return actor.continuation_logprobs(contexts, texts)
