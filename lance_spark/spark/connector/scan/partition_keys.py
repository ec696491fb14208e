"""The partitioning of a table as Spark's planner sees it: what it can join and cluster by, and the keys of partitions.

Year, month, day and hour of one column are one ordered key, `years(c)` to `hours(c)`. Spark joins on functions of one
column alone, so a truncation has its width in its name, and `multi_bucket` is not a key. Keys of floats are left out:
NaN and zero have several forms; so are buckets of uint64, which Spark reads as decimals, whose large values hash
differently. Omitted keys make the partitioning coarser, never wrong.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import DataType, IntegerType

from lance_spark.partitioned.field import PartitionField
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.spec import PartitionSpec
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import DatePart, ordinals
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.types.schemas import is_lossless, to_spark_schema

PERIODS = ("years", "months", "days", "hours")
"""Names of the keys that stand for a hierarchy of time, the longest period first."""

IDENTITY, BUCKET = "identity", "bucket"

_TRUNCATE = "truncate_"


@dataclass(frozen=True, slots=True)
class SparkTransform:
    """A transform of Spark.

    Attributes:
        name: "identity", "bucket", or a function of the catalog.
        columns: paths of the columns.
        number: the first argument, if there is one.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the keys that partitions of a spec have.

    Attributes:
        transform: what Spark computes it by.
        type: of the values.
        fields: the partition fields that it stands for.
    """

    transform: SparkTransform
    type: DataType
    fields: tuple[PartitionField, ...] = ()

    def values(self, partitions: Sequence[Partition]) -> pa.Array:
        """The value of each partition."""
        columns = [
            pa.concat_arrays([partition.values.column(field.column_name) for partition in partitions])
            for field in self.fields
        ]
        if isinstance(self.fields[0].transform, DatePart) and self.transform.name in PERIODS:
            return ordinals(columns)
        return columns[0]


def key_columns(spec: PartitionSpec, schema: LanceSchema) -> list[KeyColumn]:
    """The keys that partitions of `spec` have, in the order of its fields."""
    found: list[KeyColumn] = []
    pending = list(spec.fields)
    while pending:
        field = pending.pop(0)
        (path, *others) = field.source_columns(schema)
        if path is None or others:
            continue
        if isinstance(field.transform, DatePart) and field.transform.level == 0:
            hierarchy = [field]
            while pending and _continues(hierarchy, pending[0]):
                hierarchy.append(pending.pop(0))
            name = PERIODS[len(hierarchy) - 1]
            found.append(KeyColumn(SparkTransform(name, (path,)), IntegerType(), tuple(hierarchy)))
        else:
            transform = _key_transform(field, path, schema)
            if transform is not None:
                (spark,) = to_spark_schema(pa.schema([field.arrow_field])).fields
                found.append(KeyColumn(transform, spark.dataType, (field,)))
    return found


def _continues(hierarchy: list[PartitionField], field: PartitionField) -> bool:
    return (
        isinstance(field.transform, DatePart)
        and field.source_ids == hierarchy[0].source_ids
        and field.transform.level == len(hierarchy)
    )


def _key_transform(field: PartitionField, path: tuple[str, ...], schema: LanceSchema) -> SparkTransform | None:
    if pt.is_floating(field.result_type) or not is_lossless(field.result_type):
        return None
    if isinstance(field.transform, Identity):
        return SparkTransform(IDENTITY, (path,))
    if isinstance(field.transform, Bucket) and field.source_types(schema) != [pa.uint64()]:
        return SparkTransform(BUCKET, (path,), field.transform.num_buckets)
    if isinstance(field.transform, Truncate):
        return SparkTransform(f"{_TRUNCATE}{field.transform.width}", (path,))
    if isinstance(field.transform, DatePart):
        return SparkTransform(field.transform.name, (path,))
    return None


def spark_transforms(spec: PartitionSpec, schema: LanceSchema) -> list[SparkTransform]:
    """The partitioning as DESCRIBE and SHOW CREATE TABLE show it; fields without a name in SQL are left out."""
    found: list[SparkTransform] = []
    for field in spec.fields:
        paths = field.source_columns(schema)
        columns = tuple(path for path in paths if path is not None)
        if len(columns) < len(paths) or field.transform is None:
            continue
        number = None
        if isinstance(field.transform, (Bucket, MultiBucket)):
            number = field.transform.num_buckets
        elif isinstance(field.transform, Truncate):
            number = field.transform.width
        found.append(SparkTransform(field.transform.name, columns, number))
    return found


def write_transforms(spec: PartitionSpec, schema: LanceSchema) -> list[SparkTransform]:
    """Transforms by which rows are clustered before they are written: the partition keys' and `multi_bucket`."""
    found = [column.transform for column in key_columns(spec, schema)]
    return found + [item for item in spark_transforms(spec, schema) if item.name == MultiBucket.name]


def truncate_width(transform: SparkTransform) -> int | None:
    """The width in the name of a truncation, None for other names."""
    return int(transform.name.removeprefix(_TRUNCATE)) if transform.name.startswith(_TRUNCATE) else None


def texts(values: pa.Array) -> list[str | None]:
    """Each value as text that the JVM reads back; None for NULL."""
    if pt.is_timestamp(values.type) or pt.is_duration(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz) if pt.is_timestamp(values.type) else pa.duration("us"))
        values = values.cast(pa.int64())
    elif pt.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pt.is_time(values.type):
        values = values.cast(pa.time64("ns")).cast(pa.int64())
    return [None if value is None else _text(value) for value in values.to_pylist()]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")
    return str(value)
