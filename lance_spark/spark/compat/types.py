"""Types of Spark that only some minor versions have, and the Arrow schema of rows in workers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lance_spark.spark.compat import SPARK

TIME: st.DataType | None = st.TimeType() if SPARK >= (4, 1) else None
"""TIME, which came with Spark 4.1."""

# Spark 4.1 and 4.2 have the types, but do not read such values from columns.
GeometryType: type[st.GeometryType] = st.GeometryType if SPARK >= (4, 3) else None  # type: ignore[assignment]
GeographyType: type[st.GeographyType] = st.GeographyType if SPARK >= (4, 3) else None  # type: ignore[assignment]
GEOMETRIES: tuple[type[st.DataType], ...] = (GeometryType, GeographyType) if SPARK >= (4, 3) else ()
"""GEOMETRY and GEOGRAPHY; none before Spark 4.3."""


def worker_schema(columns: st.StructType) -> pa.Schema:
    """The Arrow schema in which Spark exchanges rows with Python workers; timestamps are in UTC."""
    # Before 4.2 the time zone is no argument, and is UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if SPARK >= (4, 2) else {}
    return to_arrow_schema(columns, **zone)
