"""`equipoise check RUN` examines a run's folder for damage, and mends it; of an export, it checks
the Parquet files. `equipoise doctor` examines this machine, and tries the parts on it.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from equipoise.errors import UserError
from equipoise.system.command_options import Json, RunFolder, say, show

Mend = Annotated[
    bool,
    typer.Option(
        "--mend",
        help="set damaged weights aside, so that resume makes them again, and write a "
        "damaged config.yaml anew from the ledger",
    ),
]


def check(folder: RunFolder, mend: Mend = False, json: Json = False) -> None:
    """Check a run's folder for damage, and say what can be repaired.

    The ledger's pages and records, the configuration, and every file of weights by its checksum.
    The exit code is 2 where something is damaged or missing. An export's folder, or one Parquet
    file, is checked against the schema of docs/python.md instead.
    """
    from equipoise.ledger import parquet
    from equipoise.runs import damage

    if folder.suffix == ".parquet" or (
        any(folder.glob("*.parquet")) and not (folder / "ledger.sqlite").exists()
    ):
        checked = {str(file): rows for file, rows in parquet.check(folder).items()}
        if json:
            show(checked)
        for file, rows in () if json else checked.items():
            say(f"whole      {file}: {rows} rows, schema {parquet.SCHEMA}")
        return
    done = damage.mend(folder) if mend else []
    findings = damage.examine(folder)
    broken = [each for each in findings if each.state in ("damaged", "missing")]
    if json:
        facts = [asdict(finding) for finding in findings]
        show({"run": str(folder), "whole": not broken, "parts": facts, "mended": done})
    else:
        for line in done:
            say(f"mended: {line}")
        for finding in findings:
            note = f": {finding.note}" if finding.note else ""
            say(f"{finding.state:9}  {finding.part}{note}")
    if broken:
        raise typer.Exit(UserError.exit_code)


def doctor(json: Json = False) -> None:
    """Check what this machine has, and that the parts work on it.

    Versions, cores, memory, disk, device, ledger, and the built-in model.
    """
    from rich.table import Table
    from rich.text import Text

    from equipoise.blocks.terminal import terminal
    from equipoise.planning.machine_checks import examine

    checks = examine()
    if json:
        show([{"check": c.name, "ok": c.ok, "found": c.finding} for c in checks])
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for check in checks:
            mark = Text("ok", style="green") if check.ok else Text("no", style="red")
            table.add_row(mark, check.name, check.finding)
        terminal().print(table)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
