"""Matches as the report shows them: spread-out cards, a table of match-ups, tokens spent."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from equipoise.answer import public_move
from equipoise.blocks.recorded_sections import CardAnswer, MatchCard, Tokens
from equipoise.evaluation.judge_opinions import voter_of
from equipoise.evaluation.measures import History, Measures, Sample, StageRecord
from equipoise.ledger.ledger import MEETING
from equipoise.payoffs.table import Meeting, PayoffTable, preference, tally
from equipoise.report.history import measures_type, prompts
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, PlayerId

CARDS = 400  # matches shown, unless a caller wants fewer


def match_cards(
    run: RunDirectory, history: History[Measures], stages: Sequence[StageRecord], most: int = CARDS
) -> tuple[list[MatchCard], str]:
    """About `most` matches, and a warning to readers before they are shown, or ""."""
    matches = _sample_matches(run, most)
    asked_prompts = prompts(run, {match.prompt for match in matches})
    judgements = _judgements(run, stages, matches)
    game, kind = run.config.game, measures_type(run)
    compares = run.config.measuring_judge.compares
    cards, warnings = [], []
    for match in matches:
        given = judgements.get(match.id, [])
        prompt = asked_prompts.get(match.prompt)
        card = prompt and kind.card(match, prompt, given, history)
        unjudged = (
            "compared with other players' answers only"
            if compares and match.split != "train"
            else "not judged yet"
        )
        cards.append(card or _card(match, given, history.utility, unjudged))
        warnings.append("" if prompt is None else game.content_warning(prompt))
    return cards, next(filter(None, warnings), "")


def _sample_matches(run: RunDirectory, most: int) -> list[Match]:
    """Equally many matches of each split and generation."""
    rows = run.ledger.rows("SELECT DISTINCT split, generation FROM matches")
    parts = sorted(rows, key=lambda part: (part[1], part[0]))
    each = max(1, most // max(1, len(parts)))
    return [
        match
        for split, generation, *_ in parts
        for match in run.ledger.matches(split, generation, limit=each)
        if match.game != MEETING
    ]


def _judgements(
    run: RunDirectory, stages: Sequence[StageRecord], matches: Sequence[Match]
) -> dict[str, list[Judgement]]:
    ids = [match.id for match in matches]
    by_match: dict[str, list[Judgement]] = {}
    for judge in _judges(run, stages):
        for match, judgement in run.ledger.judgements_of(ids, judge).items():
            by_match.setdefault(match, []).append(judgement)
    return by_match


def _judges(run: RunDirectory, stages: Sequence[StageRecord]) -> list[str]:
    """The names of the judges: first those that teach or measure, then any others."""
    config = run.config
    chosen = [config.judge_of(name) for name in config.learning]
    if config.evaluate.judge:
        chosen.append(config.evaluate.judge)
    besides = [
        stage.facts["judge"]
        for stage in stages
        if stage.stage == "judge" and "judge" in stage.facts
    ]
    return list(dict.fromkeys([*(judge.name for judge in chosen), *besides]))


def _card(match: Match, judgements: Sequence[Judgement], utility: str, unjudged: str) -> MatchCard:
    """A match with the first judge's scores; other numbers beside each answer."""
    answers = []
    for turn in match.turns:
        move = public_move(turn.move)
        answers.append(
            CardAnswer(
                str(match.seats[turn.seat]),
                move.text or move.error,
                judgements[0].score(turn.seat, utility) if judgements else None,
                ", ".join(_notes(turn.move.finish, turn.seat, judgements, utility)),
                thoughts=move.thoughts,
            )
        )
    prompt = match.turns[0].view.messages if match.turns else ()
    reason = reasons(judgements) if judgements else unjudged
    return MatchCard(match.id, match.generation, match.split, prompt, tuple(answers), reason)


def reasons(judgements: Sequence[Judgement]) -> str:
    """The reasons why the match is unjudged, by each judge that gives one."""
    if len(judgements) == 1:
        return judgements[0].reason
    return "; ".join(
        f"{judgement.judge}: {judgement.reason}" for judgement in judgements if judgement.reason
    )


def _notes(finish: str, seat: str, judgements: Sequence[Judgement], utility: str) -> Iterator[str]:
    """The answer's ending, and everything that was scored but the first judge's utility."""
    if finish != "stop":
        yield f"ended by {finish}"
    for i, judgement in enumerate(judgements):
        judge = f"{judgement.judge}: " if i else ""
        for name, value in judgement.utilities(seat).items():
            if i or name != utility:
                yield f"{judge}{name} {value:g}"


def match_up_table(
    sample: Sample, names: Sequence[str], judge: str, utility: str
) -> PayoffTable | None:
    """Pay-offs of players in training matches, by that judge's scores; None where no two met."""
    judgements = {
        judgement.match: judgement for judgement in sample.judgements if judgement.judge == judge
    }
    training = [match for match in sample.matches if match.split == "train"]
    results = [
        result
        for match in training
        for result in _results(match, judgements.get(match.id), utility)
    ]
    return tally(results, names) if results else None


def _results(match: Match, judgement: Judgement | None, utility: str) -> Iterator[Meeting]:
    """Mean judged result over the seats of each two players of a match."""
    scores: Mapping[str, float] = {} if judgement is None else judgement.by_seat(utility)
    seats = sorted(match.seats.items(), key=lambda seat: seat[1])
    values: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for (a, first), (b, second) in combinations(seats, 2):
        if first.name != second.name:
            value = preference(scores.get(a), scores.get(b))
            values[first.name, second.name].append(value)
    for (first, second), every in values.items():
        judged = [value for value in every if value is not None]
        yield Meeting(first, second, fmean(judged) if judged else None, match.prompt)


def tokens(sample: Sample, meeting_game: str) -> list[Tokens]:
    """Tokens by player and by other judge, scaled to the whole run.

    Matches of the game `meeting_game` repeat recorded answers, which cost nothing again.
    """
    playing = _playing(sample, meeting_game)
    judging = _judging(sample)
    usages = []
    for name in dict.fromkeys([*sorted(playing), *sorted(judging)]):
        counts = (*playing.get(name, (0, 0, 0)), judging.get(name, 0))
        usages.append(Tokens(name, *(round(count * sample.scale) for count in counts)))
    return usages


def _playing(sample: Sample, meeting_game: str) -> dict[str, list[int]]:
    """Player -> [answers, tokens generated, tokens read]."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for match in sample.matches:
        if match.game == meeting_game:
            continue
        for turn in match.turns:
            row = counts[match.seats[turn.seat].name]
            row[0] += 1
            row[1] += turn.move.tokens
            row[2] += turn.move.prompt_tokens
    return counts


def _judging(sample: Sample) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for judgement in sample.judgements:
        for vote in judgement.votes:
            if vote.tokens:
                counts[voter_of(vote)] += vote.tokens
        for review in judgement.reviews:
            counts[PlayerId.parse(review.by).name] += review.tokens
    return counts
