"""What each learner is taught: pairs of answers, or episodes of its own moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from equipoise.data.episodes import episodes
from equipoise.errors import NoSignal
from equipoise.models.resources import Resources
from equipoise.run.config import RunConfig
from equipoise.run.ledger import Ledger
from equipoise.run.memory import Memory
from equipoise.run.monitor import Monitor
from equipoise.run.prompt_parts import PromptParts
from equipoise.run.recorder import Recorder
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId


class Teaching:
    """Makes a generation's examples of its judged matches, and records them."""

    def __init__(
        self,
        config: RunConfig,
        ledger: Ledger,
        prompt_parts: PromptParts,
        memory: Memory,
        resources: Resources,
        recorder: Recorder,
        monitor: Monitor,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._prompt_parts = prompt_parts
        self._memory = memory
        self._resources = resources
        self._recorder = recorder
        self._monitor = monitor

    def examples(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught of generation t's matches; nothing where it learns
        from the rules alone.

        Raises NoSignal where the matches give it nothing to learn from.
        """
        needs = self._config.learner_of(learner.name).needs
        if needs == "game":
            return []
        if self._config.training_matches == "own":
            matches = [match for match in matches if learner in match.seats.values()]
        teacher = self._config.judge_of(learner.name).name
        judgements = [each for each in judgements if each.judge == teacher]
        if needs == "episodes":
            return self._episodes(matches, judgements, learner, t)
        return self._pairs(matches, judgements, learner, t)

    def _pairs(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> list[Pair]:
        key = f"{t}/pair/{learner.name}"
        if self._ledger.finished(key) is None:
            self._monitor.stage(self._recorder.title("pair", learner.name), None, t)
            with self._recorder.stage("pair", key, t) as facts:
                utility = self._config.utility
                pairs, dropped = self._config.pairs.make(matches, judgements, utility)
                if not pairs:
                    raise _no_signal("pair", matches, learner, t, dropped)
                self._ledger.add_pairs(pairs, learner)
                facts.update(pairs=len(pairs), dropped=dropped)
        return self._ledger.pairs(t, learner)

    def _episodes(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> list[Episode]:
        key = f"{t}/episodes/{learner.name}"
        if self._ledger.finished(key) is None:
            self._monitor.stage(self._recorder.title("episodes", learner.name), None, t)
            with self._recorder.stage("episodes", key, t) as facts:
                made, dropped = episodes(
                    matches,
                    {judgement.match: judgement for judgement in judgements},
                    learner,
                    self._config.game,
                    self._prompt_parts.played(t),
                    self._config.utility,
                    self._memory.terms(t, self._resources),
                    self._config.normalise,
                )
                if not made:
                    raise _no_signal("episode", matches, learner, t, dropped)
                self._ledger.add_episodes(made, learner)
                facts.update(episodes=len(made), dropped=dropped)
                facts.update(_summary(made, matches))
                self._monitor.numbers(reward=facts["reward"])
        return self._ledger.episodes(learner)


def _no_signal(
    example: str,
    matches: Sequence[Match],
    learner: PlayerId,
    t: int,
    dropped: Mapping[str, int],
) -> NoSignal:
    reasons = ", ".join(f"{reason} {count}" for reason, count in dropped.items())
    if not reasons:
        reasons = "it made no move" if example == "episode" else "nothing"
    return NoSignal(
        f"generation {t}: {len(matches)} matches gave {learner} no {example} to learn from; "
        f"dropped: {reasons}"
    )


def _summary(made: Sequence[Episode], matches: Sequence[Match]) -> dict[str, Any]:
    """The mean reward, the mean of its parts, and the share of repeated texts."""
    return {
        "reward": fmean(episode.reward for episode in made),
        "parts": part_means(made),
        "repeated": repeated_share(made, matches),
    }


def part_means(made: Sequence[Episode]) -> dict[str, float]:
    """role.part -> its mean over the role's episodes that have it."""
    by_part: dict[str, list[float]] = {}
    for episode in made:
        for name, value in episode.parts.items():
            by_part.setdefault(f"{episode.role}.{name}", []).append(value)
    return {name: fmean(values) for name, values in by_part.items()}


def repeated_share(
    made: Sequence[Episode], matches: Sequence[Match]
) -> dict[str, float]:
    """role -> the share of its moves that repeat the text of another move of the role;
    a collapse raises it.
    """
    match_of = {match.id: match for match in matches}
    texts: dict[str, list[str]] = {}
    for episode in made:
        turn = match_of[episode.match].turns[episode.turn]
        texts.setdefault(episode.role, []).append(turn.move.text)
    return {role: 1 - len(set(moves)) / len(moves) for role, moves in texts.items()}
