"""The stage that builds training examples: pairs of answers, or episodes of a learner's moves."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from equipoise.answer import answer_of
from equipoise.data.episodes import episodes
from equipoise.data.pairs import JudgedMatches
from equipoise.data.truncation import drop_truncated, fitting_pairs, is_truncated, mark_truncated
from equipoise.data.win_probabilities import Samples, WinRule, with_wins
from equipoise.errors import ConfigError, NoSignal
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
    if needs == "episodes":
        return record_episodes(run, matches, judgements, learner, t)
    return record_pairs(run, matches, judgements, learner, t)


# -- pairs of answers


def record_pairs(
    run: OpenRun,
    matches: Sequence[Match],
    judgements: Sequence[Judgement],
    learner: PlayerId,
    t: int,
) -> list[Pair]:
    config = run.config
    key = f"{t}/pair/{learner.name}"
    if run.ledger.stage_facts(key) is None:
        run.show("pair", None, t, learner.name)
        with run.stage("pair", key, t) as facts:
            pairs, dropped = make_pairs(run, matches, judgements, learner, t)
            pairs, unfit = fitting(run, pairs, learner)
            if unfit and config.too_long == "drop":
                dropped = {**dropped, TOO_LONG: unfit}
            elif unfit:
                facts.update(cut_to_fit=unfit)
            if not pairs:
                raise no_signal("pair", matches, learner, t, dropped)
            run.ledger.add_pairs(pairs, learner)
            # answers that were cut, however they are learned from
            noted = mark_truncated(pairs, matches)
            cut = sum(pair.chosen_cut or pair.rejected_cut for pair in noted)
            facts.update(pairs=len(pairs), dropped=dropped, cut_pairs=cut)
    return run.ledger.pairs(t, learner)


def make_pairs(
    run: OpenRun,
    matches: Sequence[Match],
    judgements: Sequence[Judgement],
    learner: PlayerId,
    t: int,
) -> tuple[list[Pair], dict[str, int]]:
    """(the pairs; how many matches or pairs were dropped, by reason)."""
    config = run.config
    if not config.plays(t):
        pairs, dropped = config.pairs.data_pairs(run.prompts.train(t), t)
        pairs, single = without_single(pairs, config, learner, t)
        if single:
            dropped = {**dropped, "single": single}
        return with_certain_wins(run, pairs, learner, t), dropped
    whole = list(matches)
    left_out = 0
    if config.truncated == "drop":
        whole, left_out = drop_truncated(matches, config.pairs.answers)
    judged = JudgedMatches(whole, judgements, config.utility, run.prompts.played(t))
    pairs, dropped = config.pairs.make(judged)
    if left_out:
        dropped = {**dropped, "truncated": left_out}
    if config.truncated == "keep":
        pairs = mark_truncated(pairs, matches)
    if not config.pairs.by_judge(t):
        return with_certain_wins(run, pairs, learner, t), dropped
    rule = win_rule(run, learner, t)
    if rule is None or not pairs:
        return pairs, dropped
    opponents = scored_opponents(run, learner, t)
    samples = opponent_samples(run, matches, judgements, learner, t)
    pairs, unmet = with_wins(pairs, samples, opponents, rule)
    return pairs, {**dropped, **unmet}


def without_single(
    pairs: list[Pair], config: RunConfig, learner: PlayerId, t: int
) -> tuple[list[Pair], int]:
    """(the pairs that a learner can learn, the number of answers alone that it cannot).

    `sft` learns wanted answers alone, and a loss that `reads_single` any with a label.
    """
    loss = config.loss_at(learner.name, t)
    if config.learner_of(learner.name).needs == "answers":
        kept = [pair for pair in pairs if pair.has("chosen")]
    elif loss is not None and loss.reads_single:
        kept = pairs
    else:
        kept = [pair for pair in pairs if not pair.only]
    return kept, len(pairs) - len(kept)


def fitting(run: OpenRun, pairs: Sequence[Pair], learner: PlayerId) -> tuple[list[Pair], int]:
    """(the pairs that the learner is taught; how many do not fit its model whole)."""
    player = run.config.playing[learner.name]
    joined = run.config.learner_of(learner.name).joined_pairs() is not None
    if joined or not isinstance(player, Local):
        return list(pairs), 0
    encoding = player.shared_encoding(run.resources)
    return fitting_pairs(pairs, lambda row: encoding.fits(*row), run.config.too_long)


def with_certain_wins(run: OpenRun, pairs: list[Pair], learner: PlayerId, t: int) -> list[Pair]:
    """Pairs of the data for losses that read P(answer beats …): the choice 1, the other 0."""
    loss = run.config.loss_at(learner.name, t)
    if loss is None or loss.wins_by is None:
        return pairs
    return [msgspec.structs.replace(pair, chosen_win=1.0, rejected_win=0.0) for pair in pairs]


def win_rule(run: OpenRun, learner: PlayerId, t: int) -> WinRule | None:
    """The loss's way to estimate P(answer beats …); None where it needs no estimate."""
    config = run.config
    loss = config.loss_at(learner.name, t)
    wins_by = None if loss is None else loss.wins_by
    if config.learner_of(learner.name).needs != "pairs" or wins_by is None:
        return None
    if wins_by == "auto":
        compares = config.judge_of(learner.name).compares
        wins_by = "judged" if compares else "counted"
    return None if wins_by == "judged" else wins_by


def scored_opponents(run: OpenRun, learner: PlayerId, t: int) -> list[tuple[PlayerId, float]]:
    """The players that an answer has to beat, with weights that add up to one."""
    loss = run.config.loss_at(learner.name, t)
    assert loss is not None
    return loss.wins_against(run.roster.opponent_pool(learner, t))


def opponent_samples(
    run: OpenRun,
    matches: Sequence[Match],
    judgements: Sequence[Judgement],
    learner: PlayerId,
    t: int,
) -> Samples:
    """Scored answers of all of `scored_opponents` to generation t's prompts.

    Of those that sat in none of the matches, the answers are taken that they gave to the same
    prompts in their own generation (`prompts.reuse: same`), else they answer the prompts in every
    seat; this stays in the ledger. Raises ConfigError for a judge that only compares, or a game of
    different roles.
    """
    samples = Samples()
    samples.add(matches, judgements, run.config.utility)
    present = samples.players()
    for player, _ in scored_opponents(run, learner, t):
        if player not in present:
            played, judged = recorded_answers(run, player, learner, t)
            if not played:
                played, judged = answer_alone(run, player, learner, t)
            samples.add(played, judged, run.config.utility)
    return samples


def recorded_answers(
    run: OpenRun, player: PlayerId, learner: PlayerId, t: int
) -> tuple[Sequence[Match], list[Judgement]]:
    """An earlier generation's training matches against itself, where all prompts are alike."""
    generations = range(t) if run.config.prompts.reuse == "same" else ()
    played = [
        match
        for g in generations
        if player in run.roster.learners(g)
        for match in run.ledger.matches("train", g)
        if set(match.seats.values()) == {player}
    ]
    teacher = run.config.judge_of(learner.name).name
    judged = run.ledger.judgements_of([match.id for match in played], teacher)
    return played, list(judged.values())


def answer_alone(
    run: OpenRun, player: PlayerId, learner: PlayerId, t: int
) -> tuple[Sequence[Match], list[Judgement]]:
    """Have an opponent answer the generation's prompts, scored by the learner's judge."""
    config = run.config
    judge = config.judge_of(learner.name)
    if judge.compares or not config.game.symmetric:
        raise ConfigError(
            "loss.wins: P(answer beats an opponent) takes the opponent's own "
            "answers, scored alone, in a game whose seats are alike; use a judge "
            "that scores, or another loss.target"
        )
    prompts = run.prompts.train(t)
    seats = dict.fromkeys(config.game.seats, player)
    seatings = [(prompt, seats) for prompt in prompts]
    key = f"{t}/{OPPONENTS}/{learner.name}/{player}"
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


def record_episodes(
    run: OpenRun,
    matches: Sequence[Match],
    judgements: Sequence[Judgement],
    learner: PlayerId,
    t: int,
) -> list[Episode]:
    config = run.config
    key = f"{t}/episodes/{learner.name}"
    if run.ledger.stage_facts(key) is None:
        run.show("episodes", None, t, learner.name)
        with run.stage("episodes", key, t) as facts:
            made, dropped = episodes(
                matches,
                {judgement.match: judgement for judgement in judgements},
                learner,
                config.game,
                run.prompts.played(t),
                config.utility,
                run.earlier_texts.terms(t, run.resources),
                config.normalise,
                config.learner_of(learner.name).share_of_outcome,
                config.truncated == "drop",
            )
            match_of = {match.id: match for match in matches}
            kept = sum(is_truncated(match_of[e.match].turns[e.turn]) for e in made)
            if not made:
                raise no_signal("episode", matches, learner, t, dropped)
            run.ledger.add_episodes(made, learner)
            facts.update(
                episodes=len(made),
                dropped=dropped,
                cut_episodes=kept + dropped.get("truncated", 0),
                reward=fmean(episode.reward for episode in made),
                parts=part_means(made),
                repeated=repeated_share(made, matches, config.game.raw_moves),
            )
            run.monitor.numbers(reward=facts["reward"])
    return run.ledger.episodes(learner)


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


def no_signal(
    example: str, matches: Sequence[Match], learner: PlayerId, t: int, dropped: Mapping[str, Any]
) -> NoSignal:
    reasons = ", ".join(f"{reason} {count}" for reason, count in dropped.items())
    if not reasons:
        reasons = "it made no move" if example == "episode" else "nothing"
    most = max(dropped, key=lambda reason: dropped[reason], default="")
    remedy = f". {REMEDIES[most]}" if most in REMEDIES else ""
    return NoSignal(
        f"generation {t}: {len(matches)} matches gave {learner} no {example} to learn from; "
        f"dropped: {reasons}{remedy}"
    )
