"""Which rows an overwrite of a partitioned table replaces: the option partitionOverwriteMode and the session's setting.

Spark itself follows `spark.sql.sources.partitionOverwriteMode` only in INSERT OVERWRITE and `insertInto`, and never
reads the option of the write. Its file sources do both in `save` too, so that is done here.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.option_values import DYNAMIC, STATIC
from lance_spark.spark.predicates import SparkExpression

OVERWRITE_ROWS, OVERWRITE_DYNAMIC = "overwrite", "overwrite_dynamic"
"""Spark's names of an overwrite by a condition and of an overwrite of the partitions that get rows."""

_ALWAYS_TRUE = "ALWAYS_TRUE"
_EQUALS = frozenset({"=", "<=>"})
_SETTING = "spark.sql.sources.partitionOverwriteMode"


def is_everything(predicates: Sequence[SparkExpression]) -> bool:
    """Whether all rows are to be replaced."""
    return all(predicate.name == _ALWAYS_TRUE for predicate in predicates)


def overwrite_mode(
    table: PartitionedTable,
    mode: str,
    predicates: Sequence[SparkExpression],
    *,
    option: str | None,
    session: str,
    by_path: bool,
) -> str:
    """The mode of a write to `table`: `mode`, as the option and the session change it.

    Args:
        mode: as Spark asks for it: "append", "overwrite" (rows for which `predicates` are true) or "overwrite_dynamic".
        option: partitionOverwriteMode of the write; None if it is not set.
        session: the session's setting of that name.
        by_path: whether `save(path)` writes, for which Spark does not look at the session's setting.

    Raises:
        InvalidInputError: option and statement contradict each other.
    """
    if mode == OVERWRITE_DYNAMIC and option == STATIC:
        raise InvalidInputError(
            f"option partitionOverwriteMode is {STATIC}, but overwritePartitions() or the session's {_SETTING} asks "
            f"for {DYNAMIC}, and Spark does not say which rows the statement names; set {_SETTING} to {STATIC} and "
            "use INSERT OVERWRITE or insertInto"
        )
    if mode != OVERWRITE_ROWS:
        return mode
    if is_everything(predicates):
        chosen = option or (session if by_path else STATIC)
        return OVERWRITE_DYNAMIC if chosen == DYNAMIC else mode
    if option == DYNAMIC and not _names_one_partition(table, predicates):
        raise InvalidInputError(
            f"option partitionOverwriteMode is {DYNAMIC}, but the statement says by a condition which rows go; leave "
            f"the option out, or set {_SETTING} to {DYNAMIC} for INSERT OVERWRITE ... PARTITION"
        )
    return mode


def _names_one_partition(table: PartitionedTable, predicates: Sequence[SparkExpression]) -> bool:
    """Whether a value is named for each partition column, as a full PARTITION (...) does; then both modes are one."""
    named = {
        predicate.children[0].column
        for predicate in predicates
        if predicate.name in _EQUALS and len(predicate.children) == 2
    }
    return all(
        isinstance(field.transform, Identity) and field.source_columns(table.lance_schema)[0] in named
        for field in table.specs.current.fields
    )
