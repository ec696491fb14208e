"""The estimated size of a read: the share of the columns in each file, and values of blobs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark._proto import table_pb2
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.projection import project
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.table.reading.selectivity import BlobBytes
from lance_spark.table.rows.fragment import FragmentList

SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64()), ("b", pa.int32()), ("s", pa.string())]))
FIELDS = [field.id for field in SCHEMA.fields]


def _fragments(*sizes: tuple[tuple[int, list[int]], ...]) -> FragmentList:
    return FragmentList(
        table_pb2.DataFragment(
            id=place,
            physical_rows=100,
            files=[
                table_pb2.DataFile(
                    path="f", fields=fields, file_major_version=2, file_minor_version=1, file_size_bytes=size
                )
                for size, fields in files
            ],
        )
        for place, files in enumerate(sizes)
    )


def test_shares_of_files() -> None:
    fragments = _fragments(
        ((3200, FIELDS),),
        ((1200, FIELDS[:2]), (999, FIELDS[2:])),
        ((0, FIELDS),),
        ((1200, FIELDS[:2]), (0, FIELDS[2:])),
        (),
    )
    found = ProjectedSizes(SCHEMA, project(SCHEMA, ["a"])).of(fragments.sizes)
    assert np.array_equal(found, [800, 800, np.nan, np.nan, 0], equal_nan=True)
    every = ProjectedSizes(SCHEMA, SCHEMA).of(fragments.sizes)
    assert np.array_equal(every, [3200, 2199, np.nan, np.nan, 0], equal_nan=True)
    assert ProjectedSizes(SCHEMA, project(SCHEMA, [])).of(fragments.sizes)[:2].tolist() == [0, 0]


def test_bytes_of_blobs_are_added_by_rows() -> None:
    fragments = _fragments(((3200, FIELDS),), ())
    found = ProjectedSizes(SCHEMA, project(SCHEMA, ["a"]), BlobBytes(total=2.5)).of(fragments.sizes)
    assert found.tolist() == [1050, 250]
