"""Merging rows into a partitioned table by key; a row whose partition value changes moves to that partition.

As for one table (`table.merge`): the source is held in memory, of the target only the key columns are read, and of the
rows that match only those columns that the source does not have. Two merges that insert the same key do not both land.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.expr.columns import column_values
from lance_spark.layouts.arrow_take import take
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.save import RowDelta, commit_delta
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, RowOrigins
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.reading.fragment_reader import FragmentReader, row_ranges
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.row_level.merge import Matched, MergeActions, conformed, key_paths, one_array, window_rows
from lance_spark.table.row_level.rewritten_rows import by_fragment
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, row_addresses
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions


def merge_rows(
    table: PartitionedTable,
    data: object,
    on: str | Sequence[str],
    *,
    when_matched: str | None = "update",
    when_not_matched: str | None = "insert",
    when_not_matched_by_source: str | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The version in which `data` is merged into the rows of `table`; `table` if that changes nothing.

    If other writers have touched the same rows, or inserted one of the same keys, all is done again on the newest
    version.

    Args:
        data: rows with some columns of the table, the key columns among them.
        on: the key columns, names or dotted paths into structs.
        when_matched: "update", "delete" or None for nothing.
        when_not_matched: "insert" or None.
        when_not_matched_by_source: "delete" or None.

    Raises:
        InvalidInputError: several rows of the source match one row of the table, or the source does not fit the table.
            Nothing was changed.
        NotFoundError: there is no such key column.
        CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    actions = MergeActions.of(when_matched, when_not_matched, when_not_matched_by_source)
    paths = [on] if isinstance(on, str) else list(on)
    source = RowSource.of(data)
    rows = pa.Table.from_batches(list(source.batches), schema=source.schema)

    def attempt(current: PartitionedTable) -> PartitionedTable:
        return _Merge(current, rows, paths, actions).run(options)

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


@dataclass(frozen=True, slots=True)
class _Matches:
    """What the keys of one partition say.

    Attributes:
        addresses: uint64[n], ascending: its rows that match.
        source_rows: int64[n]: the row of the source that each of them matches.
        unmatched: uint64[k]: its rows that match none, if they are to go.
    """

    addresses: UInt64Array
    source_rows: Int64Array
    unmatched: UInt64Array


class _Merge:
    """One run of a merge, on one version."""

    def __init__(self, table: PartitionedTable, rows: pa.Table, on: Sequence[str], actions: MergeActions) -> None:
        self._table = table
        self._actions = actions
        schema = table.lance_schema
        self._paths = key_paths(schema, rows.schema, on)
        self._names = [".".join(path) for path in self._paths]
        given, self._source = conformed(schema, rows, inserts=actions.not_matched is not None)
        self._given = {field.id for field in given}
        self._arrow_schema = to_arrow_schema(LanceSchema(schema.fields))
        self._index = KeyIndex(self._keys_of(self._source), self._names)
        self._seen = np.zeros(self._index.num_keys, np.bool_)

    def run(self, options: CommitOptions | None) -> PartitionedTable:
        opened = self._table.open_all(self._table.index.partitions)
        matches = {item.partition.object_id: self._match(item) for item in opened}
        if self._actions.matched is not None:
            self._check_unambiguous()
        inserted = self._inserted()
        plan = PartitionedWrite.of(self._table, self._arrow_schema)
        with PartitionWriter(plan) as writer:
            if self._actions.matched is Matched.UPDATE:
                for item in opened:
                    for batch, addresses in self._updated(item, matches[item.partition.object_id]):
                        homes = pa.array([item.partition.object_id] * batch.num_rows)
                        writer.write(batch, RowOrigins(homes, addresses))
            step = window_rows(self._source, 0)
            for start in range(0, len(inserted), step):
                writer.write(self._batch(inserted[start : start + step], {}))
            added = writer.close()
        deleted = {name: np.concatenate([found.addresses, found.unmatched]) for name, found in matches.items()}
        check = _InsertedKeys(self._table, self._keys_of(self._source, inserted), self._paths)
        return commit_delta(self._table, plan, RowDelta(deleted, added), options, check=check)

    def _keys_of(self, rows: pa.RecordBatch, places: Int64Array | None = None) -> list[pa.Array]:
        columns = [column_values(rows, path) for path in self._paths]
        return columns if places is None else [take(column, places) for column in columns]

    def _match(self, opened: PartitionVersion) -> _Matches:
        matched: list[UInt64Array] = [np.empty(0, np.uint64)]
        unmatched: list[UInt64Array] = [np.empty(0, np.uint64)]
        keys: list[Int64Array] = [np.empty(0, np.int64)]
        for fragment in opened.manifest.fragments:
            for addresses, found in _found_keys(self._table, opened, fragment, self._paths, self._index):
                is_match = found >= 0
                self._seen[found[is_match]] = True
                if self._actions.matched is not None:
                    matched.append(addresses[is_match])
                    keys.append(found[is_match])
                if self._actions.not_matched_by_source is not None:
                    unmatched.append(addresses[~is_match])
        addresses, numbers = np.concatenate(matched), np.concatenate(keys)
        order = np.argsort(addresses)
        return _Matches(addresses[order], self._index.first_rows()[numbers[order]], np.concatenate(unmatched))

    def _inserted(self) -> Int64Array:
        if self._actions.not_matched is None:
            return np.empty(0, np.int64)
        is_known = self._index.keys >= 0
        is_known[is_known] = self._seen[self._index.keys[is_known]]
        return np.flatnonzero(~is_known)

    def _check_unambiguous(self) -> None:
        ambiguous = np.flatnonzero(self._seen & (self._index.counts() > 1))
        if len(ambiguous):
            row = self._index.first_rows()[ambiguous[:1]]
            values = [str(column[0]) for column in self._keys_of(self._source, row)]
            key = ", ".join(f"{name} = {value}" for name, value in zip(self._names, values, strict=True))
            raise InvalidInputError(
                f"several rows of the source match one row of the table, for {len(ambiguous)} keys, such as {key}; "
                "leave one row of each key in the source"
            )

    def _updated(self, opened: PartitionVersion, matches: _Matches) -> Iterator[tuple[pa.RecordBatch, UInt64Array]]:
        """The rows of a partition that match, as they become, and their addresses."""
        kept = [field for field in self._table.lance_schema.fields if field.id not in self._given]
        places = {message.id: place for place, message in enumerate(opened.manifest.fragments.messages)}
        bases = opened.table.bases(opened.manifest)
        start = 0
        for fragment_id, offsets in by_fragment(matches.addresses):
            columns = FragmentReader(opened.manifest.fragments[places[fragment_id]], bases).columns(kept)
            step = window_rows(self._source, sum(columns.encoded_widths()))
            for first in range(0, len(offsets), step):
                part = offsets[first : first + step]
                values = dict(zip((field.id for field in kept), columns.read(row_ranges(part)), strict=True))
                yield (
                    self._batch(matches.source_rows[start : start + len(part)], values),
                    row_addresses(fragment_id, part),
                )
                start += len(part)

    def _batch(self, source_rows: Int64Array, kept: Mapping[FieldId, pa.ChunkedArray]) -> pa.RecordBatch:
        """Whole rows: columns of the source at `source_rows`, `kept` ones, and nulls for the others."""
        names = set(self._source.schema.names)
        arrays = []
        for field, column in zip(self._table.lance_schema.fields, self._arrow_schema, strict=True):
            if column.name in names:
                arrays.append(take(self._source.column(column.name), source_rows))
            elif field.id in kept:
                arrays.append(one_array(kept[field.id]))
            else:
                arrays.append(pa.nulls(len(source_rows), column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)


class _InsertedKeys:
    """Looks at newer versions of the table for keys that ours inserts; their columns are ours, or nothing commits."""

    def __init__(self, base: PartitionedTable, keys: Sequence[pa.Array], paths: Sequence[tuple[str, ...]]) -> None:
        self._paths = paths
        self._index = KeyIndex(keys, [".".join(path) for path in paths])
        self._seen = base

    def __call__(self, table: PartitionedTable) -> None:
        """Passes if no other writer has brought in a row with one of the keys.

        Raises:
            RetryableConflictError: one has.
        """
        if not self._index.num_keys:
            return
        for partition in table.index.partitions:
            known = self._seen.index.find(partition.key)
            if known is not None and (known.location, known.version, known.branch, known.tag) == (
                partition.location,
                partition.version,
                partition.branch,
                partition.tag,
            ):
                continue
            opened = table.open(partition)
            files = _files_by_fragment(self._seen, known) if known and known.location == partition.location else {}
            for place, message in enumerate(opened.manifest.fragments.messages):
                if files.get(message.id) != message.files:
                    self._look_into(table, opened, opened.manifest.fragments[place])
        self._seen = table

    def _look_into(self, table: PartitionedTable, opened: PartitionVersion, fragment: DataFragment) -> None:
        for _, found in _found_keys(table, opened, fragment, self._paths, self._index):
            if bool((found >= 0).any()):
                raise RetryableConflictError(
                    f"another writer inserted a key that was about to be inserted into {table.root}. Read the new "
                    "version and run the merge again",
                    table_version=table.version,
                )


def _files_by_fragment(table: PartitionedTable, partition: Partition) -> Mapping[int, object]:
    try:
        return {message.id: message.files for message in table.open(partition).manifest.fragments.messages}
    except NotFoundError:
        return {}  # A clean-up has taken the version; all is looked at.


def _found_keys(
    table: PartitionedTable,
    opened: PartitionVersion,
    fragment: DataFragment,
    paths: Sequence[tuple[str, ...]],
    index: KeyIndex,
) -> Iterator[tuple[UInt64Array, Int64Array]]:
    """(addresses, numbers of their keys in `index`) of the rows of a fragment, in batches."""
    tops = list(dict.fromkeys(path[0] for path in paths))
    scan = table.plan(opened, tops, with_row_address=True, batch_rows=1 << 20)
    for batch in scan.read_fragment(fragment):
        addresses: UInt64Array = batch.column(batch.num_columns - 1).to_numpy()
        yield addresses, index.find([column_values(batch, path) for path in paths])
