"""The page of a run's report and its headlines; of long runs' matches a random sample."""

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from equipoise.blocks.html import Page
from equipoise.blocks.league_sections import (
    caution,
    match_ups_section,
    standing_against_score_section,
    training_ratings_section,
)
from equipoise.blocks.learning_sections import (
    best_responses_section,
    headline_section,
    losses_section,
)
from equipoise.blocks.recorded_sections import (
    Account,
    Duration,
    configuration_section,
    cost_section,
    counts_section,
    matches_section,
)
from equipoise.blocks.section import Change, Curve, Headline, SampleSize, Section, Series, number
from equipoise.evaluation.judge_opinions import spearman
from equipoise.evaluation.judge_report import judge_report
from equipoise.evaluation.judge_sections import judge_sections
from equipoise.evaluation.last_test import SelectionRecord, selection_section
from equipoise.evaluation.league_measures import RatingRecord
from equipoise.evaluation.measures import (
    SCORE,
    History,
    Measurement,
    Measures,
    Records,
    Sample,
    StageRecord,
    changes_told,
    curves,
)
from equipoise.evaluation.sets.results_section import (
    benchmark_changes,
    benchmark_headlines,
    benchmarks_section,
)
from equipoise.learners.base import FEW_STEPS
from equipoise.ledger.benchmark_results import against_start
from equipoise.ledger.ledger import MEETING, FinishedStage
from equipoise.payoffs.cycles import cyclic_warning
from equipoise.people.calibrated_judges import calibration_sections
from equipoise.people.vote_results import people_sections
from equipoise.players.local import Local
from equipoise.ratings.base import Rating
from equipoise.report.best_responses import best_response, best_responses
from equipoise.report.history import SAMPLE, history, measures_type, records
from equipoise.report.match_cards import CARDS, match_cards, match_up_table, tokens
from equipoise.runs.consent import changed_parts
from equipoise.runs.directory import RunDirectory
from equipoise.runs.first_generation import first_step_notes
from equipoise.types import Judgement

UNJUDGED = 0.02  # share of the answers above which the page says so first
# Numbers that are logged by learners whose steps begin anew in each generation, and by others.
RESTARTED = ("loss", "margin", "accuracy")
CONTINUED = ("policy_loss", "value_loss", "kl", "grad_norm", "reward")

Line = Mapping[str, Any]  # one line of metrics.jsonl


def page(
    run: RunDirectory,
    cards: int = CARDS,
    sample: int = SAMPLE,
    beside: Mapping[str, Measurement[Measures]] | None = None,
) -> Page:
    """Everything that the report shows of `run`, finished or not.

    Args: cards: matches in the browser; sample: matches read for the sections on who met and judged
    whom; beside: measurements of other runs, by title. Raises RunError for a measurement that this
    version cannot read.
    """
    kind = measures_type(run)
    measured = history(run, beside)
    recorded = records(run, sample)
    titles = run.config.judge_titles
    sampled = replace(recorded.sample, judgements=titled(recorded.sample.judgements, titles))
    size = SampleSize(len(sampled.matches), sampled.total)
    totals = counts(run, recorded.stages)
    compared = list(against_start(run.ledger))

    trusted = which_to_trust(run)
    sentences = [f"Which to trust: {trusted}."] if trusted else []
    for note in first_step_notes(run.config):
        sentences.append(f"{note[0].upper()}{note[1:]}.")
    lead = " ".join(sentences)
    sections = [headline_section(headlines(run), lead)]
    selection = run.ledger.stage_facts("select")
    if selection:
        sections.append(selection_section(SelectionRecord.read(selection)))
    sections += measured.sections(recorded)
    own = best_response(run)
    exploiters = [own] if own else list(best_responses(run))
    if exploiters:
        sections.append(best_responses_section(exploiters))
    sections.append(benchmarks_section(compared))
    sections += training_sections(run, measured, recorded, size)
    if run.config.game.payoff_AM() is None:  # in a finite game a pay-off is no opinion
        reports = judge_report(sampled.matches, sampled.judgements, run.config.utility)
        sections += judge_sections(reports, size)
    sections += people_sections(run)
    sections += calibration_sections(run)
    if run.config.learning:
        sections.append(losses_section(list(training_curves(run)), hand_over_rows(run)))
    used = dict(totals)
    if not run.config.learning:  # nothing was to be learned from
        for name in ("pairs", "log-probabilities kept"):
            used.pop(name, None)
    sections.append(counts_section(used, drop_counts(recorded.stages)))
    sections.append(cost_of_run(run, sampled, size))
    shown, content_warning = match_cards(run, measured, recorded.stages, cards)
    matches = int(totals["matches"])
    sections.append(matches_section(shown, matches, content_warning, kind.card_note))
    sections.append(configuration_section(run.config.yaml()))

    warnings = cautions(run)
    warnings += kind.warnings(measured, recorded)
    if totals["unjudged share"] > UNJUDGED:
        warnings.append(
            f"{totals['unjudged share']:.1%} of the answers could not be judged; they count nowhere"
        )
    warnings += unread_reviews(sampled.judgements)
    now = datetime.datetime.now(datetime.UTC)
    generation = measured.last.generation if measured.last else 0
    config = run.config
    subtitle = f"generation {generation} of {config.generations}, seed {config.seed}"
    if not config.generations:
        several = "player" if len(config.players) == 1 else "players"
        subtitle = f"{len(config.players)} {several}, measured as they are; seed {config.seed}"
    return Page(
        config.name, subtitle, now.strftime("%Y-%m-%d %H:%M UTC"), tuple(sections), tuple(warnings)
    )


def titled(judgements: Iterable[Judgement], titles: Mapping[str, str]) -> list[Judgement]:
    """Judgements whose judges, and votes in their names, are called as readers know them."""
    renamed = []
    for judgement in judgements:
        name = judgement.judge
        title = titles.get(name, name)
        votes = []
        for vote in judgement.votes:
            if vote.by == name:
                vote = msgspec.structs.replace(vote, by=title)
            votes.append(vote)
        renamed.append(msgspec.structs.replace(judgement, judge=title, votes=tuple(votes)))
    return renamed


def cost_of_run(run: RunDirectory, sample: Sample, size: SampleSize) -> Section:
    """The section on accounts, tokens and times."""
    accounts = [Account(name, spent) for name, spent in run.ledger.accounts().items()]
    durations = []
    for time in stage_times(run.ledger.stages()).values():
        durations.append(Duration(time.stage, time.seconds))
        for part, seconds in time.parts.items():
            durations.append(Duration(part, seconds, inside=time.stage))
    spent = tokens(sample, MEETING)
    return cost_section(accounts, spent, size, durations, run.config.currency)


def unread_reviews(judgements: Iterable[Judgement]) -> list[str]:
    """A sentence where more than UNJUDGED of the judges' reviews of gradings have no verdict."""
    reviews = 0
    unread = 0
    for judgement in judgements:
        reviews += len(judgement.reviews)
        unread += sum(not review.battles for review in judgement.reviews)
    if unread <= UNJUDGED * reviews:
        return []
    return [
        f"{unread / reviews:.1%} of the comparisons of gradings could not be read, and taught "
        "nothing; a shorter question (judge.meta_text), a longer max_length or more max_new_tokens "
        "help"
    ]


def headlines(run: RunDirectory) -> Iterator[Headline]:
    """The numbers that matter, the newest generation against the start."""
    yield from history(run).headlines()
    yield from benchmark_headlines(list(against_start(run.ledger)))
    facts = run.ledger.stage_facts("select")
    if facts:
        yield from SelectionRecord.read(facts).headlines()


def cautions(run: RunDirectory) -> list[str]:
    """Sentences on parts that were edited between generations, on thoughts that never ended, and
    on a finished run that cannot have learned, or whose change nobody can tell.
    """
    changed = [str(each) for each in changed_parts(run.ledger)]
    return [*changed, *endless_thoughts(run), *unmoved(run)]


def thought_counts(run: RunDirectory) -> dict[str, Counter[str]]:
    """Player's name -> its `moves`, those that `thought`, and those `unfinished`, over the run."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for stage in run.ledger.stages("play"):
        for name, count in stage.facts.get("thoughts", {}).items():
            totals[name].update(count)
    return totals


def endless_thoughts(run: RunDirectory) -> Iterator[str]:
    """Sentences on players whose thoughts used up their tokens."""
    for name, count in thought_counts(run).items():
        if not count["unfinished"]:
            continue
        share = count["unfinished"] / count["moves"]
        player = run.config.players.get(name)
        setting = "max_new_tokens"
        most = getattr(player, "max_new_tokens", None)
        if most:
            setting = f"max_new_tokens = {most}"
        limit = ""
        if isinstance(player, Local) and player.thinking_tokens is None:
            limit = ", or limit them by thinking_tokens"
        yield (
            f"{share:.1%} of {count['moves']:,} answers of '{name}' thought to the end of "
            f"their tokens and are unjudged: raise {setting}{limit}"
        )


def unmoved(run: RunDirectory) -> list[str]:
    """Sentences on a finished run none of whose measures has moved."""
    config = run.config
    measured = history(run)
    last = measured.last
    if last is None or not config.learning:
        return []
    if config.generations == 0 or last.generation != config.generations:
        return []
    moved = changes_told(measured, measured.rows())
    for row in against_start(run.ledger):
        change = row.differences.get(row.result.headline)
        if row.start is not None and change:
            moved.append(change.interval.low > 0 or change.interval.high < 0)
    if any(moved):
        return []
    sentences = []
    if moved:
        sentences.append(
            f"No change can be told from none: of {len(moved)} measures, none has moved from the "
            "start by more than its 95 % interval"
        )
    sentences += few_steps(run)
    return sentences


def few_steps(run: RunDirectory) -> Iterator[str]:
    """Sentences on learners that took too few optimizer steps to move."""
    steps: Counter[str] = Counter()
    for stage in run.ledger.stages("learn"):
        learner = stage.key.rpartition("/")[2]
        steps[learner] += int(stage.facts.get("steps", 0))
    for name in run.config.learning:
        trainer = run.config.learner_of(name)
        if trainer.needs == "game" or steps[name] >= FEW_STEPS:
            continue
        plural = "" if steps[name] == 1 else "s"
        yield (
            f"'{name}' took {steps[name] or 'no'} optimizer step{plural} in "
            f"the whole run, fewer than {FEW_STEPS}, and can hardly have moved; more prompts, "
            "smaller batches or a higher learner.learning_rate help"
        )


def which_to_trust(run: RunDirectory) -> str:
    """Which score shows what was learned, where a named set is answered at temperature 0 and
    held-out prompts are not; else nothing.
    """
    players = run.config.players
    sets = run.config.evaluate.sets or {}
    greedy = [name for name, of_set in sets.items() if of_set.temperature == 0]
    sampled = [getattr(players[name], "temperature", 0.0) for name in run.config.learning]
    if not greedy or not any(sampled):
        return ""
    if len(history(run).measurements) < 2:
        return ""
    return (
        f"{', '.join(greedy)} (temperature 0); sampled at {max(sampled):g}, the held-out score "
        "also rises where the player only becomes surer of what it knew"
    )


def changes(run: RunDirectory) -> list[Change]:
    """Changes from the first measurement to the last."""
    measured = history(run)
    if len(measured.measurements) < 2:
        return []
    of_sets = benchmark_changes(list(against_start(run.ledger)))
    return [*measured.changes(), *of_sets]


def training_sections(
    run: RunDirectory, measured: History[Measures], recorded: Records, size: SampleSize
) -> Iterator[Section]:
    """Sections that compare players in training, where they play alike."""
    config = run.config
    names = list(config.players)
    if len(names) < 2 or not config.game.symmetric or not config.generations:
        return
    triples = 0.0
    if measured.last:
        triples = measured.last.measures.cyclic_triples or 0.0
    warning = caution(cyclic_warning(triples))
    unit = config.training_ratings.kind.replace("_", " ")
    ratings = list(rating_curves(run, names))
    yield training_ratings_section(ratings, unit, warning)
    if SCORE in measures_type(run).quantities:
        scores = curves(measured, SCORE)
        clouds, correlations = standing_against_score(ratings, scores.curves)
        yield standing_against_score_section(clouds, correlations, unit, scores.unit)
    judge = config.judge_of(config.measured[0]).name
    table = match_up_table(recorded.sample, names, judge, config.utility)
    yield match_ups_section(table, config.judge_titles[judge], size)


def standing_against_score(
    ratings: Sequence[Curve], scores: Sequence[Curve]
) -> tuple[list[Curve], list[tuple[int, int, float | None]]]:
    """Each player's ratings over its scores; (generation, players, their rank correlation)."""
    scores_of = {curve.name: dict(zip(curve.x, curve.mean, strict=True)) for curve in scores}
    clouds: list[Curve] = []
    by_generation: dict[float, list[tuple[float, float]]] = {}
    for curve in ratings:
        score_at = scores_of.get(curve.name, {})
        points: list[tuple[float, float]] = []
        for t, rating in zip(curve.x, curve.mean, strict=True):
            score = score_at.get(t, math.nan)
            if math.isfinite(score) and math.isfinite(rating):
                points.append((score, rating))
                by_generation.setdefault(t, []).append((score, rating))
        if points:
            own_scores, own_ratings = zip(*points, strict=True)
            clouds.append(Curve(curve.name, curve.unit, own_scores, own_ratings))
    correlations = []
    for t, points in sorted(by_generation.items()):
        score_N, rating_N = np.array(points).T
        correlations.append((int(t), len(points), spearman(score_N, rating_N)))
    return clouds, correlations


def rating_curves(run: RunDirectory, names: Iterable[str]) -> Iterator[Curve]:
    """The rating of each player after the matches of each generation; NaN where it met nobody, and
    none where nobody met another.
    """
    stages = run.ledger.stages("rate")
    if not any(stage.facts["duels"] for stage in stages):
        return
    generations = tuple(float(stage.generation) for stage in stages)
    unknown = Rating("", math.nan, math.nan, math.nan)
    ratings_of: dict[str, list[Rating]] = {name: [] for name in names}
    for stage in stages:
        rated = {row["name"]: RatingRecord(**row).rating for row in stage.facts["ratings"]}
        for name, ratings in ratings_of.items():
            ratings.append(rated.get(name, unknown))
    for name, ratings in ratings_of.items():
        values = tuple(rating.value for rating in ratings)
        if any(map(math.isfinite, values)):
            low = tuple(rating.low for rating in ratings)
            high = tuple(rating.high for rating in ratings)
            yield Curve(name, "", generations, values, low, high)


# -- curves of the optimizer steps


def training_curves(run: RunDirectory) -> Iterator[Series]:
    """Loss and margin over all steps, or policy gradients' own numbers."""
    lines_of: dict[str, list[Line]] = defaultdict(list)
    for line in run.metrics():
        _, is_learning, learner = line["stage"].rpartition("/learn/")
        if is_learning:
            lines_of[learner].append(line)
    for learner in run.config.learning:
        own = lines_of[learner]
        with_loss = [line for line in own if "loss" in line]
        if with_loss:
            yield from curves_by_generation(learner, with_loss)
        else:
            yield from whole_curves(learner, own)


def hand_over_rows(run: RunDirectory) -> list[tuple[str, ...]]:
    """Rows of trained players: distance from what was trained, or why unknown; share played."""
    rows = []
    for birth in run.ledger.players():
        facts = birth.facts
        if "played_gap" not in facts and "not_compared" not in facts:
            continue
        gap = facts.get("not_compared")
        if not gap:
            gap = number(facts["played_gap"], "nats a token")
        share = facts.get("below_precision")
        if not share:
            share = number(facts.get("played_share"), "%")
        rows.append((str(birth.player), gap, share))
    return rows


def curves_by_generation(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """Of a learner whose steps begin anew in each generation."""
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    for name in RESTARTED:
        x: list[float] = []
        y: list[float] = []
        boundaries = []
        before = 0.0
        for stage in stages:
            boundaries.append(before)
            part = [line for line in lines if line["stage"] == stage and name in line]
            for step, line in enumerate(part, 1):
                x.append(before + line.get("step", step))
                y.append(line[name])
            if x:
                before = x[-1]
        if x:
            yield Series(f"{name} of {learner}", tuple(x), tuple(y), tuple(boundaries))


def whole_curves(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """One curve over all generations, of a learner that counts its few steps through."""
    for name in CONTINUED:
        part = [line for line in lines if name in line]
        if part:
            x = tuple(line.get("step", count) for count, line in enumerate(part, 1))
            y = tuple(line[name] for line in part)
            yield Series(f"{name.replace('_', ' ')} of {learner}", x, y)


@dataclass
class StageTime:
    """Seconds of all stages of one name; `parts` are the stages inside it."""

    stage: str
    own: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Its own seconds and those of its parts."""
        return self.own + sum(self.parts.values())


def stage_times(stages: Iterable[FinishedStage]) -> dict[str, StageTime]:
    """The times of a run's finished stages, given in order of finishing, by name."""
    times: dict[str, StageTime] = {}
    for stage in stages:
        name = stage.within or stage.stage
        time = times.setdefault(name, StageTime(name))
        if stage.within is None:
            time.own += stage.seconds
        else:
            time.parts[stage.stage] = time.parts.get(stage.stage, 0.0) + stage.seconds
    return {name: time for name, time in times.items() if time.seconds}


# The game's name stands before the turns of a record, so that these stay unread.
IS_MEETING = f"""instr(substr(record, 1, 400), '"game":"{MEETING}"') > 0"""


def counts(run: RunDirectory, stages: Sequence[StageRecord]) -> dict[str, int | float]:
    """Numbers of matches, judgements, pairs, …; a name that ends in "share" is a share."""
    records = run.ledger.counts()
    ((side_by_side,),) = run.ledger.rows(
        "SELECT count(*) FROM matches WHERE split IN ('held_out', 'benchmark', 'people') "
        f"AND {IS_MEETING}"
    )
    judged = [stage.facts for stage in stages if stage.stage == "judge"]
    failed = run.ledger.failed_stage()
    if failed is not None and failed.stage == "judge" and "answers" in failed.facts:
        judged.append(failed.facts)
    answers = sum(facts["answers"] for facts in judged)
    unjudged = sum(facts["answers"] * facts["unjudged_share"] for facts in judged)
    thoughts: Counter[str] = Counter()
    for of_player in thought_counts(run).values():
        thoughts.update(of_player)

    named: dict[str, int | float] = {"prompts": records["prompts"]}
    named["matches"] = records["matches"] - side_by_side
    if side_by_side:
        named["answers set side by side"] = 2 * side_by_side
    if thoughts:
        named["answers with thoughts"] = thoughts["thought"]
        endless = thoughts["unfinished"] / max(1, thoughts["moves"])
        named["thoughts without an end share"] = endless
    named["judgements"] = records["judgements"]
    named["answers judged"] = round(answers - unjudged)
    if answers:
        named["unjudged share"] = unjudged / answers
    else:
        named["unjudged share"] = share_under_way(run)
    named["pairs"] = records["pairs"]
    for what in ("pairs", "episodes"):
        cut = sum(stage.facts.get(f"cut_{what}", 0) for stage in stages)
        if cut:
            named[f"{what} with answers that were cut"] = cut
    if records["episodes"]:
        named["episodes"] = records["episodes"]
    named["log-probabilities kept"] = records["logprobs"]
    times = stage_times(run.ledger.stages()).values()
    named["seconds"] = round(sum(time.seconds for time in times))
    return named


def share_under_way(run: RunDirectory) -> float:
    """The share of judgements without any score, of stages that are not finished, too."""
    total = 0
    missing = 0
    for _, part, count, without_score in run.ledger.judges():
        if part != "benchmark":
            total += count
            missing += without_score
    if not total:
        return 0.0
    return missing / total


def drop_counts(stages: Sequence[StageRecord]) -> dict[str, int]:
    """Numbers of what was left out, by what it was and the reason."""
    totals: Counter[str] = Counter()
    for stage in stages:
        for what in ("pairs", "episodes", "prompts"):
            if what in stage.facts:
                for reason, count in stage.facts.get("dropped", {}).items():
                    totals[f"{what}: {reason}"] += count
        for reason, count in stage.facts.get("reasons", {}).items():
            totals[f"judging: {reason}"] += count
    return dict(totals)
