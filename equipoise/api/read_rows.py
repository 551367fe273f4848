"""Rows of data as models will see them: the Python door of `equipoise rows`."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.errors import ConfigError, DataError
from equipoise.models.chat_encoding import EncodedAnswer, Encoding
from equipoise.prompts.prompt_files import Files, names_hub_data
from equipoise.prompts.row import Purpose, chosen_answer, rejected_answer, sft_example
from equipoise.prompts.row_prompts import RowPrompts
from equipoise.prompts.shown_row import ShownRow, any_scored, show_rows

PURPOSES: tuple[Purpose, ...] = ("prompts", "pairs", "sft")
FILES = ("jsonl", "json", "csv", "tsv", "parquet", "ndjson")


def rows(
    path: str | Path,
    purpose: str | None = None,
    *,
    schema: str | None = None,
    limit: int | None = None,
) -> Iterator[ShownRow]:
    """Each row of a file, a folder of files or a hub data set, as a model will see it.

        for shown in equipoise.rows("pairs.jsonl"):
            print(shown.record())

    Args: purpose: "prompts", "pairs" or "sft", None: what each row is for by its own account;
    schema: a schema's name that all rows must have; limit: at most so many rows. A row that would
    stop a run is given, too, with the reason in `left_out`. Raises DataError for a file that cannot
    be read.
    """
    if purpose not in (None, *PURPOSES):
        raise ConfigError(f"rows: as {purpose!r}: known: {', '.join(PURPOSES)}")
    source = source_of(str(path), schema)
    scored = purpose in (None, "pairs") and any_scored(source, islice(source.raw_rows(), limit))
    read = islice(source.raw_rows(), limit)
    return show_rows(source, read, purpose, scored=scored)  # type: ignore[arg-type]


def source_of(path: str, schema: str | None) -> RowPrompts:
    """The source that reads a path: files, those of a folder, or a data set of the hub."""
    settings: dict[str, Any] = {"path": path, "row_schema": schema}
    folder = Path(path).expanduser()
    if folder.is_dir() and not names_hub_data(path, Path()):
        patterns = [f"{folder}/**/*.{suffix}" for suffix in FILES]
        settings["path"] = [each for each in patterns if any(folder.glob(f"**/{Path(each).name}"))]
        if not settings["path"]:
            raise DataError(f"{path}: the folder holds no {', '.join(FILES)} file")
    return Files.model_validate(settings)


def tokens_of(shown: ShownRow, purpose: Purpose | None, encoding: Encoding) -> list[EncodedAnswer]:
    """The token ids of what is learned from a row: of an example, or of both answers of a pair."""
    row = shown.row
    if row is None:
        return []
    purpose = purpose or row.purpose
    if purpose == "prompts":
        ids = encoding.prompt_ids(row.messages)
        return [EncodedAnswer(ids, [], None, 0)]
    if shown.left_out:
        return []
    if purpose == "sft":
        example = sft_example(row)
        assert example is not None, "a row that is not left out has an example"
        return [encoding.answered(*example)]
    pair = chosen_answer(row.answers), rejected_answer(row.answers)
    return [encoding.answered(row.messages, answer.value) for answer in pair if answer]


def encoding_of(model: str) -> Encoding:
    """The tokenizer and template by which a model reads chats. Raises ModelError."""
    from equipoise.players.local import Local

    return Local.model_validate({"model": model}).encoding()


def token_record(encoded: EncodedAnswer) -> dict[str, Any]:
    """Token ids of a chat and its answer, and which are learned."""
    learned = encoded.learned or [True] * len(encoded.ids)
    return {
        "ids": [*encoded.prompt, *encoded.ids],
        "learned": [*([False] * len(encoded.prompt)), *learned],
    }


def token_line(encoded: EncodedAnswer, encoding: Encoding) -> str:
    """The tokens as texts, those that are learned in brackets."""
    record = token_record(encoded)
    shown = []
    names = encoding.tokenizer.convert_ids_to_tokens(record["ids"])
    for name, learned in zip(names, record["learned"], strict=True):
        shown.append(f"[{name}]" if learned else str(name))
    return f"  {len(shown)} tokens, {sum(record['learned'])} learned: {' '.join(shown)}"
