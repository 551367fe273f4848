"""From a run's ledger and metrics to the facts of its report.

Matches and judgements are read from a random sample where a run holds many, so that the
report of a long run takes seconds; the page says so. Everything else was counted when
its stage ended.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from equipoise.environments.assistance import page_facts as assisted
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.red_team import page_facts as attacked
from equipoise.evaluate.judge_report import judge_report
from equipoise.payoffs.cycles import cyclic_warning
from equipoise.report import measured
from equipoise.report.facts import (
    Account,
    Answer,
    Attack,
    Curve,
    Curves,
    Facts,
    Headline,
    MatchCard,
    Plane,
    Series,
)
from equipoise.report.terminal import Change
from equipoise.run import sampled_matches as played
from equipoise.run.arena import MEETING
from equipoise.run.directory import Run
from equipoise.types import Judgement, Match, Message, Prompt

Stage = tuple[
    str, int, str, dict[str, Any], float
]  # key, generation, stage, facts, seconds
CARDS = 400  # matches shown in the browser, spread evenly over generations and splits
SAMPLE = 5_000  # matches read with all that was said of them: some seconds where many judges vote
_IS_MEETING = f"""instr(substr(record, 1, 400), '"game":"{MEETING}"') > 0"""  # before the turns, so these stay unread


def facts(
    run: Run, cards: int = CARDS, sample: int = SAMPLE, beside: Sequence[Plane] = ()
) -> Facts:
    """Everything that the report shows of `run`, finished or not; `beside` are other
    runs of the assistant's game.
    """
    stages, found = run.ledger.stages(), _measured(run)
    learners, last = run.config.learning, found[-1][1] if found else {}
    counts, dropped = _counts(run, stages)
    payoff, own = last.get("payoff"), run.config.judge_of(learners[0]).name
    read, pool = _sample(run, sample), list(run.config.players)
    exact = run.config.game.payoff_AM() is not None  # a pay-off table is no opinion
    assistance = None
    shown, harmful = _cards(run, cards, _judges(run, stages))
    if _assists(run):
        assistance = assisted.assistance(found, beside, harmful)
    # An assistant's held-out score is its welfare, which has a section of its own.
    drawn = (
        []
        if assistance is not None and assistance.measured
        else measured.curves(learners, found)
    )
    return Facts(
        title=run.config.name,
        subtitle=f"generation {found[-1][0] if found else 0} of {run.config.generations}, seed {run.config.seed}",
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        configuration_yaml=run.config.yaml(),
        headline=tuple(headlines(run)),
        curves=tuple(
            one for group in drawn if len(learners) == 1 for one in _alone(group)
        ),
        compared=tuple(drawn if len(learners) > 1 else ()),
        losses=tuple(_losses(run)),
        players=tuple(last.get("players", ())),
        payoff_NN=None if payoff is None else np.array(payoff, float),
        se_NN=None if payoff is None else np.array(last["se"], float),
        count_NN=None if payoff is None else np.array(last["count"]),
        mixture=last.get("mixture", {}),
        exploitability=measured.exploitability(learners, found),
        cycle_share=last.get("cycle_share"),
        cyclic_triples=last.get("cyclic_triples"),
        gaps=measured.gaps(learners, found),
        ratings=tuple(measured.rating(one) for one in last.get("ratings", ())),
        rating_unit=run.config.league_ratings.kind.replace("_", " "),
        pool=tuple(pool),
        standing=tuple(
            measured.standing(
                pool, [(t, rated) for _, t, _, rated, _ in run.ledger.stages("rate")]
            )
        ),
        standing_unit=run.config.training_ratings.kind.replace("_", " "),
        met=None
        if assistance or _attacked(run)
        else played.met(read, pool, own, run.config.utility),  # other roles, other pay
        met_judge=own,
        judges={}
        if exact
        else _plain_reports(read.matches, read.judgements, run.config.utility),
        selection=measured.selection(run.ledger.finished("select")),
        accounts=tuple(
            Account(name, s.calls, s.tokens, s.money)
            for name, s in run.ledger.accounts().items()
        ),
        tokens=tuple(played.tokens(read, MEETING)),
        sample=(len(read.matches), read.total),
        counts=counts,
        dropped=dropped,
        matches=tuple(shown),
        attack=_attack(run, stages, read) if _attacked(run) else None,
        assistance=assistance,
        warnings=(
            *_warnings(last, counts),
            *(attacked.alarms(stages, found) if _attacked(run) else ()),
        ),
    )


def changes(run: Run) -> list[Change]:
    """What was measured of attack and defence or of an assistant, and every learner's
    held-out score: at first, now.
    """
    found, learners = _measured(run), run.config.learning
    rows = (
        attacked.changes(found, attacking=set(learners) == {_adversary(run)})
        if _attacked(run)
        else []
    )
    rows += assisted.changes(found)
    seen = {
        (row.before, row.after) for row in rows
    }  # a zero-sum adversary is paid its success, an assistant welfare
    return rows + [
        row
        for row in measured.changes(learners, found)
        if (row.before, row.after) not in seen
    ]


def headlines(run: Run) -> Iterator[Headline]:
    """The numbers that matter, newest generation against the start."""
    found = _measured(run)
    if _attacked(run):
        yield from attacked.headlines(found)
    told = list(assisted.headlines(found))
    yield from told
    # An assistant's held-out score is its welfare, which is told already.
    yield from (
        line
        for line in measured.headlines(run.config.learning, found)
        if not told or "score" not in line.label
    )
    yield from measured.tested(run.ledger.finished("select"))


def _plain_reports(*args):
    return {n: msgspec.to_builtins(r) for n, r in judge_report(*args).items()}


def _attacked(run: Run) -> bool:
    """Whether this is a game of attack and defence: its texts are harmful."""
    return "red_team" in (run.config.game.kind, run.config.evaluate.kind)


def _assists(run: Run) -> bool:
    """Whether this is the assistant's game."""
    return isinstance(run.config.game, Assistance)


def _adversary(run: Run) -> str | None:
    """Who plays the adversary; None where the schedule names nobody."""
    return run.config.schedule.model_dump().get("roles", {}).get("adversary")


def _attack(run: Run, stages: Sequence[Stage], read: played.Sample) -> Attack:
    """The numbers of attack and defence, and attacks of the sample by the word of the
    judge that measures.
    """
    judge = run.config.evaluate.judge or run.config.judge_of(run.config.learning[0])
    asked = _asked(run, {match.prompt for match in read.matches})
    seeds: dict[str, tuple[Message, ...]] = {
        name: prompt.messages for name, prompt in asked.items()
    }
    return attacked.attack(
        stages, _measured(run), *attacked.attacks(read, judge.name, seeds)
    )


def _asked(run: Run, wanted: Collection[str]) -> dict[str, Prompt]:
    """The prompts of these ids."""
    rows = run.ledger.rows("SELECT record FROM prompts")
    prompts = map(msgspec.json.Decoder(Prompt).decode, (record for (record,) in rows))
    return {prompt.id: prompt for prompt in prompts if prompt.id in wanted}


def _alone(group: Curves) -> Iterator[Curve]:
    return (
        replace(curve, name=f"{group.name} of {curve.name}") for curve in group.curves
    )


def _measured(run: Run) -> list[tuple[int, dict[str, Any]]]:
    return [(t, found) for _, t, _, found, _ in run.ledger.stages("measure")]


def _sample(run: Run, most: int) -> played.Sample:
    """About `most` matches and their judgements. Ids are hashes, so those below a bound
    are a random sample.
    """
    total = run.ledger.counts()["matches"]
    bound = (
        "g" if total <= most else f"{int(most / total * 16**12):012x}"
    )  # "g" is above every hexadecimal id
    matches = run.ledger.rows(
        f"SELECT record FROM matches WHERE id < '{bound}' ORDER BY rowid"
    )
    read = list(
        map(msgspec.json.Decoder(Match).decode, (record for (record,) in matches))
    )
    known = {match.id for match in read}
    said = run.ledger.rows(
        f"SELECT record FROM judgements WHERE match < '{bound}' ORDER BY rowid"
    )
    judgements = map(
        msgspec.json.Decoder(Judgement).decode, (record for (record,) in said)
    )
    return played.Sample(
        read,
        [judgement for judgement in judgements if judgement.match in known],
        max(total, len(read)),
    )


def _judges(run: Run, stages: Sequence[Stage]) -> list[str]:
    """The names of those who judged: first whoever teaches or measures, then who was
    asked besides.
    """
    config = run.config
    chosen = [
        *map(config.judge_of, config.learning),
        *([config.evaluate.judge] if config.evaluate.judge else []),
    ]
    asked = [
        found["judge"]
        for _, _, stage, found, _ in stages
        if stage == "judge" and "judge" in found
    ]
    return list(dict.fromkeys([*(judge.name for judge in chosen), *asked]))


def _losses(run: Run) -> Iterator[Series]:
    """Loss and margin over all optimizer steps, generation after generation; of policy
    gradients what they log.
    """
    lines = [line for line in run.metrics() if "/learn/" in line["stage"]]
    for learner in run.config.learning:
        own = [line for line in lines if line["stage"].endswith(f"/learn/{learner}")]
        if any("loss" in line for line in own):
            yield from _restarted(learner, [line for line in own if "loss" in line])
        else:
            yield from _continued(learner, own)


def _restarted(learner: str, own: Sequence[dict[str, Any]]) -> Iterator[Series]:
    """Of a learner whose steps begin anew in each generation."""
    for name in ("loss", "margin", "accuracy"):
        x, y, boundaries, before = [], [], [], 0.0
        for stage in dict.fromkeys(line["stage"] for line in own):
            part = [line for line in own if line["stage"] == stage and name in line]
            boundaries.append(before)
            x += [before + line.get("step", i + 1) for i, line in enumerate(part)]
            y += [line[name] for line in part]
            before = x[-1] if x else before
        if x:
            yield Series(f"{name} of {learner}", tuple(x), tuple(y), tuple(boundaries))


def _continued(learner: str, own: Sequence[dict[str, Any]]) -> Iterator[Series]:
    """Of a learner that counts its steps through all generations: one curve, for each
    of them is a few steps only.
    """
    for name in ("policy_loss", "value_loss", "kl", "grad_norm", "reward"):
        part = [line for line in own if name in line]
        x = [line.get("step", i + 1) for i, line in enumerate(part)]
        if x:
            yield Series(
                f"{name.replace('_', ' ')} of {learner}",
                tuple(x),
                tuple(line[name] for line in part),
            )


def _counts(run: Run, stages: Sequence[Stage]) -> tuple[dict[str, Any], dict[str, int]]:
    records = run.ledger.counts()
    ((beside,),) = run.ledger.rows(
        f"SELECT count(*) FROM matches WHERE split = 'held_out' AND {_IS_MEETING}"
    )
    judged = [found for _, _, stage, found, _ in stages if stage == "judge"]
    answers = sum(found["answers"] for found in judged)
    missing = sum(found["answers"] * found["unjudged_share"] for found in judged)
    dropped: Counter[str] = Counter()
    for _, _, _, found, _ in stages:
        dropped.update(
            {
                f"pairs: {name}": n
                for name, n in found.get("dropped", {}).items()
                if "pairs" in found
            }
        )
        dropped.update(
            {
                f"prompts: {name}": n
                for name, n in found.get("dropped", {}).items()
                if "prompts" in found
            }
        )
        dropped.update(
            {f"judging: {name}": n for name, n in found.get("reasons", {}).items()}
        )
    counts = {
        "prompts": records["prompts"],
        "matches": records["matches"] - beside,
        **({"answers set side by side": 2 * beside} if beside else {}),
        "judgements": records["judgements"],
        "answers judged": round(answers - missing),
        "unjudged share": missing / answers if answers else 0.0,
        "pairs": records["pairs"],
        "log-probabilities kept": records["logprobs"],
        "seconds": round(sum(row[4] for row in stages)),
    }
    return counts, dict(dropped)


def _cards(run: Run, limit: int, judges: Sequence[str]) -> tuple[list[MatchCard], bool]:
    """Matches to look at, and whether any of an assistant's is on a prompt that asks
    for harm.
    """
    parts = [
        (split, t)
        for split, t, *_ in run.ledger.rows(
            "SELECT DISTINCT split, generation FROM matches"
        )
    ]
    each = max(1, limit // max(1, len(parts)))
    compares = (
        run.config.evaluate.judge or run.config.judge_of(run.config.learning[0])
    ).compares
    read = {
        (split, t): [
            match
            for match in run.ledger.matches(split, t, limit=each)
            if match.game != MEETING
        ]
        for split, t in sorted(parts, key=lambda part: (part[1], part[0]))
    }
    wanted = {match.prompt for matches in read.values() for match in matches}
    asked = _asked(run, wanted) if _assists(run) else {}
    made = []
    for (split, _), matches in read.items():
        ids = [match.id for match in matches]
        judgements = [run.ledger.judgements_of(ids, judge) for judge in judges]
        silent = (
            "compared with other players' answers only"
            if compares and split != "train"
            else "not judged yet"
        )
        for match in matches:
            said = [found[match.id] for found in judgements if match.id in found]
            made.append(_card(match, said, run, asked.get(match.prompt), silent))
    return made, any(prompt.facts.get("harmful") for prompt in asked.values())


def _card(
    match: Match,
    judgements: Sequence[Judgement],
    run: Run,
    asked: Prompt | None,
    silent: str,
) -> MatchCard:
    """The match with the first judge's scores, what else it and the other judges gave
    beside each answer.
    """
    utility, game = run.config.utility, run.config.game
    prompt = match.turns[0].view.messages if match.turns else ()
    answers = tuple(
        Answer(
            str(match.seats[turn.seat]),
            turn.move.text or turn.move.error,
            judgements[0].score(turn.seat, utility) if judgements else None,
            _note(turn.move.finish, turn.seat, judgements, utility),
        )
        for turn in match.turns
    )
    if isinstance(game, Assistance) and asked is not None:
        prompt, answers = assisted.card(match, asked, game, judgements, utility)
    reasons = [
        judgement.reason
        if len(judgements) == 1
        else f"{judgement.judge}: {judgement.reason}"
        for judgement in judgements
        if judgement.reason
    ]
    reason = "; ".join(reasons) if judgements else silent
    return MatchCard(match.id, match.generation, match.split, prompt, answers, reason)


def _note(finish: str, seat: str, judgements: Sequence[Judgement], utility: str) -> str:
    given = [
        (i, judgement.judge, judgement.utilities(seat))
        for i, judgement in enumerate(judgements)
    ]
    further = [
        f"{f'{judge}: ' if i else ''}{name} {value:g}"
        for i, judge, scores in given
        for name, value in scores.items()
        if i or name != utility
    ]
    return ", ".join(([f"ended by {finish}"] if finish != "stop" else []) + further)


def _warnings(last: dict[str, Any], counts: dict[str, Any]) -> Iterator[str]:
    if cyclic := cyclic_warning(last.get("cyclic_triples") or 0.0):
        yield cyclic
    if counts["unjudged share"] > 0.02:
        yield f"{counts['unjudged share']:.1%} of the answers could not be judged; they count nowhere"
