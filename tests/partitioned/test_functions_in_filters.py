"""Partitions and indexes are never skipped because of a function that pruning does not know."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate

FILTERS = [
    "left(p, 1) = 'a'",
    "regexp_match(p, '^a')",
    "NOT regexp_match(p, '^a')",
    "regexp_match(p, 'a') IS NULL",
    "NOT regexp_like(p, 'a')",
    "p RLIKE '^[Aa]'",
    "CASE WHEN q > 1 THEN p = 'x' ELSE p = 'apple' END",
    "nullif(p, 'x') IS NULL",
    "nullif(p, 'x') = 'apple'",
    "coalesce(p, 'x') = 'x'",
    "greatest(q, 1) = 1",
    "least(q, 1) = -3",
    "round(q, -1) = 10",
    "if(q IS NULL, TRUE, q > 0)",
    "concat_ws('-', p, p) = ''",
    "instr(p, 'n') = 3 OR split_part(p, 'p', 2) = ''",
    "date_part('year', t) = 2021",
    "date_trunc('year', t) = TIMESTAMP_NTZ '2021-01-01'",
    "date_part('month', t) = 2 AND year(t) = 2022",
    "t + INTERVAL '1' DAY > TIMESTAMP_NTZ '2022-01-01'",
    "t > TIMESTAMP_NTZ '2022-01-01' - INTERVAL '20 days'",
    "t > now()",
    "t < now() AND sign(q) = -1",
]
SPECS = {
    "values": [PartitionBy("p", ("p",), Identity()), PartitionBy("q", ("q",), Identity())],
    "prefixes": [PartitionBy("p", ("p",), Truncate(2))],
    "years": [PartitionBy("y", ("t",), Year())],
}


def _rows() -> pa.Table:
    random = np.random.default_rng(5)

    def chosen(options: list[Any]) -> list[Any]:
        return [options[place] for place in random.integers(0, len(options), 300)]

    moments = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(days)) for days in range(900)]
    return pa.table(
        {
            "id": pa.array(range(300), pa.int64()),
            "p": pa.array(chosen(["apple", "Banana", "ünï", None, "", "x"]), pa.string()),
            "q": pa.array(chosen([-3, 0, 5, None]), pa.int32()),
            "t": pa.array(chosen([*moments, *[None] * 100]), pa.timestamp("us")),
        }
    )


@pytest.fixture(scope="module")
def plain() -> Any:
    return lance_spark.write(_rows(), f"memory://functions-{uuid.uuid4().hex}", max_rows_per_file=70)


@pytest.mark.parametrize("spec", SPECS)
def test_partitions_with_rows_that_match_are_read(plain: Any, spec: str) -> None:
    uri = f"memory://functions-{uuid.uuid4().hex}"
    table = create_partitioned_dataset(uri, plain.schema, SPECS[spec]).append(_rows())
    for sql in FILTERS:
        wanted = plain.to_table(["id"], sql)["id"].to_pylist()
        assert sorted(table.to_table(["id"], sql)["id"].to_pylist()) == wanted, sql
        assert table.count_rows(sql) == len(wanted), sql


def test_rows_that_match_are_found_beside_indexes(plain: Any) -> None:
    wanted = {sql: plain.to_table(["id"], sql)["id"].to_pylist() for sql in FILTERS}
    indexed = plain.create_scalar_index("p", "BTREE").create_scalar_index("q", "ZONEMAP")
    indexed = indexed.create_scalar_index("t", "BITMAP")
    for sql in FILTERS:
        assert indexed.to_table(["id"], sql)["id"].to_pylist() == wanted[sql], sql
