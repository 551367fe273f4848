"""`equipoise rate RUN --by …`: ratings of a run's players, recomputed from its ledger
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import Json, RunFolder, Set, show

if TYPE_CHECKING:
    from equipoise.ratings.base import Rating, Ratings
    from equipoise.run.directory import Run


def rate(
    folder: RunFolder,
    by: Annotated[
        str,
        typer.Option(help="a kind of rating, a YAML file, or YAML: {kind: elo, k: 8}"),
    ] = "",
    of: Annotated[
        str,
        typer.Option(
            help="matches: who met in training; league: all generations, held out"
        ),
    ] = "",
    judge: Annotated[
        str,
        typer.Option(
            help="by which judge's words, as the ledger names it [default: the run's]"
        ),
    ] = "",
    set: Set = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Rate a run's players anew: by its training matches after every generation, or the
    league by held-out pay-offs.
    """
    from equipoise.errors import ConfigError
    from equipoise.ratings.base import Ratings
    from equipoise.run import config
    from equipoise.run.directory import Run

    if of not in ("", "matches", "league"):
        raise ConfigError(f"--of {of}: known: matches, league")
    ratings = config.part(Ratings, by, set, "--by") if by else None
    with Run.read(folder) as run:
        many = len(run.config.players) > 1
        of = of or ("matches" if many and run.ledger.stages("rate") else "league")
        if of == "matches":
            found, warning = _standing(run, ratings or run.config.standing, judge)
        else:
            found, warning = _league(run, ratings or run.config.ratings, judge)
    if json:
        show(
            {
                "of": of,
                "warning": warning,
                "ratings": [[_plain(r) for r in part] for part in found],
            }
        )
    else:
        _print(
            found,
            of,
            (
                ratings
                or (run.config.standing if of == "matches" else run.config.ratings)
            ).kind,
            warning,
        )


def _standing(run: Run, ratings: Ratings, judge: str) -> tuple[list[list[Rating]], str]:
    """The players' ratings after each generation's matches, and what to think of them."""
    import numpy as np

    from equipoise import seeds
    from equipoise.errors import RunError
    from equipoise.payoffs.cycles import cyclic_triples, cyclic_warning
    from equipoise.payoffs.table import Result, tally
    from equipoise.ratings.base import decided
    from equipoise.run.stages import duels

    name = judge or run.config.judge_of(run.config.learning[0]).name
    known = [found.get("judge") for _, _, _, found, _ in run.ledger.stages("judge")]
    if name not in known:
        raise RunError(
            f"{run.folder}: no words of judge '{name}'; known: {', '.join(sorted(filter(None, set(known))))}"
        )
    played = sorted(
        {t for key, t, *_ in run.ledger.stages("play") if key == f"{t}/play"}
    )
    met = [duels(run.ledger, name, t, run.config.utility) for t in played]
    if not any(met):
        raise RunError(
            f"{run.folder}: no two different players met in training; try --of league"
        )
    names = list(run.config.players)
    found = [
        ratings.standing(
            names, met[: t + 1], seeds.child(run.config.seed, "standing", t)
        )
        for t in range(len(met))
    ]
    last = [
        Result(duel.first, duel.second, 2 * decided(duel) - 1)
        for duel in met[-1]
        if duel.scores
    ]
    payoff_NN = tally(last, names).payoff_NN
    return found, cyclic_warning(cyclic_triples(payoff_NN)) if np.isfinite(
        payoff_NN
    ).all() else ""


def _league(run: Run, ratings: Ratings, judge: str) -> tuple[list[list[Rating]], str]:
    """The ratings of every player and generation by held-out pay-offs, and what to
    think of them.
    """
    from equipoise.errors import ConfigError, RunError
    from equipoise.evaluate.held_out import HeldOut
    from equipoise.payoffs.cycles import cyclic_triples, cyclic_warning
    from equipoise.ratings.outcomes import outcomes
    from equipoise.report.terminal import Display
    from equipoise.run.stages import RunStages

    evaluate = run.config.evaluate
    measured = [found for _, _, _, found, _ in run.ledger.stages("measure")]
    if not measured:
        raise RunError(f"{run.folder}: nothing was measured yet")
    if not isinstance(evaluate, HeldOut):
        raise ConfigError(
            f"--of league: evaluate: {evaluate.kind} keeps no held-out matches to rate by"
        )
    if judge:
        raise ConfigError(
            "--judge: the league is rated by the judge that measured it; use --of matches"
        )
    stages = RunStages(run, Display(silent=True))
    table = evaluate.table(stages.arena, len(measured) - 1)
    return [ratings.rate(outcomes(table), run.config.seed)], cyclic_warning(
        cyclic_triples(table.complete())
    )


def _plain(rating: Rating) -> dict[str, Any]:
    return {
        "name": rating.name,
        "value": rating.value,
        "low": rating.low,
        "high": rating.high,
    }


def _print(found: list[list[Rating]], of: str, kind: str, warning: str) -> None:
    from rich.console import Console
    from rich.table import Table

    for t, part in enumerate(found):
        title = (
            f"{kind} after generation {t}"
            if of == "matches"
            else f"{kind} of the league"
        )
        table = Table(
            title=title,
            box=None,
            pad_edge=False,
            title_justify="left",
            header_style="dim",
        )
        for column in ("player", "rating", "95 % interval"):
            table.add_column(column, justify="left" if column == "player" else "right")
        digits = 1 if max((abs(r.value) for r in part), default=0) >= 10 else 3
        for r in part:
            between = (
                "–" if r.low != r.low else f"{r.low:.{digits}f} to {r.high:.{digits}f}"
            )
            table.add_row(r.name, f"{r.value:.{digits}f}", between)
        Console().print(table)
    if warning:
        typer.echo(f"warning: {warning}")
