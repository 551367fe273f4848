"""The page of a run's report and its headlines; of long runs' matches a random sample."""

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from equipoise.people.vote_results import people_sections
from equipoise.players.local import Local
from equipoise.report.best_responses import best_response, best_responses
from equipoise.report.history import SAMPLE, history, measures_type, records
from equipoise.report.match_cards import CARDS, match_cards, match_up_table, tokens
from equipoise.runs.directory import RunDirectory
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
    measured, kind = history(run, beside), measures_type(run)
    recorded = records(run, sample)
    size = SampleSize(len(recorded.sample.matches), recorded.sample.total)
    totals = counts(run, recorded.stages)
    accounts = [Account(name, spent) for name, spent in run.ledger.accounts().items()]
    shown, content_warning = match_cards(run, measured, recorded.stages, cards)
    sections = [
        headline_section(headlines(run), _trusted(run)),
        *_selection(run),
        *measured.sections(recorded),
        *_best_responses(run),
        benchmarks_section(list(against_start(run.ledger))),
        *_training(run, measured, recorded, size),
        *_judges(run, recorded, size),
        *people_sections(run),
        losses_section(list(training_curves(run)), hand_over_rows(run)),
        counts_section(totals, drop_counts(recorded.stages)),
        cost_section(accounts, tokens(recorded.sample, MEETING), size, list(_durations(run))),
        matches_section(shown, int(totals["matches"]), content_warning, kind.card_note),
        configuration_section(run.config.yaml()),
    ]
    warnings = [*cautions(run), *kind.warnings(measured, recorded)]
    if totals["unjudged share"] > UNJUDGED:
        warnings.append(
            f"{totals['unjudged share']:.1%} of the answers could not be judged; they count nowhere"
        )
    warnings += unread_reviews(recorded.sample.judgements)
    now = datetime.datetime.now(datetime.UTC)
    generation = measured.last.generation if measured.last else 0
    return Page(
        run.config.name,
        f"generation {generation} of {run.config.generations}, seed {run.config.seed}",
        now.strftime("%Y-%m-%d %H:%M UTC"),
        tuple(sections),
        tuple(warnings),
    )


def unread_reviews(judgements: Iterable[Judgement]) -> list[str]:
    """A sentence where more than UNJUDGED of the judges' reviews of gradings have no verdict."""
    reviews = [review for judgement in judgements for review in judgement.reviews]
    unread = sum(not review.battles for review in reviews)
    if unread <= UNJUDGED * len(reviews):
        return []
    return [
        f"{unread / len(reviews):.1%} of the comparisons of gradings could not be read, and taught "
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
    """Sentences on thoughts that never ended, and on a finished run that cannot have learned, or
    whose change nobody can tell.
    """
    return [*_endless_thoughts(run), *_unmoved(run)]


def thought_counts(run: RunDirectory) -> dict[str, Counter[str]]:
    """Player's name -> its `moves`, those that `thought`, and those `unfinished`, over the run."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, _, facts, _ in run.ledger.stages("play"):
        for name, count in facts.get("thoughts", {}).items():
            totals[name].update(count)
    return totals


def _endless_thoughts(run: RunDirectory) -> Iterator[str]:
    for name, count in thought_counts(run).items():
        if count["unfinished"]:
            share = count["unfinished"] / count["moves"]
            player = run.config.players.get(name)
            most = getattr(player, "max_new_tokens", None)
            setting = f"max_new_tokens = {most}" if most else "max_new_tokens"
            unlimited = isinstance(player, Local) and player.thinking_tokens is None
            limit = ", or limit them by thinking_tokens" if unlimited else ""
            yield (
                f"{share:.1%} of {count['moves']:,} answers of '{name}' thought to the end of "
                f"their tokens and are unjudged: raise {setting}{limit}"
            )


def _unmoved(run: RunDirectory) -> list[str]:
    measured, config = history(run), run.config
    last = measured.last
    if last is None or not 0 < config.generations == last.generation or not config.learning:
        return []
    moved = changes_told(measured, measured.rows())
    for row in against_start(run.ledger):
        if row.start is not None and (change := row.differences.get(row.result.headline)):
            moved.append(change.interval.low > 0 or change.interval.high < 0)
    if any(moved):
        return []
    sentence = (
        f"No change can be told from none: of {len(moved)} measures, none has moved from the "
        "start by more than its 95 % interval"
    )
    return [*([sentence] if moved else []), *_few_steps(run)]


def _few_steps(run: RunDirectory) -> Iterator[str]:
    steps: Counter[str] = Counter()
    for key, _, _, facts, _ in run.ledger.stages("learn"):
        steps[key.rpartition("/")[2]] += int(facts.get("steps", 0))
    for name in run.config.learning:
        trainer = run.config.learner_of(name)
        if trainer.needs != "game" and steps[name] < FEW_STEPS:
            yield (
                f"'{name}' took {steps[name] or 'no'} optimizer step{'s' * (steps[name] != 1)} in "
                f"the whole run, fewer than {FEW_STEPS}, and can hardly have moved; more prompts, "
                "smaller batches or a higher learner.learning_rate help"
            )


def _trusted(run: RunDirectory) -> str:
    text = which_to_trust(run)
    return f"Which to trust: {text}." if text else ""


def which_to_trust(run: RunDirectory) -> str:
    """Which score shows what was learned, where a named set is answered at temperature 0 and
    held-out prompts are not; else nothing.
    """
    players = run.config.players
    sampled = [getattr(players[name], "temperature", 0.0) for name in run.config.learning]
    sets = run.config.evaluate.sets or {}
    greedy = [name for name, of_set in sets.items() if of_set.temperature == 0]
    if not greedy or not any(sampled) or len(history(run).measurements) < 2:
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


def _best_responses(run: RunDirectory) -> Iterator[Section]:
    """The result of the run's own exploiter, or of those trained against its players."""
    own = best_response(run)
    trained = [own] if own else list(best_responses(run))
    if trained:
        yield best_responses_section(trained)


def _selection(run: RunDirectory) -> Iterator[Section]:
    facts = run.ledger.stage_facts("select")
    if facts:
        yield selection_section(SelectionRecord.read(facts))


def _training(
    run: RunDirectory, measured: History[Measures], recorded: Records, size: SampleSize
) -> Iterator[Section]:
    """Sections that compare players in training, where they play alike."""
    config = run.config
    names = list(config.players)
    if len(names) < 2 or not config.game.symmetric:
        return
    triples = measured.last.measures.cyclic_triples if measured.last else None
    unit = config.training_ratings.kind.replace("_", " ")
    warning = caution(cyclic_warning(triples or 0.0))
    ratings = list(_rating_curves(run, names))
    yield training_ratings_section(ratings, unit, warning)
    if SCORE in measures_type(run).quantities:
        scores = curves(measured, SCORE)
        clouds, correlations = _standing_against_score(ratings, scores.curves)
        yield standing_against_score_section(clouds, correlations, unit, scores.unit)
    judge = config.judge_of(config.measured[0]).name
    table = match_up_table(recorded.sample, names, judge, config.utility)
    yield match_ups_section(table, judge, size)


def _standing_against_score(
    ratings: Sequence[Curve], scores: Sequence[Curve]
) -> tuple[list[Curve], list[tuple[int, int, float | None]]]:
    """Each player's ratings over its scores; (generation, players, their rank correlation)."""
    score_of = {curve.name: dict(zip(curve.x, curve.mean, strict=True)) for curve in scores}
    clouds: list[Curve] = []
    by_generation: dict[float, list[tuple[float, float]]] = {}
    for curve in ratings:
        points: list[tuple[float, float]] = []
        for t, rating in zip(curve.x, curve.mean, strict=True):
            score = score_of.get(curve.name, {}).get(t, math.nan)
            if math.isfinite(score) and math.isfinite(rating):
                points.append((score, rating))
                by_generation.setdefault(t, []).append((score, rating))
        if points:
            own_scores, own_ratings = zip(*points, strict=True)
            clouds.append(Curve(curve.name, curve.unit, own_scores, own_ratings))
    correlations = [
        (int(t), len(points), spearman(*np.array(points).T))
        for t, points in sorted(by_generation.items())
    ]
    return clouds, correlations


def _rating_curves(run: RunDirectory, names: Iterable[str]) -> Iterator[Curve]:
    """The rating of each player after the matches of each generation; NaN where it met nobody, and
    none where nobody met another.
    """
    if not any(facts["duels"] for _, _, _, facts, _ in run.ledger.stages("rate")):
        return
    rated = [
        (float(t), {row["name"]: RatingRecord(**row).rating for row in facts["ratings"]})
        for _, t, _, facts, _ in run.ledger.stages("rate")
    ]
    for name in names:
        rows = [by_name.get(name) for _, by_name in rated]
        values = [math.nan if row is None else row.value for row in rows]
        if not any(map(math.isfinite, values)):
            continue
        yield Curve(
            name,
            "",
            tuple(t for t, _ in rated),
            tuple(values),
            tuple(math.nan if row is None else row.low for row in rows),
            tuple(math.nan if row is None else row.high for row in rows),
        )


def _judges(run: RunDirectory, recorded: Records, size: SampleSize) -> Iterator[Section]:
    """Sections on the judges; in a finite game a pay-off is no opinion."""
    if run.config.game.payoff_AM() is None:
        sample = recorded.sample
        utility = run.config.utility
        reports = judge_report(sample.matches, sample.judgements, utility)
        yield from judge_sections(reports, size)


def _durations(run: RunDirectory) -> Iterator[Duration]:
    for time in stage_times(run.ledger.stages()).values():
        yield Duration(time.stage, time.seconds)
        for part, seconds in time.parts.items():
            yield Duration(part, seconds, inside=time.stage)


# -- curves of the optimizer steps


def training_curves(run: RunDirectory) -> Iterator[Series]:
    """Loss and margin over all steps, or policy gradients' own numbers."""
    lines = [line for line in run.metrics() if "/learn/" in line["stage"]]
    for learner in run.config.learning:
        own = [line for line in lines if line["stage"].endswith(f"/learn/{learner}")]
        with_loss = [line for line in own if "loss" in line]
        if with_loss:
            yield from _curves_by_generation(learner, with_loss)
        else:
            yield from _whole_curves(learner, own)


def hand_over_rows(run: RunDirectory) -> list[tuple[str, ...]]:
    """Rows of trained players: distance from what was trained, or why unknown; share played."""
    compared = (
        (birth.player, birth.facts)
        for birth in run.ledger.players()
        if "played_gap" in birth.facts or "not_compared" in birth.facts
    )
    return [
        (
            str(player),
            facts.get("not_compared") or number(facts["played_gap"], "nats a token"),
            number(facts.get("played_share"), "%"),
        )
        for player, facts in compared
    ]


def _curves_by_generation(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """Of a learner whose steps begin anew in each generation."""
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    for name in RESTARTED:
        x: list[float] = []
        y: list[float] = []
        boundaries = []
        before = 0.0
        for stage in stages:
            part = [line for line in lines if line["stage"] == stage and name in line]
            boundaries.append(before)
            x += [before + line.get("step", i + 1) for i, line in enumerate(part)]
            y += [line[name] for line in part]
            before = x[-1] if x else before
        if x:
            yield Series(f"{name} of {learner}", tuple(x), tuple(y), tuple(boundaries))


def _whole_curves(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """One curve over all generations, of a learner that counts its few steps through."""
    for name in CONTINUED:
        part = [line for line in lines if name in line]
        x = tuple(line.get("step", i + 1) for i, line in enumerate(part))
        y = tuple(line[name] for line in part)
        if x:
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
    share = unjudged / answers if answers else 0.0
    matches = {"matches": records["matches"] - side_by_side}
    if side_by_side:
        matches["answers set side by side"] = 2 * side_by_side
    cut = {
        f"{what} with answers that were cut": number
        for what in ("pairs", "episodes")
        if (number := sum(s.facts.get(f"cut_{what}", 0) for s in stages))
    }
    thoughts: Counter[str] = Counter()
    for of_player in thought_counts(run).values():
        thoughts.update(of_player)
    thinking = {
        "answers with thoughts": thoughts["thought"],
        "thoughts without an end share": thoughts["unfinished"] / max(1, thoughts["moves"]),
    }
    return {
        "prompts": records["prompts"],
        **matches,
        **(thinking if thoughts else {}),
        "judgements": records["judgements"],
        "answers judged": round(answers - unjudged),
        "unjudged share": share if answers else _share_under_way(run),
        "pairs": records["pairs"],
        **cut,
        **({"episodes": records["episodes"]} if records["episodes"] else {}),
        "log-probabilities kept": records["logprobs"],
        "seconds": round(sum(t.seconds for t in stage_times(run.ledger.stages()).values())),
    }


def _share_under_way(run: RunDirectory) -> float:
    """The share of judgements without any score, of stages that are not finished, too."""
    counted = [(n, missing) for _, part, n, missing in run.ledger.judges() if part != "benchmark"]
    total = sum(n for n, _ in counted)
    return sum(missing for _, missing in counted) / total if total else 0.0


def drop_counts(stages: Sequence[StageRecord]) -> dict[str, int]:
    """Numbers of what was left out, by what it was and the reason."""
    totals: Counter[str] = Counter()
    for stage in stages:
        reasons = stage.facts.get("dropped", {})
        for what in ("pairs", "episodes", "prompts"):
            if what in stage.facts:
                totals.update({f"{what}: {why}": n for why, n in reasons.items()})
        unjudged = stage.facts.get("reasons", {})
        totals.update({f"judging: {why}": n for why, n in unjudged.items()})
    return dict(totals)
