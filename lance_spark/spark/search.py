"""Searches as DataFrames, for sessions of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def search(spark: Any, table: str, vector: Any = None, text: str | None = None, **arguments: Any) -> DataFrame:
    """The rows of a table of a Lance catalog that are nearest to a vector, match words, or both, as a DataFrame.

    The session needs the connector's extension; `lance_spark.install` or `lance_spark.configure` adds it. Spark Connect
    sessions work as classic ones do.

    Args:
        spark: the session.
        table: its name, such as ``lance.db.t``.
        vector: the values of a vector: `vector_search`. Several vectors are several queries.
        text: words: `search`. With a vector too: `hybrid_search`.
        arguments: the other arguments of that SQL function, such as ``k=5`` or ``filter="id > 3"``.

    Raises:
        InvalidInputError: neither vector nor words, or a value that SQL has no literal for.
    """
    if vector is None and text is None:
        raise InvalidInputError("a search needs a vector, words, or both")
    function = "search" if vector is None else "vector_search" if text is None else "hybrid_search"
    passed: dict[str, Any] = {"table": table, "query_vector": vector, "query": text, **arguments}
    written = ", ".join(f"{name} => {_literal(name, value)}" for name, value in passed.items() if value is not None)
    found: DataFrame = spark.sql(f"SELECT * FROM {function}({written})")
    return found


def _literal(name: str, value: Any) -> str:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = value.to_pylist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if np.isfinite(value) else f"double('{value}')"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, (np.ndarray, Sequence)):
        return f"array({', '.join(_literal(name, item) for item in value)})"
    raise InvalidInputError(f"the argument {name} of a search is {type(value).__name__}, for which SQL has no literal")
