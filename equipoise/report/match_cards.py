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
    config = run.config
    kind = measures_type(run)
    matches = sample_matches(run, most)
    asked_prompts = prompts(run, {match.prompt for match in matches})
    judgements = judgements_by_match(run, stages, matches)
    cards: list[MatchCard] = []
    warning = ""
    for match in matches:
        given = judgements.get(match.id, [])
        prompt = asked_prompts.get(match.prompt)
        card = None
        if prompt is not None:
            card = kind.card(match, prompt, given, history)
            warning = warning or config.game.content_warning(prompt)
        if card is None:
            unjudged = "not judged yet"
            if config.measuring_judge.compares and match.split != "train":
                unjudged = "compared with other players' answers only"
            card = plain_card(match, given, history.utility, unjudged)
        cards.append(card)
    return cards, warning


def sample_matches(run: RunDirectory, most: int) -> list[Match]:
    """Equally many matches of each split and generation."""
    rows = run.ledger.rows("SELECT DISTINCT split, generation FROM matches")
    parts = sorted(rows, key=lambda part: (part[1], part[0]))
    each = max(1, most // max(1, len(parts)))
    sampled: list[Match] = []
    for split, generation in parts:
        matches = run.ledger.matches(split, generation, limit=each)
        sampled += [match for match in matches if match.game != MEETING]
    return sampled


def judgements_by_match(
    run: RunDirectory, stages: Sequence[StageRecord], matches: Sequence[Match]
) -> dict[str, list[Judgement]]:
    """Match -> its judgements, the teaching judge's first."""
    ids = [match.id for match in matches]
    by_match: dict[str, list[Judgement]] = {}
    for judge in judge_names(run, stages):
        for match, judgement in run.ledger.judgements_of(ids, judge).items():
            by_match.setdefault(match, []).append(judgement)
    return by_match


def judge_names(run: RunDirectory, stages: Sequence[StageRecord]) -> list[str]:
    """The names of the judges: first those that teach or measure, then any others."""
    config = run.config
    names = [config.judge_of(name).name for name in config.learning]
    if config.evaluate.judge:
        names.append(config.evaluate.judge.name)
    for stage in stages:
        if stage.stage == "judge" and "judge" in stage.facts:
            names.append(stage.facts["judge"])
    return list(dict.fromkeys(names))


def plain_card(
    match: Match, judgements: Sequence[Judgement], utility: str, unjudged: str
) -> MatchCard:
    """A match with the first judge's scores; other numbers beside each answer."""
    answers = []
    for turn in match.turns:
        move = public_move(turn.move)
        score = None
        if judgements:
            score = judgements[0].score(turn.seat, utility)
        notes = list(answer_notes(turn.move.finish, turn.seat, judgements, utility))
        if move.error:
            notes.insert(0, f"no answer: {move.error}")
        answer = CardAnswer(
            player=str(match.seats[turn.seat]),
            text=move.text,
            score=score,
            note=", ".join(notes),
            thoughts=move.thoughts,
        )
        answers.append(answer)
    prompt = match.turns[0].view.messages if match.turns else ()
    reason = reasons(judgements) if judgements else unjudged
    return MatchCard(match.id, match.generation, match.split, prompt, tuple(answers), reason)


def reasons(judgements: Sequence[Judgement]) -> str:
    """The reasons why the match is unjudged, by each judge that gives one."""
    if len(judgements) == 1:
        return judgements[0].reason
    given = [each for each in judgements if each.reason]
    return "; ".join(f"{judgement.judge}: {judgement.reason}" for judgement in given)


def answer_notes(
    finish: str, seat: str, judgements: Sequence[Judgement], utility: str
) -> Iterator[str]:
    """The answer's ending, and everything that was scored but the first judge's utility."""
    if finish != "stop":
        yield f"ended by {finish}"
    for number, judgement in enumerate(judgements):
        is_first = number == 0
        judge = "" if is_first else f"{judgement.judge}: "
        for name, value in judgement.utilities(seat).items():
            if not (is_first and name == utility):
                yield f"{judge}{name} {value:g}"


def match_up_table(
    sample: Sample, names: Sequence[str], judge: str, utility: str
) -> PayoffTable | None:
    """Pay-offs of players in training matches, by that judge's scores; None where no two met."""
    judgements = {each.match: each for each in sample.judgements if each.judge == judge}
    results: list[Meeting] = []
    for match in sample.matches:
        if match.split == "train":
            results += meetings(match, judgements.get(match.id), utility)
    if not results:
        return None
    return tally(results, names)


def meetings(match: Match, judgement: Judgement | None, utility: str) -> Iterator[Meeting]:
    """Mean judged result over the seats of each two players of a match."""
    scores: Mapping[str, float] = {}
    if judgement is not None:
        scores = judgement.by_seat(utility)
    seats = sorted(match.seats.items(), key=lambda seat: seat[1])
    judged: dict[tuple[str, str], list[float]] = {}
    for (a, first), (b, second) in combinations(seats, 2):
        if first.name != second.name:
            values = judged.setdefault((first.name, second.name), [])
            value = preference(scores.get(a), scores.get(b))
            if value is not None:
                values.append(value)
    for (first, second), values in judged.items():
        mean = fmean(values) if values else None
        yield Meeting(first, second, mean, match.prompt)


def tokens(sample: Sample, meeting_game: str) -> list[Tokens]:
    """Tokens by player and by other judge, scaled to the whole run.

    Matches of the game `meeting_game` repeat recorded answers, which cost nothing again.
    """
    playing = tokens_of_playing(sample, meeting_game)
    judging = tokens_of_judging(sample)
    names = dict.fromkeys([*sorted(playing), *sorted(judging)])
    usages = []
    for name in names:
        counts = [*playing.get(name, (0, 0, 0)), judging.get(name, 0)]
        scaled = [round(count * sample.scale) for count in counts]
        usages.append(Tokens(name, *scaled))
    return usages


def tokens_of_playing(sample: Sample, meeting_game: str) -> dict[str, list[int]]:
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


def tokens_of_judging(sample: Sample) -> dict[str, int]:
    """Voter or reviewer -> tokens that its judging took."""
    counts: dict[str, int] = defaultdict(int)
    for judgement in sample.judgements:
        for vote in judgement.votes:
            if vote.tokens:
                counts[voter_of(vote)] += vote.tokens
        for review in judgement.reviews:
            counts[PlayerId.parse(review.by).name] += review.tokens
    return counts
