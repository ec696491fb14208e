"""Keys that partitions of several specs have in common.

Where two specs differ in coarseness the key is the coarser one: buckets of the greatest common divisor, the longer
period, the shorter prefix, or what a transform makes of the values themselves. Finer values are reduced to it by the
rules that the reducers of the JVM's functions follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql.types import DataType, IntegerType, StringType

from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.spec import PartitionSpec
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket, bucket_reducer
from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year, ordinals, time_reducer
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.connector.scan.partition_keys import (
    BUCKET,
    IDENTITY,
    PERIODS,
    KeyColumn,
    SparkTransform,
    key_columns,
    texts,
    truncate_width,
)

_PARTS: tuple[Transform, ...] = (Year(), Month(), Day(), Hour())


@dataclass(frozen=True, slots=True)
class CommonKey:
    """One column of the keys of partitions.

    Attributes:
        transform: what Spark computes it by.
        type: of the values.
        of_specs: by the id of a spec, the key of its partitions that reduces to this one.
    """

    transform: SparkTransform
    type: DataType
    of_specs: Mapping[int, KeyColumn]

    def values(self, partitions: Sequence[Partition]) -> list[str | None]:
        """The value of each partition as text that the JVM reads back; None for NULL."""
        found: list[str | None] = [None] * len(partitions)
        for spec_id, own in self.of_specs.items():
            places = [place for place, partition in enumerate(partitions) if partition.spec.id == spec_id]
            if places:
                values = own.values([partitions[place] for place in places])
                for place, text in zip(places, texts(_reduced(values, own.transform, self.transform)), strict=True):
                    found[place] = text
        return found


def common_keys(specs: Sequence[PartitionSpec], schema: LanceSchema, columns: Sequence[str]) -> list[CommonKey]:
    """The keys that partitions of all of `specs` have, of columns that a scan returns."""
    if not specs:
        return []
    by_spec = {spec.id: key_columns(spec, schema) for spec in specs}
    found: dict[SparkTransform, CommonKey] = {}
    for column in by_spec[specs[0].id]:
        key = _common(column, specs[0].id, by_spec)
        if key is not None and all(path[0] in columns for path in key.transform.columns):
            found.setdefault(key.transform, key)
    return list(found.values())


def _common(first: KeyColumn, spec_id: int, by_spec: Mapping[int, Sequence[KeyColumn]]) -> CommonKey | None:
    """The key that `first` of one spec and a key of each other one reduce to, the finest there is."""
    chosen = {spec_id: first}
    for other, columns in by_spec.items():
        if other not in chosen:
            met = [column for column in columns if _common_transform(_finest(chosen), column) is not None]
            if not met:
                return None
            chosen[other] = next((column for column in met if column.transform == first.transform), met[0])
    key = _finest(chosen)
    return CommonKey(key.transform, key.type, chosen)


def _finest(chosen: Mapping[int, KeyColumn]) -> KeyColumn:
    def meet(one: KeyColumn, other: KeyColumn) -> KeyColumn:
        met = _common_transform(one, other)
        assert met is not None, "only keys are chosen that meet those before"
        return met

    return reduce(meet, chosen.values())


def _common_transform(one: KeyColumn, other: KeyColumn) -> KeyColumn | None:
    """The finest key that both reduce to, None if there is none."""
    first, second = one.transform, other.transform
    if first.columns != second.columns:
        return None
    if first == second or second.name == IDENTITY:
        return one
    if first.name == IDENTITY:
        return other
    if first.name == second.name == BUCKET:
        common = math.gcd(first.number or 0, second.number or 0)
        return KeyColumn(SparkTransform(BUCKET, first.columns, common), IntegerType()) if common > 1 else None
    if first.name in PERIODS and second.name in PERIODS:
        return min(one, other, key=lambda column: PERIODS.index(column.transform.name))
    width, other_width = truncate_width(first), truncate_width(second)
    if width is None or other_width is None:
        return None
    narrow, wide = (one, other) if width < other_width else (other, one)
    if isinstance(one.type, StringType):
        return narrow
    return wide if max(width, other_width) % min(width, other_width) == 0 else None


def _reduced(values: pa.Array, own: SparkTransform, common: SparkTransform) -> pa.Array:
    """`values` of one key as those of another that it meets."""
    if own == common:
        return values
    if own.name == BUCKET:
        reducer = bucket_reducer(own.number or 0, common.number or 0)
        assert reducer is not None, "the number of one divides that of the other"
        return reducer.apply(values)
    if own.name in PERIODS:
        return time_reducer(Level(PERIODS.index(own.name)), Level(PERIODS.index(common.name))).apply(values)
    width = truncate_width(common)
    if width:
        return Truncate(width).apply(values)
    # What is left are the values of the column themselves.
    if common.name == BUCKET:
        return Bucket(common.number or 0).apply(values)
    if common.name in PERIODS:
        levels = PERIODS.index(common.name) + 1
        return ordinals([part.apply(values) for part in _PARTS[:levels]])
    return next(part for part in _PARTS if part.name == common.name).apply(values)
