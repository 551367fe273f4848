"""Counts of a run's work before it begins, from its configuration and prompts alone: upper bounds,
as if every match were judged and every possible pair made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from equipoise import seeds
from equipoise.evaluation.base import EvaluationPlan, Workload
from equipoise.learners.base import Learner
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.matches.base import MatchContext, Seatings
from equipoise.models.loading import row_length
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.prompts.split import PromptSplit
from equipoise.runs.by_generation import value_at
from equipoise.runs.config import MOST_GENERATIONS, RunConfig
from equipoise.runs.roster import expected_generations
from equipoise.types import PlayerId, Prompt


@dataclass(frozen=True)
class RunCounts:
    """Upper bounds of a run's work; `answers` are in training and when measuring."""

    generations: int
    players: int
    prompts: int
    held_out_prompts: int
    test_prompts: int
    matches: int
    held_out_matches: int
    judgements: int
    questions_to_judges: int
    answers: int
    sampled_tokens_at_most: int
    pairs_at_most: int
    episodes_at_most: int
    opponent_log_probabilities_at_most: int
    optimizer_steps_at_most: int


@dataclass(frozen=True)
class RunWork:
    """The counts of a run; its players' moves at most while it trains and when it measures, the
    matches in which they make them, and judge's name -> (matches that it judges, their seats).
    """

    counts: RunCounts
    training_moves: Counter[str]
    measuring_moves: Mapping[str, int]
    played_matches: int
    judged: Mapping[str, Sequence[tuple[int, int]]]


def count_work(config: RunConfig, split: PromptSplit) -> RunWork:
    """Count the run's work on these prompts, at most."""
    training = training_work(config, split)
    measuring = measuring_work(config, split)
    seats = len(config.game.seats)
    pool = len(config.players)
    questions = 0
    judgements = 0
    judged: dict[str, list[tuple[int, int]]] = {}
    of_training = [(judge, training.judged[name], seats) for name, judge in config.teachers.items()]
    for judge, matches, seats_beside in [*of_training, *measuring.judged]:
        questions += matches * judge.questions(seats_beside, pool)
        judgements += matches
        judged.setdefault(judge.name, []).append((matches, seats_beside))
    answers = training.moves.total() + measuring.moves
    longest = max(map(longest_answer, config.players.values()), default=0)
    counts = RunCounts(
        generations=config.generations,
        players=pool,
        prompts=split.count,
        held_out_prompts=len(split.held_out),
        test_prompts=len(split.test),
        matches=training.matches,
        held_out_matches=measuring.matches + measuring.meetings,
        judgements=judgements,
        questions_to_judges=questions,
        answers=answers,
        sampled_tokens_at_most=answers * longest,
        pairs_at_most=training.pairs,
        episodes_at_most=training.episodes,
        opponent_log_probabilities_at_most=training.scored,
        optimizer_steps_at_most=training.steps,
    )
    moves_of = measuring.moves_of or dict.fromkeys(config.players, measuring.moves)
    played = training.matches + measuring.matches
    return RunWork(counts, training.moves, moves_of, played, judged)


def longest_answer(player: Player) -> int:
    """The longest answer of a language model in tokens; 0 for other players."""
    if isinstance(player, Local):
        return min(player.most_tokens, row_length(player.model, player.max_length))
    if isinstance(player, Endpoint):
        return player.max_new_tokens
    return 0


# -- training


@dataclass
class TrainingWork:
    """Totals over the generations."""

    matches: int = 0
    judged: Counter[str] = field(default_factory=Counter)  # matches, by the judge's name
    moves: Counter[str] = field(default_factory=Counter)  # by player
    pairs: int = 0
    episodes: int = 0
    scored: int = 0
    steps: int = 0

    def add(self, other: TrainingWork) -> None:
        """Add another's totals to these."""
        self.matches += other.matches
        self.judged.update(other.judged)
        self.moves.update(other.moves)
        self.pairs += other.pairs
        self.episodes += other.episodes
        self.scored += other.scored
        self.steps += other.steps


def training_work(config: RunConfig, split: PromptSplit) -> TrainingWork:
    """The work of all generations; of those that are alike, one is counted."""
    totals = TrainingWork()
    rosters = expected_generations(config.turns, config.learning, config.generations)
    known: dict[Any, TrainingWork] = {}
    alike = not config.schedule.draws and same_moves(config, split.training)
    for t, (learners, turn) in enumerate(rosters[:-1]):
        key: Any = t
        if alike:
            by_t = config.by_generation.values()
            changing = []
            for part in by_t:
                for values in part.values():
                    changing.append(value_at(values, t))
            memory = 2 + config.loss_memory
            ages = [min(learner.generation, memory) for learner in learners]
            key = (config.plays(t), config.pairs.by_judge(t), *turn, *changing, *ages)
        if key not in known:
            known[key] = generation_work(config, split.parts[t], t, learners, turn)
        totals.add(known[key])
    return totals


def same_moves(config: RunConfig, prompts: Sequence[Prompt]) -> bool:
    """True if a match on any of the prompts has as many moves of each seat."""
    return len({frozenset(config.game.moves(prompt).items()) for prompt in prompts}) < 2


def generation_work(
    config: RunConfig,
    prompts: Sequence[Prompt],
    t: int,
    learners: Sequence[PlayerId],
    turn: Sequence[str],
) -> TrainingWork:
    """The work of generation t: its matches, and teaching the learners whose `turn` it is."""
    totals = TrainingWork()
    context = MatchContext(
        config.game,
        [*learners, *fixed_players(config)],
        [past for learner in learners for past in past_generations(learner)],
        seeds.child(config.seed, "seats", t),
        config.training_ratings.initial_ratings(list(config.players)),
        learners=learners,
        turn=turn,
    )
    seatings: Seatings = []
    if config.plays(t):
        seatings = list(config.schedule.seatings(prompts, context))
    totals.matches += len(seatings)
    for prompt, seats in seatings:
        for seat, moves in config.game.moves(prompt).items():
            totals.moves[seats[seat].name] += moves
    for teacher, players in config.judged_players().items():
        for _, seats in seatings:
            totals.judged[teacher] += any(player.name in players for player in seats.values())
    for learner in learners:
        if learner.name not in turn:
            continue
        trainer = config.learner_at(learner.name, t)
        pairs = most_pairs(config, trainer, learner, seatings) if config.plays(t) else len(prompts)
        episodes = 0
        if trainer.needs == "episodes":
            episodes = paid_moves(config, learner, seatings)
        totals.pairs += pairs
        totals.episodes += episodes
        totals.steps += trainer.steps(episodes if trainer.needs == "episodes" else pairs)
        if trainer.needs == "pairs":
            peers = [peer for peer in learners if peer != learner]
            pool = OpponentPool([learner, *past_generations(learner)], peers, fixed_players(config))
            add_opponents(config, learner, pool, pairs, seatings, t, totals)
    return totals


def most_pairs(config: RunConfig, trainer: Learner, learner: PlayerId, seatings: Seatings) -> int:
    """The most pairs that one generation's matches make for a learner."""
    if trainer.needs not in ("pairs", "answers"):
        return 0
    teaching = seatings
    if config.training_matches != "all":
        teaching = [each for each in seatings if learner in each[1].values()]
    return len(teaching) * config.pairs.most(len(config.game.seats))


def paid_moves(config: RunConfig, learner: PlayerId, seatings: Seatings) -> int:
    """The number of a learner's own moves that are paid in one generation."""
    paid = 0
    for prompt, seats in seatings:
        for seat, moves in config.game.moves(prompt).items():
            if seats[seat] == learner:
                paid += moves
    return paid


def add_opponents(
    config: RunConfig,
    learner: PlayerId,
    pool: OpponentPool,
    pairs: int,
    seatings: Seatings,
    t: int,
    totals: TrainingWork,
) -> None:
    """Add what a loss asks of opponents: log-probabilities of the pairs, and answers outside the
    matches, in all seats on every prompt, where it measures its own wins against them.
    """
    loss = config.loss_at(learner.name, t)
    if loss is None:
        return
    totals.scored += 2 * pairs * len(loss.opponents(pool))
    by_scores = not config.judge_of(learner.name).compares and config.pairs.by_judge(t)
    if loss.wins_by not in ("auto", "counted", "bradley_terry") or not by_scores:
        return
    rivals = [player for player, _ in loss.wins_against(pool)]
    seated = {player for _, seats in seatings for player in seats.values()}
    if config.prompts.reuse == "same" and config.schedule.kind == "self_play":
        names = {player.name for player in seated}  # whose earlier answers are recorded
        seated |= {player for player in rivals if player.name in names}
    prompts = {prompt.id: prompt for prompt, _ in seatings}
    for player in rivals:
        if player in seated:
            continue
        totals.matches += len(prompts)
        totals.judged[config.judge_of(learner.name).name] += len(prompts)
        for prompt in prompts.values():
            totals.moves[player.name] += sum(config.game.moves(prompt).values())


def fixed_players(config: RunConfig) -> list[PlayerId]:
    """The players that do not learn."""
    return [PlayerId(name) for name, player in config.players.items() if not player.learns]


def past_generations(learner: PlayerId) -> list[PlayerId]:
    """The generations of a learner before this one, newest first."""
    return possible_generations(learner.name)[MOST_GENERATIONS - learner.generation :]


@cache
def possible_generations(name: str) -> list[PlayerId]:
    """Every generation that a player can have in a run, newest first."""
    return [PlayerId(name, age) for age in range(MOST_GENERATIONS - 1, -1, -1)]


# -- measuring


def measuring_work(config: RunConfig, split: PromptSplit) -> Workload:
    """The work of the evaluation and of the further measures, over all measured generations."""
    rosters = expected_generations(config.turns, config.learning, config.generations)
    measured = [
        learners
        for t, (learners, _) in enumerate(rosters)
        if config.evaluate.due(t, config.generations)
    ]
    run_plan = EvaluationPlan(
        config.game,
        measured,
        fixed_players(config),
        config.schedule.player_of_role,
        split.held_out,
        split.test,
        config.judge_of,
    )
    evaluation = config.evaluate
    work = [evaluation.planned(run_plan)]
    for part in config.measures:
        samples = part.sample_count(evaluation)
        played = evaluation.plays and samples == getattr(evaluation, "samples", None)
        work.append(part.planned(run_plan, samples, played))
    judged = []
    moves_of: Counter[str] = Counter()
    for each in work:
        judged += each.judged
        moves_of.update(each.moves_of or dict.fromkeys(config.players, each.moves))
    return Workload(
        sum(each.matches for each in work),
        sum(each.moves for each in work),
        judged,
        moves_of,
        sum(each.meetings for each in work),
    )
