"""Entries of Lance tables as Glue and Hive's metastore keep them: the same markers, formats and placeholder column.

The marker is the parameter ``table_type``. Engines without Lance see a table of text with one column, which has no
files that they could read.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.external.catalog import TABLE_TYPE

COLUMN = ("__placeholder_id", "bigint", "Placeholder column for empty table")
"""Name, type and comment of the column that stands for those of the table, which are in its manifests."""

INPUT_FORMAT = "org.apache.hadoop.mapred.TextInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
EXTERNAL_TABLE = "EXTERNAL_TABLE"

_MARKERS: Mapping[str, str] = {"managed_by": "storage", "empty_table": "true"}
_PURGE = "external.table.purge"
_OF_CATALOG = frozenset(
    {
        *(TABLE_TYPE, *_MARKERS, _PURGE, "EXTERNAL", "TRANSLATED_TO_EXTERNAL", "transient_lastDdlTime", "numFiles"),
        *("totalSize", "numRows", "rawDataSize", "numFilesErasureCoded", "COLUMN_STATS_ACCURATE", "bucketing_version"),
        *("last_modified_by", "last_modified_time"),
    }
)
"""Parameters that a catalog or an engine adds."""

_FORMAT_NAMES = ("spark.sql.sources.provider", "classification")


def marked(properties: Mapping[str, str], table_type: str) -> dict[str, str]:
    """The parameters of a new Lance table.

    Args:
        properties: of its user.
        table_type: the marker in the case that the catalog's other clients write.

    Raises:
        InvalidInputError: a property by which other engines would delete the table's files.
    """
    if properties.get(_PURGE, "false").strip().lower() != "false":
        raise InvalidInputError(f"with the property {_PURGE} other engines delete the files of a table; leave it out")
    return {**properties, TABLE_TYPE: table_type, **_MARKERS}


def user_properties(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a table without those that catalogs and engines add."""
    return {name: value for name, value in parameters.items() if name not in _OF_CATALOG}


def table_format(parameters: Mapping[str, str], table_type: str, input_format: str) -> str:
    """The format of a table or view: "lance" in any case only if its marker says so.

    Args:
        table_type: what kind of object it is, such as ``EXTERNAL_TABLE`` or ``VIRTUAL_VIEW``.
        input_format: the class that reads its files, if there is one.
    """
    if table_type.upper().endswith("VIEW"):
        return "view"
    if parameters.get(TABLE_TYPE):
        return parameters[TABLE_TYPE]
    for name in _FORMAT_NAMES:
        if parameters.get(name):
            return f"{name} {parameters[name]}"
    return input_format
