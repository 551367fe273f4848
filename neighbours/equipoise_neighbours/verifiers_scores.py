"""Scores from the `traces.jsonl` that verifiers' `vf-eval` writes."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.evaluation.harnesses.base import Scores, comparable, metric_means, read_lines
from equipoise.evaluation.harnesses.official_judges import choose_model
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores

WHAT = "an episode of verifiers"
REWARD = "reward"  # the sum of the weighted rewards, as in verifiers


class _Error(msgspec.Struct):
    type: str
    message: str = ""


class _Settings(msgspec.Struct):
    model: str
    harness: dict[str, Any] = {}
    sampling: dict[str, Any] = {}


class _Agent(msgspec.Struct):
    name: str
    config: _Settings


class _Reward(msgspec.Struct):
    score: float
    weight: float = 1.0


class _Trace(msgspec.Struct):
    agent: _Agent
    rewards: dict[str, _Reward | None] = {}
    metrics: dict[str, float | None] = {}
    errors: list[_Error] = []
    verifiers: dict[str, str | None] = {}

    def values(self) -> dict[str, float | None]:
        """Every reward and metric by its name, and their weighted sum."""
        given = {name: each for name, each in self.rewards.items() if each is not None}
        whole = sum(each.score * each.weight for each in given.values()) if given else None
        scores = {name: each.score for name, each in given.items()}
        return {**self.metrics, **scores, REWARD: whole}


class _Named(msgspec.Struct):
    id: str


class _Task(msgspec.Struct):
    hash: str


class _Episode(msgspec.Struct):
    env: _Named
    task: _Task
    ok: bool
    traces: list[_Trace]
    errors: list[_Error] = []

    @property
    def fault(self) -> str:
        """Why it failed, "" where it did not."""
        errors = [*self.errors, *(error for trace in self.traces for error in trace.errors)]
        why = [f"{error.type}: {error.message}" for error in errors[:1]]
        return "" if self.ok else ": ".join(["the episode failed", *why])


def read(path: Path, model: str = "") -> list[Scores]:
    """The scores of a model in each environment of a file, one record for each agent that it was.

    Items are tasks, samples their episodes; failed episodes are unscored. Raises DataError.
    """
    episodes = read_lines(path, _Episode, WHAT)
    models = {trace.agent.config.model for each in episodes for trace in each.traces}
    if not models:
        raise DataError(f"{path}: no episode has a trace")
    own = choose_model(models, model, path)
    rows: dict[tuple[str, str], list[tuple[_Episode, _Trace]]] = defaultdict(list)
    for episode in episodes:
        agents = {trace.agent.name for trace in episode.traces}
        for trace in episode.traces:
            if trace.agent.config.model == own:
                seat = f"/{trace.agent.name}" if len(agents) > 1 else ""
                rows[episode.env.id, seat].append((episode, trace))
    return [_scores(env, seat, played) for (env, seat), played in rows.items()]


def _scores(env: str, seat: str, played: Sequence[tuple[_Episode, _Trace]]) -> Scores:
    names = dict.fromkeys(name for _, trace in played for name in trace.values())
    items: list[ItemScores] = []
    times: Counter[str] = Counter()
    for episode, trace in played:
        item = episode.task.hash[:12]
        values = trace.values() if episode.ok else {}
        scored: Mapping[str, float | None] = {name: values.get(name) for name in names}
        silent = "" if scored[REWARD] is not None else episode.fault or "no reward is recorded"
        items.append(ItemScores(item=item, sample=times[item], values=dict(scored), reason=silent))
        times[item] += 1
    config, versions = played[0][1].agent.config, played[0][1].verifiers
    sampling = {name: value for name, value in config.sampling.items() if value is not None}
    result = BenchmarkResult(
        name=f"{env}{seat}",
        benchmark=f"{env}{seat}",
        source=f"verifiers {versions.get('version') or 'of unknown version'}",
        headline=REWARD,
        metrics=metric_means(items),
        n=len(times),
        answers=len(items),
        unscored=sum(bool(row.reason) for row in items),
        reasons=dict(Counter(row.reason for row in items if row.reason)),
        settings={"model": config.model, "harness": config.harness.get("id"), **sampling},
        key=comparable(env, seat, sorted(times)),
    )
    return Scores(result, items)
