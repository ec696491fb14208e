"""What procedures do differently for partitioned tables."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.partitioned.columns import edit_columns
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema import evolution
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION, with_metadata
from lance_spark.schema.field import FieldId, LanceSchema

MAIN = "main"


def without_branches(table: PartitionedTable) -> UnsupportedFeatureError:
    """The error that partitioned tables have no branches."""
    return UnsupportedFeatureError(
        f"{table.root} is a partitioned table, which has no branches: its versions are those of __manifest, in one "
        "line. Use a tag",
        feature="branches of partitioned tables",
    )


def with_primary_key(table: PartitionedTable, columns: Sequence[str]) -> PartitionedTable:
    """The version with `columns` as the primary key."""
    entries = {
        name: {PRIMARY_KEY: b"true", PRIMARY_KEY_POSITION: str(place).encode()}
        for place, name in enumerate(columns, start=1)
    }

    def edit(schema: LanceSchema, _first_id: FieldId) -> LanceSchema:
        for name, metadata in entries.items():
            schema = evolution.replaced(
                schema,
                name,
                lambda old, new=metadata: with_metadata(old, {**old.metadata, **new}),  # type: ignore[misc]
            )
        return schema

    return edit_columns(table, edit)
