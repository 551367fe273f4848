"""`equipoise judge RUN --with …`: what another judge says of a run's matches, beside
the run's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import Json, RunFolder, Set, show

if TYPE_CHECKING:
    from equipoise.judges.base import Judge
    from equipoise.run.directory import Run
    from equipoise.types import Judgement, Match


def judge(
    folder: RunFolder,
    by: Annotated[
        str,
        typer.Option(
            "--with", help="a kind of judge, a YAML file, or YAML: {kind: rubric, …}"
        ),
    ],
    part: Annotated[str, typer.Option(help="train, held_out or test")] = "held_out",
    generation: Annotated[
        int | None, typer.Option(min=0, help="of one generation only [default: all]")
    ] = None,
    set: Set = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Judge a run's matches anew from its ledger; nothing is played. The words are
    recorded beside those of the run.
    """
    from rich.console import Console

    from equipoise.errors import ConfigError
    from equipoise.judges.base import Judge
    from equipoise.report.terminal import Display
    from equipoise.run import config
    from equipoise.run.directory import Run

    if part not in ("train", "held_out", "test"):
        raise ConfigError(f"--part {part}: known: train, held_out, test")
    other = config.part(Judge, by, set, "--with")
    with (
        Run.open(folder) as run,
        Display(console=Console(stderr=json), silent=json) as display,
    ):
        matches, judgements = _judged(run, other, part, generation, display)
        facts = _facts(run, other, matches, judgements)
    show(facts) if json else _print(facts)


def _judged(
    run: Run, other: Judge, part: str, generation: int | None, display: Any
) -> tuple[list[Match], list[Judgement]]:
    """The matches of the part, and the other judge's word on each, recorded as it
    comes.
    """
    from equipoise.errors import RunError
    from equipoise.run.arena import MEETING
    from equipoise.run.stages import RunStages

    stages = RunStages(run, display)
    found = [
        match for match in run.ledger.matches(part, generation) if match.game != MEETING
    ]
    if not found:
        where = "" if generation is None else f" in generation {generation}"
        raise RunError(f"{run.folder}: no {part.replace('_', '-')} matches{where}")
    prompts = {
        prompt.id: prompt
        for split in (part, "attack")
        for prompt in run.ledger.prompts(split)
    }
    judgements: list[Judgement] = []
    for t in sorted({match.generation for match in found}):
        mine = [match for match in found if match.generation == t]
        key = f"{t}/{part}/judge/{other.name}/{len(mine)}"
        judgements += stages.recorder.judgements(
            key, other, stages.judge_context(t), mine, prompts, t
        )
    return [
        match
        for t in sorted({m.generation for m in found})
        for match in found
        if match.generation == t
    ], judgements


def _facts(
    run: Run, other: Judge, matches: list[Match], judgements: list[Judgement]
) -> dict[str, Any]:
    """Each player's mean score by both judges, how far they agree, and the report on
    the other judge.
    """
    from equipoise.evaluate.judges import agreement_between, judge_report

    own = run.ledger.judgements_of(
        (match.id for match in matches), _own(run, other, matches)
    )
    firsts = [own[match.id] for match in matches if match.id in own]
    utility = run.config.utility
    return {
        "run": str(run.folder),
        "judge": other.name,
        "matches": len(matches),
        "beside": firsts[0].judge if firsts else None,
        "scores": _scores(
            matches, {judgement.match: judgement for judgement in judgements}, utility
        ),
        "scores_beside": _scores(matches, own, utility),
        "agreement": agreement_between(firsts, judgements, utility) if firsts else None,
        "report": judge_report(matches, judgements, utility).get(other.name),
    }


def _own(run: Run, other: Judge, matches: list[Match]) -> str:
    """The name of the run's judge of these matches: whoever spoke first and is not the
    other.
    """
    spoke = [
        name
        for (name,) in run.ledger.rows(
            "SELECT DISTINCT judge FROM judgements ORDER BY rowid"
        )
    ]
    heard = (
        n
        for n in spoke
        if n != other.name and run.ledger.judgements_of([matches[0].id], n)
    )
    return next(heard, run.config.judge.name)


def _scores(
    matches: list[Match], judgements: dict[str, Judgement], utility: str
) -> dict[str, float]:
    """player -> mean score of its judged answers."""
    from statistics import fmean

    found: dict[str, list[float]] = {}
    for match in matches:
        judgement = judgements.get(match.id)
        for seat, score in judgement.by_seat(utility).items() if judgement else ():
            found.setdefault(str(match.seats[seat]), []).append(score)
    return {player: fmean(scores) for player, scores in sorted(found.items())}


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from equipoise.payoffs.intervals import Interval
    from equipoise.report.terminal import status_table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("player")
    for column in (facts["judge"], facts["beside"] or "–"):
        table.add_column(column, justify="right")
    for player in sorted(facts["scores"] | facts["scores_beside"]):
        values = (facts[name].get(player) for name in ("scores", "scores_beside"))
        table.add_row(
            player, *("–" if value is None else f"{value:.3f}" for value in values)
        )
    console = Console()
    console.print(table)
    console.print(
        f"{facts['judge']} on {facts['matches']} matches", style="bold", highlight=False
    )
    rows: list[tuple[str, Any]] = []
    for name, value in {
        **(facts["agreement"] or {}),
        **(facts["report"] or {}),
    }.items():
        if isinstance(value, dict) and {"mean", "low", "high", "n"} <= value.keys():
            rows.append(
                (name, Interval(value["mean"], value["low"], value["high"], value["n"]))
            )
        elif not isinstance(value, dict):
            rows.append((name, value))
    console.print(status_table(rows))
