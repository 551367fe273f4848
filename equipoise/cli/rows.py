"""`equipoise rows FILE` prints rows of data as a model will see them."""

from typing import Annotated, Any

import msgspec
import typer

from equipoise.errors import UserError
from equipoise.system.command_options import Json, say

File = Annotated[
    str,
    typer.Argument(
        help="JSONL, JSON, CSV, TSV or Parquet, a folder of them, or a hub data set",
        show_default=False,
    ),
]
Purposes = Annotated[
    str,
    typer.Option("--as", help="prompts, pairs or sft", show_default="by the answers of each row"),
]
Tokens = Annotated[
    str, typer.Option(metavar="MODEL", help="show this model's tokens, and which are learned")
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="read at most so many rows", show_default="all")
]
Schema = Annotated[
    str, typer.Option(help="a schema that all rows must have", show_default="found by the columns")
]
Schemas = Annotated[
    bool, typer.Option("--schemas", help="list the known schemas and their columns")
]


def rows(
    file: File = "",
    as_: Purposes = "",
    schema: Schema = "",
    tokens: Tokens = "",
    limit: Limit = None,
    schemas: Schemas = False,
    json: Json = False,
) -> None:
    """Show rows of data as a model will see them, and what is left out.

    The exit code is 2 where a row would stop a run.
    """
    from equipoise.api.read_rows import encoding_of, token_line, token_record, tokens_of
    from equipoise.api.read_rows import rows as read_rows
    from equipoise.errors import ConfigError
    from equipoise.prompts.schemas.registry import SCHEMAS
    from equipoise.prompts.shown_row import RowCounts

    if schemas:
        for known in SCHEMAS:
            say(f"{known.name:22}  {known.columns}")
        return
    if not file:
        raise ConfigError("rows: name a file of rows, as in `equipoise rows prompts.jsonl`")
    encoding = encoding_of(tokens) if tokens else None
    purpose: Any = as_ or None
    counts = RowCounts()
    for shown in read_rows(file, purpose, schema=schema or None, limit=limit):
        encoded = [] if encoding is None else tokens_of(shown, purpose, encoding)
        if json:
            record = shown.record()
            if encoding is not None:
                record["tokens"] = [token_record(each) for each in encoded]
            say(msgspec.json.encode(record, enc_hook=str).decode())
        else:
            for line in shown.lines(purpose):
                say(line)
            if encoding is not None:
                for each in encoded:
                    say(token_line(each, encoding))
        counts.add(shown, purpose)
    for line in counts.lines():
        say(line, err=json)
    if counts.refused:
        say(f"error: {counts.refused}", err=True)
        raise typer.Exit(UserError.exit_code)
