"""The stage that judges: each judge's judgement of each match, recorded in whole chunks."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.errors import NoSignal
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.question import advice, unread_reply
from equipoise.runs.contexts import judge_context
from equipoise.runs.monitor import within
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import chunks
from equipoise.types import Judgement, Match, Prompt


def judge(run: OpenRun, matches: Sequence[Match], t: int) -> list[Judgement]:
    """Have every judge that teaches somebody judge the matches of generation t that it needs."""
    if not matches:
        return []
    prompts = run.prompts.played(t)
    context = judge_context(run, t)
    judgements: list[Judgement] = []
    teachers = run.config.teachers
    for name, players in run.config.judged_players().items():
        own = [match for match in matches if any(p.name in players for p in match.seats.values())]
        if own:
            key = f"{t}/judge/{name}"
            judgements += record_judgements(run, key, teachers[name], context, own, prompts, t)
    return judgements


def record_judgements(
    run: OpenRun,
    key: str,
    judge: Judge,
    context: JudgeContext,
    matches: Sequence[Match],
    prompts: Mapping[str, Prompt],
    t: int,
    player: str = "",
) -> list[Judgement]:
    """The judge's judgement of each match in the stage `key`, made where there is none yet.

    `player`: the only player judged, if there is only one. Raises NoSignal when too many have no
    score.
    """
    ids = [match.id for match in matches]
    if not run.ledger.has_finished(key):
        run.show("judge", len(matches), t, player)
        judge_here = judge.at(context)
        with run.stage("judge", key, t) as facts:
            judge_missing(run, judge_here, matches, prompts)
            recorded = run.ledger.judgements_of(ids, judge.name)
            facts.update(count_unjudged(run, judge_here, matches, recorded))
            check_share(run, judge, facts)
    recorded = run.ledger.judgements_of(ids, judge.name)
    return [recorded[match.id] for match in matches]


def judge_missing(
    run: OpenRun, judge: Judge, matches: Sequence[Match], prompts: Mapping[str, Prompt]
) -> None:
    """Judge the matches that are not judged yet, in whole chunks; `judge` is in its context."""
    recorded = run.ledger.judgements_of([match.id for match in matches], judge.name)
    for chunk in chunks(matches, run.config.commit_every):
        if not all(match.id in recorded for match in chunk):
            seats = sum(len(match.seats) for match in chunk)
            questions = judge.questions(len(run.config.game.seats), len(run.config.players))
            with within(run.monitor, len(chunk), questions * len(chunk) or seats):
                made = run.dispatcher.judge(judge, chunk, prompts)
            run.ledger.add_judgements(zip(chunk, made, strict=True))
        run.monitor.advance(len(chunk))


def count_unjudged(
    run: OpenRun, judge: Judge, matches: Sequence[Match], judgements: Mapping[str, Judgement]
) -> dict[str, Any]:
    """The stage's facts: the seats, the share of them without a score, reasons, an unread reply."""
    missing = 0
    seats = 0
    reasons = Counter()
    for match in matches:
        judgement = judgements[match.id]
        judged = judge.judged_seats(match)
        absent = set(judged) - judgement.by_seat(run.config.utility).keys()
        seats += len(judged)
        missing += len(absent)
        if absent:
            reasons[judgement.reason or "no score for a seat"] += 1
    facts = {
        "judge": judge.name,
        "answers": seats,
        "unjudged_share": missing / max(1, seats),
        "reasons": dict(reasons),
    }
    unread = unread_reply(judgements[match.id] for match in matches)
    return {**facts, "unread": unread} if unread else facts


def check_share(run: OpenRun, judge: Judge, facts: Mapping[str, Any]) -> None:
    """Raises NoSignal where too many seats are without a score."""
    share = facts["unjudged_share"]
    unread = facts.get("unread")
    run.monitor.numbers(unjudged_share=share)
    if share <= run.config.max_unjudged:
        return
    example = f". For example: {unread}. {advice(judge, unread)}" if unread else ""
    going_on = ""
    if share < 1:
        most = math.ceil(100 * share) / 100
        going_on = f". `equipoise resume RUN -s max_unjudged={most:g}` goes on with the others"
    raise NoSignal(
        f"judge '{judge.kind}': {share:.0%} of {facts['answers']} answers have no utility "
        f"'{run.config.utility}', more than max_unjudged = {run.config.max_unjudged:.0%}. "
        f"{most_common(facts['reasons'])}{example}{going_on}"
    )


def most_common(reasons: Mapping[str, int]) -> str:
    """The two most common reasons, with their counts, and how many others there are."""
    counted = Counter(reasons).most_common(2)
    text = "; ".join(f"{count} × {reason}" for reason, count in counted)
    more = len(reasons) - len(counted)
    return f"{text}; and {more} other reasons" if more else text
