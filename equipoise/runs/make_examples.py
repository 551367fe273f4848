"""The stage that builds training examples: pairs of answers, or episodes of a learner's moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import msgspec

from equipoise.answer import answer_of
from equipoise.data.episodes import episodes
from equipoise.data.pairs import JudgedMatches, check_order
from equipoise.data.truncation import drop_truncated, fitting_pairs, is_truncated, mark_truncated
from equipoise.data.win_probabilities import Samples, WinRule, with_wins
from equipoise.errors import ConfigError, NoSignal
from equipoise.judges.base import Judge
from equipoise.losses.base import PreferenceLoss
from equipoise.players.local import Local
from equipoise.runs.config import RunConfig
from equipoise.runs.contexts import judge_context
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import record_matches
from equipoise.runs.room_for_prompts import TOO_LONG
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId

OPPONENTS = "opponents"
"""The split, by its recorded name, of answers that opponents gave for win probabilities alone."""


def make_examples(
    run: OpenRun,
    matches: Sequence[Match],
    judgements: Sequence[Judgement],
    learner: PlayerId,
    t: int,
) -> Sequence[Pair | Episode]:
    """Training examples for `learner` from generation t's matches; none if it learns from rules.

    Raises NoSignal where the matches give it nothing to learn from.
    """
    config = run.config
    needs = config.learner_of(learner.name).needs
    if needs == "game":
        return []
    if config.training_matches == "own":
        matches = [match for match in matches if learner in match.seats.values()]
    teacher = config.judge_of(learner.name).name
    judgements = [each for each in judgements if each.judge == teacher]
    lessons = Lessons(run, matches, judgements, learner, t)
    return lessons.record_episodes() if needs == "episodes" else lessons.record_pairs()


@dataclass(frozen=True)
class Lessons:
    """The matches of generation t that teach a learner, with its judge's judgements."""

    run: OpenRun
    matches: Sequence[Match]
    judgements: Sequence[Judgement]
    learner: PlayerId
    t: int

    @property
    def config(self) -> RunConfig:
        """The run's."""
        return self.run.config

    @property
    def judge(self) -> Judge:
        """The learner's own judge."""
        return self.config.judge_of(self.learner.name)

    @property
    def needs(self) -> str:
        """The examples that the learner wants."""
        return self.config.learner_of(self.learner.name).needs

    @property
    def loss(self) -> PreferenceLoss | None:
        """The loss by which the learner learns from pairs now; None where it has none."""
        return self.config.loss_at(self.learner.name, self.t)

    # -- pairs of answers

    def record_pairs(self) -> list[Pair]:
        """The pairs of the stage, made now or read. Raises NoSignal where there are none."""
        run, learner, t = self.run, self.learner, self.t
        key = f"{t}/pair/{learner.name}"
        if not run.ledger.has_finished(key):
            run.show("pair", None, t, learner.name)
            with run.stage("pair", key, t) as facts:
                pairs, dropped = self.make_pairs()
                pairs, unfit = self.fitting(pairs)
                if unfit and self.config.too_long == "drop":
                    dropped = {**dropped, TOO_LONG: unfit}
                elif unfit:
                    facts.update(cut_to_fit=unfit)
                if not pairs:
                    raise self.no_signal("pair", dropped)
                run.ledger.add_pairs(pairs, learner)
                # answers that were cut, however they are learned from
                noted = mark_truncated(pairs, self.matches)
                cut = sum(pair.chosen_cut or pair.rejected_cut for pair in noted)
                facts.update(pairs=len(pairs), dropped=dropped, cut_pairs=cut)
        return run.ledger.pairs(t, learner)

    def make_pairs(self) -> tuple[list[Pair], dict[str, int]]:
        """(the pairs; how many matches or pairs were dropped, by reason)."""
        config, prompts, t = self.config, self.run.prompts, self.t
        if not config.plays(t):
            pairs, dropped = config.pairs.data_pairs(prompts.train(t), t)
            pairs, single = self.without_single(pairs)
            if single:
                dropped = {**dropped, "single": single}
            return self.with_certain_wins(pairs), dropped
        whole = list(self.matches)
        left_out = 0
        if config.truncated == "drop":
            whole, left_out = drop_truncated(self.matches, config.pairs.answers)
        judged = JudgedMatches(whole, self.judgements, config.utility, prompts.played(t))
        pairs, dropped = config.pairs.make(judged)
        check_order(config.pairs, pairs)
        if left_out:
            dropped = {**dropped, "truncated": left_out}
        if config.truncated == "keep":
            pairs = mark_truncated(pairs, self.matches)
        if not config.pairs.by_judge(t):
            return self.with_certain_wins(pairs), dropped
        rule = self.win_rule()
        if rule is None or not pairs:
            return pairs, dropped
        opponents = self.scored_opponents()
        pairs, unmet = with_wins(pairs, self.opponent_samples(), opponents, rule)
        return pairs, {**dropped, **unmet}

    def without_single(self, pairs: list[Pair]) -> tuple[list[Pair], int]:
        """(the pairs that a learner can learn, the number of answers alone that it cannot).

        `sft` learns wanted answers alone, and a loss that `reads_single` any with a label.
        """
        if self.needs == "answers":
            kept = [pair for pair in pairs if pair.has("chosen")]
        elif self.loss is not None and self.loss.reads_single:
            kept = pairs
        else:
            kept = [pair for pair in pairs if not pair.only]
        return kept, len(pairs) - len(kept)

    def fitting(self, pairs: Sequence[Pair]) -> tuple[list[Pair], int]:
        """(the pairs that the learner is taught; how many do not fit its model whole)."""
        name = self.learner.name
        player = self.config.playing[name]
        joined = self.config.learner_of(name).joined_pairs() is not None
        if joined or not isinstance(player, Local):
            return list(pairs), 0
        encoding = player.shared_encoding(self.run.resources)
        return fitting_pairs(pairs, lambda row: encoding.fits(*row), self.config.too_long)

    def with_certain_wins(self, pairs: list[Pair]) -> list[Pair]:
        """Pairs of the data for losses that read P(answer beats …): the choice 1, the other 0."""
        if self.loss is None or self.loss.wins_by is None:
            return pairs
        return [msgspec.structs.replace(pair, chosen_win=1.0, rejected_win=0.0) for pair in pairs]

    # -- how likely an answer beats the opponents

    def win_rule(self) -> WinRule | None:
        """The loss's way to estimate P(answer beats …); None where it needs no estimate."""
        wins_by = None if self.loss is None else self.loss.wins_by
        if self.needs != "pairs" or wins_by is None:
            return None
        if wins_by == "auto":
            wins_by = "judged" if self.judge.compares else "counted"
        return None if wins_by == "judged" else wins_by

    def scored_opponents(self) -> list[tuple[PlayerId, float]]:
        """The players that an answer has to beat, with weights that add up to one."""
        assert self.loss is not None
        return self.loss.wins_against(self.run.roster.opponent_pool(self.learner, self.t))

    def opponent_samples(self) -> Samples:
        """Scored answers of all of `scored_opponents` to generation t's prompts.

        Of those that sat in none of the matches, the answers are taken that they gave to the same
        prompts in their own generation (`prompts.reuse: same`), else they answer the prompts in
        every seat; this stays in the ledger. Raises ConfigError for a judge that only compares, or
        a game of different roles.
        """
        utility = self.config.utility
        samples = Samples()
        samples.add(self.matches, self.judgements, utility)
        present = samples.players()
        for player, _ in self.scored_opponents():
            if player not in present:
                played, judged = self.recorded_answers(player)
                if not played:
                    played, judged = self.answer_alone(player)
                samples.add(played, judged, utility)
        return samples

    def recorded_answers(self, player: PlayerId) -> tuple[Sequence[Match], list[Judgement]]:
        """An earlier generation's training matches against itself, where all prompts are alike."""
        run = self.run
        generations = range(self.t) if self.config.prompts.reuse == "same" else ()
        played = [
            match
            for g in generations
            if player in run.roster.learners(g)
            for match in run.ledger.matches("train", g)
            if set(match.seats.values()) == {player}
        ]
        judged = run.ledger.judgements_of([match.id for match in played], self.judge.name)
        return played, list(judged.values())

    def answer_alone(self, player: PlayerId) -> tuple[Sequence[Match], list[Judgement]]:
        """Have an opponent answer the generation's prompts, scored by the learner's judge."""
        run, game, judge, t = self.run, self.config.game, self.judge, self.t
        if judge.compares or not game.symmetric:
            raise ConfigError(
                "loss.wins: P(answer beats an opponent) takes the opponent's own "
                "answers, scored alone, in a game whose seats are alike; use a judge "
                "that scores, or another loss.target"
            )
        prompts = run.prompts.train(t)
        seats = dict.fromkeys(game.seats, player)
        seatings = [(prompt, seats) for prompt in prompts]
        key = f"{t}/{OPPONENTS}/{self.learner.name}/{player}"
        played = record_matches(run, f"{key}/play", seatings, t, OPPONENTS, player.name)
        judged = record_judgements(
            run,
            f"{key}/judge/{judge.name}",
            judge,
            judge_context(run, t),
            played,
            {prompt.id: prompt for prompt in prompts},
            t,
            player.name,
        )
        return played, judged

    # -- episodes of a learner's moves

    def record_episodes(self) -> list[Episode]:
        """The episodes of the stage, made now or read. Raises NoSignal where there are none."""
        run, config, learner, t = self.run, self.config, self.learner, self.t
        key = f"{t}/episodes/{learner.name}"
        if not run.ledger.has_finished(key):
            run.show("episodes", None, t, learner.name)
            with run.stage("episodes", key, t) as facts:
                made, dropped = episodes(
                    self.matches,
                    {judgement.match: judgement for judgement in self.judgements},
                    learner,
                    config.game,
                    run.prompts.played(t),
                    config.utility,
                    run.earlier_texts.terms(t, run.resources),
                    config.normalise,
                    config.learner_of(learner.name).share_of_outcome,
                    config.truncated == "drop",
                )
                match_of = {match.id: match for match in self.matches}
                kept = sum(is_truncated(match_of[e.match].turns[e.turn]) for e in made)
                if not made:
                    raise self.no_signal("episode", dropped)
                run.ledger.add_episodes(made, learner)
                facts.update(
                    episodes=len(made),
                    dropped=dropped,
                    cut_episodes=kept + dropped.get("truncated", 0),
                    reward=fmean(episode.reward for episode in made),
                    parts=part_means(made),
                    repeated=repeated_share(made, self.matches, config.game.raw_moves),
                )
                run.monitor.numbers(reward=facts["reward"])
        return run.ledger.episodes(learner)

    def no_signal(self, example: str, dropped: Mapping[str, Any]) -> NoSignal:
        """The error where nothing is left to learn from, with what a new run can do about it."""
        reasons = ", ".join(f"{reason} {count}" for reason, count in dropped.items())
        if not reasons:
            reasons = "it made no move" if example == "episode" else "nothing"
        most = max(dropped, key=lambda reason: dropped[reason], default="")
        remedy = f". {REMEDIES[most]}" if most in REMEDIES else ""
        return NoSignal(
            f"generation {self.t}: {len(self.matches)} matches gave {self.learner} no {example} to "
            f"learn from; dropped: {reasons}{remedy}"
        )


def part_means(made: Sequence[Episode]) -> dict[str, float]:
    """role.part -> its mean over the role's episodes that have it."""
    by_part: dict[str, list[float]] = {}
    for episode in made:
        for name, value in episode.parts.items():
            by_part.setdefault(f"{episode.role}.{name}", []).append(value)
    return {name: fmean(values) for name, values in by_part.items()}


def repeated_share(
    made: Sequence[Episode], matches: Sequence[Match], raw_moves: bool = False
) -> dict[str, float]:
    """role -> share of its moves that repeat another's answer; a collapse raises it."""
    match_of = {match.id: match for match in matches}
    texts: dict[str, list[str]] = {}
    for episode in made:
        turn = match_of[episode.match].turns[episode.turn]
        text = turn.move.text if raw_moves else answer_of(turn.move).text
        texts.setdefault(episode.role, []).append(text)
    return {role: 1 - len(set(moves)) / len(moves) for role, moves in texts.items()}


# The commonest reason -> what a new run can do about it.
REMEDIES = {
    "identical": "The answers to a prompt are all one text. Try a new run with a higher "
    "temperature (policy.temperature=1), more answers to a prompt (game.samples), or, if the "
    "player has come to answer everything alike, a lower learner.learning_rate",
    "tie": "The judge gives all answers to a prompt one score. Try a judge with finer scores, or "
    "more answers to a prompt (game.samples)",
}
