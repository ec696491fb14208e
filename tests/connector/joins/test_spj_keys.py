"""The keys of partitions of two specs: what the coarser transform makes of the rows themselves. No Spark is started."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year, ordinals
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.spark.connector.scan.common_keys import common_keys
from lance_spark.spark.connector.scan.partition_keys import texts
from tests.partitioned.verbs import save_rows

pytestmark = pytest.mark.tasks

YEARS, MONTHS, DAYS, HOURS = ((Year(), Month(), Day(), Hour())[:count] for count in (1, 2, 3, 4))
START = datetime(1969, 11, 30, 22, tzinfo=timezone.utc)
ROWS = pa.table(
    {
        "n": pa.array([*range(-9, 9), 2**62, None], pa.int64()),
        "s": pa.array([*(f"ä{number // 3}{number}" for number in range(19)), None]),
        "d": pa.array([*(Decimal(f"{number}.50") for number in range(-9, 10)), None], pa.decimal128(9, 2)),
        "t": pa.array(
            [*(START + timedelta(hours=61 * number) for number in range(19)), None], pa.timestamp("us", "UTC")
        ),
    }
)
Fields = Sequence[Transform]

CASES: list[tuple[str, Fields, Fields, str, Fields]] = [
    ("n", [Bucket(16)], [Bucket(8)], "bucket", [Bucket(8)]),
    ("n", [Bucket(16)], [Bucket(12)], "bucket", [Bucket(4)]),
    ("s", [Identity()], [Bucket(3)], "bucket", [Bucket(3)]),
    ("n", [Bucket(3)], [Identity()], "bucket", [Bucket(3)]),
    ("s", [Truncate(2)], [Truncate(3)], "truncate_2", [Truncate(2)]),
    ("s", [Identity()], [Truncate(2)], "truncate_2", [Truncate(2)]),
    ("n", [Truncate(3)], [Truncate(6)], "truncate_6", [Truncate(6)]),
    ("d", [Truncate(6)], [Truncate(2)], "truncate_6", [Truncate(6)]),
    ("t", DAYS, MONTHS, "months", MONTHS),
    ("t", YEARS, HOURS, "years", YEARS),
    ("t", [Identity()], DAYS, "days", DAYS),
    ("t", HOURS, [Identity()], "hours", HOURS),
    ("t", [Identity()], [Month()], "month", [Month()]),
]


def fields(column: str, transforms: Fields) -> list[PartitionBy]:
    return [
        PartitionBy(f"{column}_{'_'.join(map(str, item.to_json().values()))}", (column,), item) for item in transforms
    ]


@pytest.mark.parametrize(("column", "first", "second", "name", "common"), CASES)
def test_keys_are_those_of_the_rows(column: str, first: Fields, second: Fields, name: str, common: Fields) -> None:
    table = create_partitioned(f"memory://{uuid.uuid4().hex}", ROWS.schema, fields(column, first))
    table = save_rows(table, ROWS)
    table = save_rows(set_partitioning(table, fields(column, second)), ROWS)
    partitions = table.partitions()
    assert len({partition.spec.id for partition in partitions}) == 2
    (key,) = common_keys(table.specs.specs, table.lance_schema, ROWS.column_names)
    assert key.transform.name == name
    seen = set()
    for partition, value in zip(partitions, key.values(partitions), strict=True):
        opened = table.open(partition)
        (fragment,) = opened.manifest.fragments
        for batch in table.plan(opened, [column]).read([fragment]):
            parts = [item.apply(batch.column(0)) for item in common]
            expected = texts(ordinals(parts) if name.endswith("s") else parts[0])
            assert set(expected) == {value}
            seen.add(value)
    assert None in seen
    assert len(seen) > 2


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("n", [Bucket(16)], [Bucket(9)]),
        ("n", [Truncate(4)], [Truncate(6)]),
        ("n", [Bucket(4)], [Truncate(4)]),
        ("t", [Day()], DAYS),
        ("t", DAYS, [Bucket(4)]),
    ],
)
def test_no_key_in_common(column: str, first: Fields, second: Fields) -> None:
    table = create_partitioned(f"memory://{uuid.uuid4().hex}", ROWS.schema, fields(column, first))
    table = set_partitioning(table, fields(column, second))
    assert common_keys(table.specs.specs, table.lance_schema, ROWS.column_names) == []
    assert common_keys(table.specs.specs[:1], table.lance_schema, ["other"]) == []


def test_one_key_of_three_specs() -> None:
    table = create_partitioned(f"memory://{uuid.uuid4().hex}", ROWS.schema, fields("n", [Bucket(24)]))
    for number in (16, 12):
        table = set_partitioning(table, fields("n", [Bucket(number)]))
    (key,) = common_keys(table.specs.specs, table.lance_schema, ROWS.column_names)
    assert (key.transform.number, sorted(key.of_specs)) == (4, [1, 2, 3])
