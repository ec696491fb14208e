"""Searches as DataFrames, for sessions of any kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import quote_name
from lance_spark.schema.projection import parse_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_FUNCTION = "UNRESOLVABLE_TABLE_VALUED_FUNCTION"


def search(spark: Any, table: str, vector: Any = None, text: str | None = None, **arguments: Any) -> DataFrame:
    """The rows of a table of a Lance catalog that are nearest to a vector, match words, or both, as a DataFrame.

    Spark Connect sessions work as classic ones do. Without the connector's extension, which `lance_spark.install` and
    `lance_spark.configure` add, the rows come from the procedure of the function's name, which has no argument for a
    version.

    Args:
        spark: the session.
        table: its name, such as ``lance.db.t``.
        vector: the values of a vector: `vector_search`. Several vectors are several queries.
        text: words: `search`. With a vector too: `hybrid_search`.
        arguments: the other arguments of that SQL function, such as ``k=5`` or ``filter="id > 3"``.

    Raises:
        InvalidInputError: neither vector nor words, or a value that SQL has no literal for.
    """
    # Imported here: the package is imported without Spark too.
    from pyspark.errors import PySparkException

    if vector is None and text is None:
        raise InvalidInputError("a search needs a vector, words, or both")
    function = "search" if vector is None else "vector_search" if text is None else "hybrid_search"
    passed: dict[str, Any] = {"table": table, "query_vector": vector, "query": text, **arguments}
    try:
        found: DataFrame = spark.sql(f"SELECT * FROM {function}({_written(passed)})")
        found.schema  # noqa: B018  Spark Connect finds functions only when it is asked for columns.
    except PySparkException as error:
        if error.getCondition() != _NO_FUNCTION:
            raise
        if vector is not None:
            passed["query_vector"] = json.dumps(np.asarray(vector, np.float64).tolist())
        procedure = f"{quote_name(parse_path(table)[0])}.system.{function}"
        called: DataFrame = spark.sql(f"CALL {procedure}({_written(passed)})")
        return called
    return found


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} => {_literal(name, value)}" for name, value in arguments.items() if value is not None)


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
