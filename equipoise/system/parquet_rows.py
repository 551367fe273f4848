"""Rows of Parquet files that any program wrote.

A few bytes of such a file can stand for more than any memory: a page of zeros is packed to nothing,
and one entry of a dictionary may be a million rows. So a column whose packed size is out of
proportion is refused before it is unpacked, rows are unpacked few at a time, and they are counted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from equipoise.errors import DataError

AT_ONCE = 32  # rows that are unpacked together
LARGEST_ROW = 2**26  # bytes of a row
LARGEST = 2**30  # bytes of all rows, beside SWOLLEN
SWOLLEN = 1000  # times its size on the disk that a file's rows may take
ROW = 512  # bytes that a row is counted for beside its values


def parquet_rows(
    file: Any, where: str, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of an open `pyarrow.parquet.ParquetFile`; `where` names it in messages.

    Raises DataError for a file that stands for more than its size lets expect.
    """
    packed = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            packed += column.total_compressed_size
            unpacked = column.total_uncompressed_size
            if unpacked > max(LARGEST_ROW, SWOLLEN * column.total_compressed_size):
                raise DataError(
                    f"{where}: the column {column.path_in_schema} unpacks to {unpacked:,} bytes "
                    f"from {column.total_compressed_size:,}; no rows of text do, so it is not read"
                )
    most = max(LARGEST, SWOLLEN * packed)
    total = 0
    for batch in file.iter_batches(AT_ONCE, columns=columns):
        total += batch.nbytes + ROW * batch.num_rows
        if batch.nbytes > LARGEST_ROW * batch.num_rows or total > most:
            raise DataError(
                f"{where}: its rows take {total:,} bytes and more, from {packed:,} on the disk, so "
                "the others are not read; a row may have "
                f"{LARGEST_ROW:,} bytes, and all of them {most:,}"
            )
        yield from batch.to_pylist()
