"""Random DELETE, UPDATE and MERGE beside a model in Python; afterwards every version has the rows it had."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.connector.random_statements import check_random_statements


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (bucket(3, id), k)"])
@pytest.mark.parametrize("seed", [1])
def test_rows_are_those_of_the_model(spark: SparkSession, tmp_path: Path, partitioned: str, seed: int) -> None:
    check_random_statements(spark, tmp_path, partitioned, seed)
