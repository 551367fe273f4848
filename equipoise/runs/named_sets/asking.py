"""Asks a player the items of a benchmark: answers and likelihoods, recorded as they come and asked
only where they are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import ConfigError
from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.records import Answer, Continuation, Item, Likelihood
from equipoise.players.base import Actor, Scorer, TextScorer
from equipoise.players.population import Population
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.answers import (
    planned_conversations,
    recorded_answers,
    recorded_matches,
)
from equipoise.runs.recorder import Recorder, chunks
from equipoise.types import Match, Move, PlayerId, View


class BenchmarkAsking:
    """Asks the players of one run."""

    def __init__(
        self, run: RunDirectory, population: Population, recorder: Recorder, monitor: Monitor
    ) -> None:
        self._run = run
        self._ledger = run.ledger
        self._population = population
        self._recorder = recorder
        self._monitor = monitor

    def answers(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> dict[str, list[Answer]]:
        """Item id -> the player's answers, `samples` of each seat that it takes.

        Raises ConfigError for a player that cannot give what the set asks for.
        """
        sampled = [item for item in items if not item.choices]
        scored = [item for item in items if item.choices]
        self._ask(name, benchmark, sampled, player)
        seed = self._run.config.seed
        answers = recorded_answers(self._ledger, seed, benchmark, sampled, player)
        if scored:
            answers |= self._likelihoods(name, scored, player)
        return answers

    def matches(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> list[tuple[Item, Match]]:
        """Every item with the matches on it, `samples` of each, the player in all seats."""
        self._ask(name, benchmark, items, player)
        seed = self._run.config.seed
        return recorded_matches(self._ledger, seed, benchmark, items, player)

    def _ask(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> None:
        seed = self._run.config.seed
        conversations = planned_conversations(seed, benchmark, items, player)
        known = self._ledger.known("matches", [plan.id for plan in conversations])
        # What a killed measurement left are whole chunks, so that those that follow are composed as
        # they would have been.
        planned = [plan for plan in conversations if plan.id not in known]
        if not planned:
            return
        self._monitor.stage(f"{name}: {player} answers", len(planned), player.generation)

        def act(asked: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
            actor = self._actor(asked, benchmark.temperature, benchmark.max_new_tokens)
            return actor.act(views, dice)

        self._recorder.play(planned, benchmark.game_played, act)

    def _actor(
        self, player: PlayerId, temperature: float | None = None, max_new_tokens: int | None = None
    ) -> Actor:
        """The open actor. Relative paths of players mean what they meant when the run was started,
        those of sets and their judges what they mean now.
        """
        with self._run.started_in():
            return self._population.actor_with(player, temperature, max_new_tokens)

    # -- the likelihood of choices

    def _likelihoods(
        self, name: str, items: Sequence[Item], player: PlayerId
    ) -> dict[str, list[Answer]]:
        actor = self._actor(player)
        if not isinstance(actor, Scorer):
            kind = self._run.config.players[player.name].kind
            raise ConfigError(
                f"{name}: players.{player.name}: a player of kind '{kind}' gives no "
                "likelihoods of given answers; measure a local model, or a set whose "
                "answers are generated"
            )
        rows = [text for item in items for text in item.continuations]
        self._monitor.stage(f"{name}: {player} scores", len(rows), player.generation)
        keys = [row.key for row in rows]
        known = self._ledger.logprobs(player, actor.encoding, keys)
        for chunk in chunks(rows, self._run.config.commit_every):
            missing = {row.key: row for row in chunk if row.key not in known}
            for plain in (False, True):
                part = {key: row for key, row in missing.items() if row.plain == plain}
                if part:
                    texts = list(part)
                    values = _logprobs(name, player, actor, list(part.values()), plain)
                    self._ledger.add_logprobs(player, actor.encoding, texts, values)
                    known |= dict(zip(texts, values, strict=True))
            self._monitor.advance(len(chunk))
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
