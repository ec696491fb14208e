from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import PartitionedTable
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows
from tests.support.catalog_roots import root as any_root
from tests.support.moto import s3_bucket

__all__ = ["any_root", "s3_bucket"]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A local root without a table."""
    return str(tmp_path / "t")


@pytest.fixture
def table(root: str) -> PartitionedTable:
    """Rows 1 and 2 in `at`, row 3 in `ch`, row 4 in the partition of nulls."""
    made = create_partitioned(root, SCHEMA, BY_COUNTRY)
    made = save_rows(made, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))
    return save_rows(made, rows(4, country=None))
