"""Data frames: pandas where it is installed, else pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, TypeAlias

from equipoise.errors import UserError

Row = dict[str, Any]
Frame: TypeAlias = Any
"""A `pandas.DataFrame` where pandas is installed, else a `pyarrow.Table`."""


def frame(columns: Mapping[str, str], rows: Iterable[Row]) -> Frame:
    """The rows as a data frame; what is missing is null.

    Args: columns: name -> text, int, float or bool; further columns that rows have are numbers of
    one type, and stand behind these in the order in which they first occur. Raises UserError where
    neither pandas nor pyarrow is installed.
    """
    if find_spec("pyarrow") is None:
        raise UserError(
            "data frames need pandas or pyarrow, and neither is installed; "
            "pip install pandas pyarrow"
        )
    import pyarrow as pa

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    listed = list(rows)
    names = {name: types[kind] for name, kind in columns.items()}
    for row in listed:
        for name, value in row.items():
            whole = isinstance(value, int)
            names.setdefault(name, pa.int64() if whole else pa.float64())
    table = pa.table(
        {name: pa.array([row.get(name) for row in listed], kind) for name, kind in names.items()}
    )
    return table if find_spec("pandas") is None else table.to_pandas()
