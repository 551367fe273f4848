"""Files of a few bytes that stand for more than any memory or time: they are refused at once."""

import json
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.errors import DataError
from equipoise.ledger import parquet
from equipoise.prompts.prompt_files import read

MEBIBYTE = 2**20


def write(path, column, **options):
    pq.write_table(pa.table({"prompt": column}), path, **options)
    return path


def packed_page(path):
    """A column of one value, 80 MiB of one letter: some kilobytes on the disk."""
    column = pa.array(["a" * (80 * MEBIBYTE)])
    return write(path, column, compression="zstd", use_dictionary=False)


def dictionary(path):
    """One text of 4 MiB in each of 20,000 rows: an entry, and the number of times."""
    text = pa.array(["a" * (4 * MEBIBYTE)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int8()), text)
    return write(path, column, compression="zstd", store_schema=False)


def nothing(path):
    """Four million rows without a value."""
    return write(path, pa.nulls(4_000_000, pa.string()), compression="zstd")


@pytest.mark.long
@pytest.mark.parametrize("make", [packed_page, dictionary, nothing])
def test_a_parquet_bomb_is_refused_in_little_memory(tmp_path, make):
    path = make(tmp_path / "prompts.parquet")
    assert path.stat().st_size < 8 * MEBIBYTE
    reading = (
        "import sys; from equipoise.prompts.prompt_files import read; from pathlib import Path\n"
        "for _ in read(Path(sys.argv[1])): pass"
    )

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (3 * 2**30, 3 * 2**30))

    ended = subprocess.run(
        [sys.executable, "-c", reading, path],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"equipoise.errors.DataError: {path}: ")
    assert "not read" in last


@pytest.mark.long
def test_an_export_that_is_a_bomb_is_refused(tmp_path):
    path = packed_page(tmp_path / "stages.parquet")
    table = pq.ParquetFile(path).read()
    others = {
        "key": table["prompt"],
        "generation": pa.array([0]),
        "stage": ["a"],
        "facts": ["{}"],
        "seconds": [1.0],
    }
    pq.write_table(pa.table(others), path, compression="zstd", use_dictionary=False)
    with pytest.raises(DataError, match=r"stages\.parquet: the column key unpacks to 83,886,"):
        parquet.check(tmp_path)


def test_honest_columns_that_pack_well_are_read(tmp_path):
    path = write(tmp_path / "prompts.parquet", pa.array(["the same prompt " * 50] * 50_000))
    assert sum(1 for _ in read(path)) == 50_000


@pytest.mark.long
def test_a_line_of_200_megabytes_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        file.write('{"prompt": "hello"}\n{"prompt": "')
        for _ in range(200):
            file.write("a" * MEBIBYTE)
        file.write('"}\n')
    rows = read(path)
    assert next(rows)[1] == {"prompt": "hello"}
    with pytest.raises(DataError, match=r"rows\.jsonl:2: has more than the 67,108,864 bytes"):
        next(rows)


@pytest.mark.long
def test_a_csv_of_a_million_columns_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n" + "a\n" * 100_000)
    with pytest.raises(DataError, match=r"rows\.csv:1: has more than the 10,000 columns"):
        next(read(path))


@pytest.mark.long
def test_a_cell_without_an_end_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('prompt,answer\n"' + "a" * (65 * MEBIBYTE))
    with pytest.raises(DataError, match=r"rows\.csv:\d+: not CSV: field larger than"):
        list(read(path))


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
def test_deep_json_is_refused(tmp_path, deep):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prompt": "hello"}) + "\n" + deep + "\n")
    with pytest.raises(DataError, match=r"rows\.jsonl:2: "):
        list(read(path))


@pytest.mark.parametrize("suffix", [".gz", ".zip", ".zst", ".bz2", ".xz"])
def test_packed_files_are_not_unpacked(tmp_path, suffix):
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(b"\x1f\x8b" + b"\0" * 1000)
    with pytest.raises(DataError, match="unpack it first"):
        list(read(path))
