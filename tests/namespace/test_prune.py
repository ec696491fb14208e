"""Pruning: never wrong (property), and sharp (tables)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.sql import parse
from lance_spark.namespace.partition_spec import PartitionSpec
from lance_spark.namespace.prune import partition_filter
from tests.namespace.random_specs import SCHEMA, conditions, rows, specs

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Europe/Berlin"]


@settings(max_examples=600, deadline=None)
@given(rows(), specs(), conditions, st.sampled_from(ZONES))
def test_no_row_that_matches_is_in_a_partition_left_out(
    batch: pa.RecordBatch, spec: PartitionSpec, sql: str, zone: str
) -> None:
    tree = parse(sql, time_zone=zone)
    values = spec.values(batch, SCHEMA)
    condition = partition_filter(spec, SCHEMA, tree, time_zone=zone)
    if condition is None:
        return
    matches = evaluate_filter(tree, batch, time_zone=zone)
    kept = evaluate_filter(condition, values, time_zone=zone)
    lost = pc.and_not(matches, kept)
    assert not lost.true_count, f"{condition} leaves out {values.filter(lost).to_pylist()}"
