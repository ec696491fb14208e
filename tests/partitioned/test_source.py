"""The interface that plain and partitioned tables share, over both kinds with the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import STABLE_ROW_IDS, PartitionedTable, open_partitioned
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.storage.meter import READS
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.source import Split, TableSource, known_row_counts
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows

ROWS = pa.concat_tables([rows(1, 2, country="at"), rows(3, country="ch"), rows(4, 5, 6, country=None)])
KINDS = ("plain", "partitioned")


def written(root: Path, kind: str) -> TableSource:
    uri = str(root / kind)
    if kind == "plain":
        return lance_spark.write(ROWS, uri, enable_stable_row_ids=True)
    return save_rows(create_partitioned(uri, SCHEMA, BY_COUNTRY, properties={STABLE_ROW_IDS: "true"}), ROWS)


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> TableSource:
    return written(tmp_path, request.param)


def ids_in(source: TableSource, splits: Iterable[Split]) -> list[int]:
    found: list[int] = []
    for split in splits:
        scan = Scan.of(source.lance_schema, split.bases, columns=["id"])
        for fragment in split.manifest.fragments:
            found += [key for batch in scan.read([fragment]) for key in batch.column("id").to_pylist()]
    return sorted(found)


def test_splits_hold_every_row_once(source: TableSource) -> None:
    splits = source.splits()
    assert len(splits) == source.num_splits
    assert ids_in(source, splits) == [1, 2, 3, 4, 5, 6]
    assert sum(known_row_counts(splits) or ()) == 6


def test_metadata(source: TableSource) -> None:
    assert source.schema.names == [field.name for field in source.lance_schema.fields] == SCHEMA.names
    assert source.schema.types == SCHEMA.types
    assert source.file_version is not None
    assert source.has_stable_row_ids
    assert source.timestamp.tzinfo is not None
    assert all(isinstance(value, str) for value in source.properties.values())


@pytest.mark.parametrize(
    ("filter", "matching"), [("country = 'at'", {1, 2}), ("country IS NULL", {4, 5, 6}), ("id = 3", {3})]
)
def test_splits_with_filter_lose_no_matching_row(source: TableSource, filter: str, matching: set[int]) -> None:
    assert matching <= set(ids_in(source, source.splits(filter)))


@pytest.mark.parametrize(
    ("kind", "columns", "splits", "matching_splits", "has_keys"),
    [("plain", [], 1, 1, False), ("partitioned", [("country",)], 3, 1, True)],
)
def test_splits_of_each_kind(
    tmp_path: Path, kind: str, columns: list[tuple[str, ...]], splits: int, matching_splits: int, has_keys: bool
) -> None:
    source = written(tmp_path, kind)
    assert source.split_columns == columns
    assert source.num_splits == splits
    assert len(source.splits("country = 'ch'")) == matching_splits
    keys = {split.key for split in source.splits()}
    assert len(keys) == splits
    assert (None not in keys) is has_keys


def test_known_row_counts_missing_count(source: TableSource) -> None:
    first = source.splits()[0]
    messages = [fragment.to_proto() for fragment in first.manifest.fragments]
    messages[0].physical_rows = 0  # As old writers left it.
    unknown = Split(first.table, replace(first.manifest, fragments=FragmentList(messages)))
    assert known_row_counts([unknown]) is None


def test_handle_gives_the_version_it_names(source: TableSource, tmp_path: Path) -> None:
    kind = "plain" if source.num_splits == 1 else "partitioned"
    handle = TableHandle(str(tmp_path / kind), version=source.version, partitioned=kind == "partitioned")
    if kind == "plain":
        lance_spark.write(rows(9), str(tmp_path / kind), mode="append")
    else:
        save_rows(source, rows(9))  # type: ignore[arg-type]
    assert handle.source().version == source.version
    assert ids_in(source, handle.source().splits()) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(NotFoundError, match="version 99"):
        replace(handle, version=99).source()


def test_split_errors_name_the_version(source: TableSource, tmp_path: Path) -> None:
    split = source.splits()[0]
    (split_file, *_) = split.manifest.fragments[0].files
    store, path = split.bases.data_file(split_file)
    store.delete(path)
    with pytest.raises(NotFoundError, match=f"version {source.version} of "):
        ids_in(source, [split])


def test_filter_on_other_columns_reads_the_partitions_once(tmp_path: Path) -> None:
    made = written(tmp_path, "partitioned")
    assert isinstance(made, PartitionedTable)
    table = open_partitioned(made.root)
    expected = [item.object_id for item in table.partitions("id > 0")]
    before = READS.counts
    for condition in ("id = 1", "id > 3 OR id IS NULL", "country = 'at' OR id = 2"):
        assert [item.object_id for item in table.partitions(condition)] == expected
    assert (READS.counts - before).requests == 0
    assert expected == [item.object_id for item in open_partitioned(made.root).partitions()]
    assert len(table.partitions("country = 'at'")) == 1
