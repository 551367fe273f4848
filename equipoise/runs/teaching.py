"""What each learner is taught: pairs of answers, or episodes of its own moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from equipoise.data.episodes import episodes
from equipoise.data.truncation import marked, was_cut, without_cut
from equipoise.data.win_probabilities import WinRule, with_wins
from equipoise.errors import NoSignal
from equipoise.models.resources import Resources
from equipoise.runs.config import RunConfig
from equipoise.runs.ledger import Ledger
from equipoise.runs.memory import Memory
from equipoise.runs.monitor import Monitor
from equipoise.runs.opponents_answers import OpponentsAnswers
from equipoise.runs.prompt_parts import PromptParts
from equipoise.runs.recorder import Recorder
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
        opponents_answers: OpponentsAnswers,
    ) -> None:
        self._opponents_answers = opponents_answers
        self._config = config
        self._ledger = ledger
        self._prompt_parts = prompt_parts
        self._memory = memory
        self._resources = resources
        self._recorder = recorder
        self._monitor = monitor

    def examples(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught of generation t's matches; nothing where it learns from the
        rules alone.

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
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
    ) -> list[Pair]:
        key = f"{t}/pair/{learner.name}"
        if self._ledger.finished(key) is None:
            self._monitor.stage(self._recorder.title("pair", learner.name), None, t)
            with self._recorder.stage("pair", key, t) as facts:
                pairs, dropped = self._made(matches, judgements, learner, t)
                if not pairs:
                    raise _no_signal("pair", matches, learner, t, dropped)
                self._ledger.add_pairs(pairs, learner)
                facts.update(pairs=len(pairs), dropped=dropped)
                facts.update(cut_pairs=_cut_pairs(pairs, matches))
        return self._ledger.pairs(t, learner)

    def _made(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
    ) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs; how many matches or pairs were dropped, by reason)."""
        config = self._config
        if not config.plays(t):
            pairs, dropped = config.pairs.given(self._prompt_parts.train(t), t)
            return self._with_data_wins(pairs, t), dropped
        whole, left_out = list(matches), 0
        if config.truncated == "drop":
            whole, left_out = without_cut(matches, config.pairs.answers)
        prompts = self._prompt_parts.played(t)
        pairs, dropped = config.pairs.make(whole, judgements, config.utility, prompts)
        if left_out:
            dropped = {**dropped, "truncated": left_out}
        if config.truncated == "keep":
            pairs = marked(pairs, matches)
        if not config.pairs.by_judge(t):
            return self._with_data_wins(pairs, t), dropped
        rule = self._rule(learner, t)
        if rule is None or not pairs:
            return pairs, dropped
        against = self._opponents_answers.players(learner, t)
        samples = self._opponents_answers.samples(matches, judgements, learner, t)
        pairs, unmet = with_wins(pairs, samples, against, rule)
        return pairs, {**dropped, **unmet}

    def _with_data_wins(self, pairs: list[Pair], t: int) -> list[Pair]:
        """For a loss that reads P(answer beats …): 1 for the data's choice, 0 for the other, since
        no judge has seen them.
        """
        loss = self._config.loss_at(t)
        if loss is None or loss.wins_by is None:
            return pairs
        sure = {"chosen_win": 1.0, "rejected_win": 0.0}
        return [msgspec.structs.replace(pair, **sure) for pair in pairs]

    def _rule(self, learner: PlayerId, t: int) -> WinRule | None:
        """How the loss wants P(answer beats …) to be estimated; None: not at all."""
        config = self._config
        loss = config.loss_at(t)
        wins_by = None if loss is None else loss.wins_by
        if config.learner_of(learner.name).needs != "pairs" or wins_by is None:
            return None
        if wins_by == "auto":
            compares = config.judge_of(learner.name).compares
            wins_by = "judged" if compares else "counted"
        return None if wins_by == "judged" else wins_by

    def _episodes(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
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
                    self._config.learner_of(learner.name).share_of_outcome,
                )
                by_id = {match.id: match for match in matches}
                cut = [e for e in made if was_cut(by_id[e.match].turns[e.turn])]
                if self._config.truncated == "drop":
                    dropped = {**dropped, "truncated": len(cut)} if cut else dropped
                    left_out = {episode.id for episode in cut}
                    made = [e for e in made if e.id not in left_out]
                if not made:
                    raise _no_signal("episode", matches, learner, t, dropped)
                self._ledger.add_episodes(made, learner)
                facts.update(episodes=len(made), dropped=dropped)
                facts.update(cut_episodes=len(cut))
                facts.update(_summary(made, matches))
                self._monitor.numbers(reward=facts["reward"])
        return self._ledger.episodes(learner)


def _no_signal(
    example: str, matches: Sequence[Match], learner: PlayerId, t: int, dropped: Mapping[str, int]
) -> NoSignal:
    reasons = ", ".join(f"{reason} {count}" for reason, count in dropped.items())
    if not reasons:
        reasons = "it made no move" if example == "episode" else "nothing"
    return NoSignal(
        f"generation {t}: {len(matches)} matches gave {learner} no {example} to learn from; "
        f"dropped: {reasons}"
    )


def _cut_pairs(pairs: Sequence[Pair], matches: Sequence[Match]) -> int:
    """How many of the pairs have an answer that was cut, however it is learned from."""
    noted = marked(pairs, matches)
    return sum(pair.chosen_cut or pair.rejected_cut for pair in noted)


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


def repeated_share(made: Sequence[Episode], matches: Sequence[Match]) -> dict[str, float]:
    """role -> the share of its moves that repeat the text of another move of the role; a collapse
    raises it.
    """
    match_of = {match.id: match for match in matches}
    texts: dict[str, list[str]] = {}
    for episode in made:
        turn = match_of[episode.match].turns[episode.turn]
        texts.setdefault(episode.role, []).append(turn.move.text)
    return {role: 1 - len(set(moves)) / len(moves) for role, moves in texts.items()}
