"""Exported tables are an interchange format: described, versioned, checked, and read by others."""

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import FINITE

from equipoise.errors import DataError
from equipoise.ledger.frames import columns
from equipoise.ledger.ledger import Ledger
from equipoise.ledger.parquet import SCHEMA, TABLES, check, export

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


@pytest.fixture(scope="module")
def tables(recorded_folder, tmp_path_factory):
    """The tables of a run."""
    folder = tmp_path_factory.mktemp("tables")
    with Ledger.open(recorded_folder("people") / "ledger.sqlite") as ledger:
        export(ledger, folder)
    return folder


@pytest.fixture
def exported(tables, tmp_path):
    """The same, to be changed."""
    return Path(shutil.copytree(tables, tmp_path / "out"))


def change(path: Path, row: int, **values) -> None:
    """Write the file anew with other values in one row."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[row] |= values
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def test_what_is_exported_is_whole(exported, command):
    done = command("check", exported, "--json")
    assert done.code == 0, done.err
    assert {Path(path).stem for path in done.facts} == set(TABLES)
    assert done.facts[str(exported / "turns.parquet")] > 0
    done = command("check", exported / "matches.parquet")
    assert done.code == 0
    assert f"rows, schema {SCHEMA}" in done.out


def test_the_page_describes_every_table():
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert {name: columns(text) for name, text in listed} == {
        name: listed for name, (listed, _) in TABLES.items()
    }
    assert f"version {SCHEMA}" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "values", "says"),
    [
        ("matches", {"seats": "[1]"}, "row 1: seats is no JSON object"),
        ("matches", {"seats": "{"}, "row 1: seats is no JSON object"),
        ("matches", {"id": None}, "row 1: id is null; it must have a value"),
        ("matches", {"prompt": "elsewhere"}, "row 1: prompt 'elsewhere' is no id in prompts"),
        ("turns", {"match": "elsewhere"}, "row 1: match 'elsewhere' is no id in matches"),
        ("turns", {"cost": float("nan")}, "row 1: cost is nan; what is missing must be null"),
        ("prompts", {"prompt": [{"role": "bot", "content": "x"}]}, "row 1: prompt needs roles of"),
        ("prompts", {"prompt": [{"role": "user", "content": None}]}, "row 1: prompt is no chat"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(exported, file, values, says):
    path = exported / f"{file}.parquet"
    change(path, 0, **values)
    with pytest.raises(DataError) as refused:
        check(exported)
    assert str(refused.value).startswith(f"{path}: {says}")


def test_an_id_that_stands_twice(exported):
    path = exported / "matches.parquet"
    (first,) = pq.read_table(path).slice(0, 1)["id"].to_pylist()
    change(path, 1, id=first)
    with pytest.raises(DataError, match=f"row 2: id '{first}' stands twice"):
        check(path)


def test_a_file_of_another_schema(exported, command):
    path = exported / "turns.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["seat"]), path)
    with pytest.raises(DataError, match=r"turns.parquet: lacks the column 'seat' \(string\)"):
        check(path)
    number = table.schema.get_field_index("turn")
    texts = table["turn"].cast(pa.string())
    pq.write_table(table.set_column(number, "turn", texts), path)
    with pytest.raises(DataError, match="column 'turn' is string; it must be int64"):
        check(path)
    later = {"equipoise.table": "turns", "equipoise.schema": "2"}
    pq.write_table(table.replace_schema_metadata(later), path)
    with pytest.raises(DataError, match=f"has version 2 of the schema; known: {SCHEMA}"):
        check(path)
    pq.write_table(table.replace_schema_metadata({}), exported / "mine.parquet")
    with pytest.raises(DataError, match="'mine' is no table; known: prompts, pairs"):
        check(exported / "mine.parquet")
    path.write_bytes(b"PAR1 no more")
    done = command("check", path)
    assert done.code == 2
    assert "cannot be read as Parquet" in done.err


def test_what_other_programs_write_of_it_is_whole(exported):
    """More columns, shorter and longer types, no metadata, all missing: as data frames give it."""
    path = exported / "turns.parquet"
    table = pq.read_table(path)
    texts = table["text"].cast(pa.large_string())
    table = table.set_column(table.schema.get_field_index("text"), "text", texts)
    numbers = table["turn"].cast(pa.int32())
    table = table.set_column(table.schema.get_field_index("turn"), "turn", numbers)
    missing = pa.nulls(len(table))
    table = table.set_column(table.schema.get_field_index("cost"), "cost", missing)
    table = table.append_column("note", missing).replace_schema_metadata({})
    pq.write_table(table, path)
    assert check(exported)[path] == len(table)


@pytest.mark.long
def test_datasets_reads_every_table(tmp_path, recorded_folder, command, monkeypatch):
    """As its card lists them, in one call each."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    assert command("export", recorded_folder("people"), "--to", "out").code == 0
    held = {path.stem: rows for path, rows in check(tmp_path / "out").items() if rows}
    assert {"prompts", "matches", "turns", "scores"} <= set(held)
    for name, rows in held.items():
        read = datasets.load_dataset(str(tmp_path / "out"), name, split="train")
        assert len(read) == rows
        assert read.column_names == list(TABLES[name][0])


@pytest.mark.long
def test_an_exported_game_without_chats_is_whole(command, tmp_path):
    assert command("run", *FINITE, "--out", "run").code == 0
    assert command("export", "run", "--to", "out").code == 0
    done = command("check", "out")
    assert done.code == 0, done.err
