"""`equipoise status RUN`: how far a run is, from its ledger alone; it may be running.
`equipoise report RUN`: write the HTML report, likewise.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, RunFolder, Trust, say, show


def status(folder: RunFolder, trust: Trust = False, json: Json = False) -> None:
    """Show how far a run is and what it has measured."""
    from equipoise.api.handle import Run

    facts = Run(folder, trust=trust).status()
    if json:
        show(facts)
    else:
        print_status(facts)


def print_status(facts: dict[str, Any]) -> None:
    """Print a run's progress."""
    from equipoise.blocks.terminal import duration, status_table, terminal
    from equipoise.models.resources import Spending

    rows = []
    for name, value in facts.items():
        if name != "currency" and not isinstance(value, dict | list):
            rows.append((name, value))
    if failed := facts.get("failed"):
        rows.append(("failed", f"in {failed['stage']}: {failed['error']}"))
    if devices := facts.get("devices"):
        rows.append(("devices", f"{'; then '.join(devices)}: sums may differ in last digits"))
    rows += [(line["label"], line["value"]) for line in facts["headlines"]]
    rows += [
        (f"{each['exploiter']} against {each['against']['player']}", _gets(each))
        for each in (*facts.get("best_responses", ()), facts.get("best_response"))
        if each
    ]
    seconds = facts["records"].pop("seconds")
    rows += [(name.replace("_", " "), n) for name, n in facts["records"].items()]
    for judge in facts["judges"]:
        rows += unscored_lines(**judge)
    rows.append(("time", duration(seconds)))
    for stage, time in facts["time"].items():
        rows.append((f"  {stage}", duration(time["seconds"])))
        for part, inside in time.get("parts", {}).items():
            rows.append((f"    {part}", f"{duration(inside)} of these"))
    currency = facts.get("currency", "")
    for account, spent in facts["spent"].items():
        rows.append((f"spent by {account}", Spending(**spent).text(currency)))
    for line in facts["cautions"]:
        say(line)
    terminal().print(status_table(rows))


def unscored_lines(
    title: str,
    part: str,
    judgements: int,
    without_score: int,
    example: str = "",
    advice: str = "",
    judge: str = "",
) -> list[tuple[str, str]]:
    """The judgements without a score in a part of the run, with an example."""
    if not without_score:
        return []
    share = f"{without_score:,} of {judgements:,} judgements without a score"
    reason = f", such as: {example}" if example else ""
    hint = f". {advice}" if advice else ""
    return [(f"by {title}", f"{part.replace('_', '-')}: {share}{reason}{hint}")]


def _gets(facts: dict[str, Any]) -> str:
    """An exploiter's pay-off, and the number of its updates."""
    from equipoise.blocks.learning_sections import estimate_text

    updates = facts["budget"]["updates"]
    unfinished = "" if facts["finished"] else ", unfinished"
    return f"{estimate_text(facts['gets'])} {facts['unit']}, {updates:,} updates{unfinished}"


def report(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            help="where to write it", show_default="RUN/report.html, or RUN/leaderboard.html"
        ),
    ] = None,
    beside: Annotated[
        list[str],
        typer.Option(
            metavar="RUN[@GENERATION]",
            help="another run to draw beside this one, where the evaluation compares runs",
        ),
    ] = [],  # noqa: B006
    leaderboard: Annotated[
        bool,
        typer.Option(
            "--leaderboard", help="write a leaderboard instead: ratings, equilibrium and cycles"
        ),
    ] = False,
    judge: Annotated[
        str,
        typer.Option(help="the judge whose scores the leaderboard uses", show_default="the run's"),
    ] = "",
    trust: Trust = False,
) -> None:
    """Write the run's report, one HTML file that works offline."""
    from equipoise.api.handle import Run

    run = Run(folder, trust=trust)
    if leaderboard:
        if beside:
            raise ConfigError("--beside: a leaderboard shows one run")
        say(run.leaderboard(out or folder / "leaderboard.html", judge))
    elif judge:
        raise ConfigError("--judge: chooses the judge of a --leaderboard")
    else:
        say(run.report(out or folder / "report.html", beside))
