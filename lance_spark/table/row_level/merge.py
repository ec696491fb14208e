"""Merging rows into a table by key: those that match are updated or deleted, the others are inserted.

The source is held in memory. Of the target only the key columns are read, fragment by fragment, or what indexes of
the key columns say; of the rows that match only those columns that the source does not have.

Two merges that insert the same key must not both land. A merge that finds new versions before its own therefore looks
for its inserted keys in the fragments that these have added or changed, and if one is there, it is run again
on the newest version, where the key matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.expr.columns import column_values
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.expr.values import no_rows
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.constraints import without_checks
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.generated import identities_of
from lance_spark.schema.projection import dotted, find, parse_path
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.row_level.column_updates import ColumnUpdate, ColumnUpdater
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.key_index import KeyIndex, KeyRows
from lance_spark.table.row_level.merge_conditions import MatchedCondition, matching
from lance_spark.table.row_level.row_writer import RowOrigins
from lance_spark.table.row_level.update_mode import RewriteMode
from lance_spark.table.row_level.write_target import Version, WriteTarget, own_blobs
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array, row_addresses
from lance_spark.table.source import Split
from lance_spark.table.writing.row_pipeline import RowPipeline
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions

_WINDOW_BYTES = 64 << 20
_MIN_WINDOW_ROWS = 1024


class Matched(str, Enum):
    """Action for a row of the table that a row of the source matches."""

    UPDATE = "update"
    DELETE = "delete"


class NotMatched(str, Enum):
    """Action for a row of the source that matches no row of the table."""

    INSERT = "insert"


class NotMatchedBySource(str, Enum):
    """Action for a row of the table that no row of the source matches."""

    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class MergeActions:
    """Actions of a merge; None for no action."""

    matched: Matched | None
    not_matched: NotMatched | None
    not_matched_by_source: NotMatchedBySource | None
    matched_condition: Expr | None = None
    not_matched_by_source_condition: Expr | None = None

    @classmethod
    def of(
        cls,
        matched: str | None,
        not_matched: str | None,
        not_matched_by_source: str | None,
        matched_condition: str | Expr | None = None,
        not_matched_by_source_condition: str | Expr | None = None,
    ) -> MergeActions:
        """From their names, and the conditions of two of them.

        Raises:
            InvalidInputError: an unknown one, or none at all; or a condition without its action.
        """
        actions = cls(
            _action(Matched, "when_matched", matched),
            _action(NotMatched, "when_not_matched", not_matched),
            _action(NotMatchedBySource, "when_not_matched_by_source", not_matched_by_source),
        )
        if actions == cls(None, None, None):
            raise InvalidInputError("a merge without any action does nothing; name one")
        conditions = (matched_condition, not_matched_by_source_condition)
        for action, condition in zip((matched, not_matched_by_source), conditions, strict=True):
            if condition is not None and action is None:
                raise InvalidInputError(f"the condition {condition} belongs to an action that the merge does not do")
        first, second = (
            None if each is None else condition_of(each, to_match_all="leave it out") for each in conditions
        )
        return replace(actions, matched_condition=first, not_matched_by_source_condition=second)


def source_rows(source: RowSource) -> pa.Table:
    """All rows of the source, in memory."""
    return pa.Table.from_batches(list(source.batches), schema=source.schema)


def merge_once(
    target: WriteTarget[Version],
    rows: pa.Table,
    on: str | Sequence[str],
    actions: MergeActions,
    options: CommitOptions,
    mode: str | None = None,
) -> Version:
    """The version after `target` in which `rows` are merged into its rows.

    Args:
        mode: a value of `RewriteMode` for rows that match and are updated; None for that of the table.

    Raises:
        RetryableConflictError: another writer has touched one of the rows, or inserted one of the same keys.
        Others as `RowVerbs.merge`.
    """
    return _Merge(target, rows, [on] if isinstance(on, str) else list(on), actions).run(options, mode)


@dataclass(frozen=True, slots=True)
class _Matches:
    """The rows of one split by their keys.

    Attributes:
        addresses: uint64[n], ascending: its rows that match and are changed.
        source_rows: int64[n]: the row of the source that each of them matches.
        unmatched: uint64[k]: its rows that match none, if they are to be deleted.
    """

    addresses: UInt64Array
    source_rows: Int64Array
    unmatched: UInt64Array


class _Merge(Generic[Version]):
    """One run of a merge, on one version."""

    def __init__(self, target: WriteTarget[Version], rows: pa.Table, on: Sequence[str], actions: MergeActions) -> None:
        self._target = target
        self._actions = actions
        self._schema = target.lance_schema
        self._arrow_schema = to_arrow_schema(LanceSchema(self._schema.fields))
        self._paths = key_paths(self._schema, rows.schema, on)
        self._names = [dotted(path) for path in self._paths]
        self._source_fields, self._source = conformed(self._schema, rows, inserts=actions.not_matched is not None)
        if actions.matched is Matched.UPDATE:
            target.identity.check_kept(set(rows.schema.names) - {path[0] for path in self._paths})
        condition = actions.matched_condition
        self._condition = None if condition is None else MatchedCondition(condition, self._schema, self._source)
        if actions.not_matched_by_source_condition is not None:
            check_filter(actions.not_matched_by_source_condition, self._arrow_schema)
        self._index = KeyIndex(self._keys_of(self._source), self._names)
        self._seen = np.zeros(self._index.num_keys, np.bool_)

    def run(self, options: CommitOptions, mode: str | None) -> Version:
        target = self._target.taking(self._arrow_schema)
        splits = target.splits()
        updater = self._updater(target, mode)
        with target.writer(blobs=own_blobs) as writer, updater:
            matches = [self._match(split) for split in splits]
            if self._actions.matched is not None:
                self._check_unambiguous()
            inserted = self._inserted()
            if self._actions.matched is Matched.UPDATE:
                for place, split in enumerate(splits):
                    matches[place] = self._updated_in_place(split, matches[place], updater)
                    for batch, addresses in self._updated(split, matches[place]):
                        writer.write(batch, RowOrigins.of_split(split, addresses))
            step = window_rows(self._source, 0)
            for start in range(0, len(inserted), step):
                writer.write(self._batch(inserted[start : start + step], {}))
            written = writer.close()
        deleted = {
            split.key: np.concatenate([matching_rows.addresses, matching_rows.unmatched])
            for split, matching_rows in zip(splits, matches, strict=True)
        }
        with cleanup_on_failure(writer.abort), cleanup_on_failure(updater.abort):
            return target.change_rows(
                deleted,
                written,
                target.with_identity(options, [writer.used()]),
                changed_fields=[node.id for field in self._source_fields for node in field.walk()],
                check=InsertedKeys(target, splits, self._keys_of(self._source, inserted), self._paths),
                columns=updater.written,
            )

    def _updater(self, target: WriteTarget[Version], mode: str | None) -> ColumnUpdater:
        """Writes new files of the columns that updated rows get from the source."""
        # Equal floats may have other bits.
        keys = {path[0] for path in self._paths if len(path) == 1}
        same = {name for name in keys if not pa.types.is_floating(self._source.schema.field(name).type)}
        changed = [name for name in self._source.schema.names if name not in same]
        chosen = RewriteMode.of(target.table_properties, mode)
        if self._actions.matched is not Matched.UPDATE:
            chosen = RewriteMode.ROWS
        return ColumnUpdater(ColumnUpdate.of(target, changed, chosen))

    def _updated_in_place(self, split: Split, matches: _Matches, updater: ColumnUpdater) -> _Matches:
        """Updates the rows in fragments that get new files of the columns; returns the other ones that match."""
        if updater.update is None:
            return matches
        moving = np.ones(len(matches.addresses), np.bool_)
        names = updater.update.written.names()
        stop = 0
        for fragment_id, offsets in by_fragment(matches.addresses):
            start, stop = stop, stop + len(offsets)
            fragment = split.manifest.fragments.with_id(fragment_id)
            if updater.update.saves(split, fragment, len(offsets)):
                part = matches.source_rows[start:stop]
                rows = pa.Table.from_arrays([take(self._source.column(name), part) for name in names], names)
                updater.write(split, fragment, matches.addresses[start:stop], rows)
                moving[start:stop] = False
        return replace(matches, addresses=matches.addresses[moving], source_rows=matches.source_rows[moving])

    def _keys_of(self, rows: pa.RecordBatch, places: Int64Array | None = None) -> list[pa.Array]:
        columns = [column_values(rows, path) for path in self._paths]
        return columns if places is None else [take(column, places) for column in columns]

    def _match(self, split: Split) -> _Matches:
        """Reads the key columns of a split."""
        matched: list[UInt64Array] = [np.empty(0, np.uint64)]
        unmatched: list[UInt64Array] = [np.empty(0, np.uint64)]
        keys: list[Int64Array] = [np.empty(0, np.int64)]
        matched_only = self._actions.not_matched_by_source is None
        rows = key_rows(self._schema, split, self._paths, self._index, matched_only=matched_only)
        for addresses, numbers in rows.read(split.manifest.fragments):
            is_match = numbers >= 0
            self._seen[numbers[is_match]] = True
            if self._actions.matched is not None:
                matched.append(addresses[is_match])
                keys.append(numbers[is_match])
            if self._actions.not_matched_by_source is not None:
                unmatched.append(addresses[~is_match])
        addresses, numbers = np.concatenate(matched), np.concatenate(keys)
        order = np.argsort(addresses)
        addresses, source_rows = addresses[order], self._index.first_rows()[numbers[order]]
        if self._condition is not None:
            is_true = self._condition.holds(split, addresses, source_rows)
            addresses, source_rows = addresses[is_true], source_rows[is_true]
        rest = np.concatenate(unmatched)
        condition = self._actions.not_matched_by_source_condition
        if condition is not None:
            rest = matching(self._schema, split, condition, rest)
        return _Matches(addresses, source_rows, rest)

    def _inserted(self) -> Int64Array:
        """Ascending: the rows of the source that match no row of the table, if they are to be inserted."""
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

    def _updated(self, split: Split, matches: _Matches) -> Iterator[tuple[pa.RecordBatch, UInt64Array]]:
        """The rows of a split that match, as they become, and their addresses."""
        from_source = {field.id for field in self._source_fields}
        shown = with_blob_descriptors(self._schema, data_format(split.manifest), with_source=True)
        unchanged = [field for field in shown.fields if field.id not in from_source]
        fragments = split.manifest.fragments
        places = {message.id: place for place, message in enumerate(fragments.messages)}
        bases = split.bases
        start, selected = 0, SelectedFields(tuple(unchanged))
        for fragment_id, offsets in by_fragment(matches.addresses):
            columns = FragmentReader(fragments[places[fragment_id]], bases).columns(selected)
            step = window_rows(self._source, sum(columns.encoded_widths))
            for first in range(0, len(offsets), step):
                part = offsets[first : first + step]
                values = dict(
                    zip((field.id for field in unchanged), columns.read(RowRanges.of_numbers(part)), strict=True)
                )
                source_rows = matches.source_rows[start : start + len(part)]
                yield self._batch(source_rows, values), row_addresses(fragment_id, part)
                start += len(part)

    def _batch(self, source_rows: Int64Array, unchanged: Mapping[FieldId, pa.ChunkedArray]) -> pa.RecordBatch:
        """Rows with all columns: those of the source at `source_rows`, `unchanged` ones, and nulls for the others."""
        names = set(self._source.schema.names)
        arrays = []
        for field, column in zip(self._schema.fields, self._arrow_schema, strict=True):
            if column.name in names:
                arrays.append(take(self._source.column(column.name), source_rows))
            elif field.id in unchanged:
                arrays.append(one_array(unchanged[field.id]))
            else:
                arrays.append(pa.nulls(len(source_rows), column.type))
        # Kept blobs are descriptions, those of the source are values.
        types = [column.with_type(array.type) for column, array in zip(self._arrow_schema, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types))


class InsertedKeys(Generic[Version]):
    """Looks at newer versions for keys that ours inserts.

    Args:
        splits: all splits of the version that was read.
        keys: the key columns of the rows that are inserted.
    """

    def __init__(
        self,
        target: WriteTarget[Version],
        splits: Sequence[Split],
        keys: Sequence[pa.Array],
        paths: Sequence[tuple[str, ...]],
    ) -> None:
        self._seen = target
        self._fields = [find(target.lance_schema, path)[-1].id for path in paths]
        self._index = KeyIndex(keys, [dotted(path) for path in paths])
        self._known = {
            (*_place(split), message.id): message.files
            for split in splits
            for message in split.manifest.fragments.messages
        }

    def __call__(self, version: Version) -> None:
        """Passes if no other writer has brought in a row with one of the keys.

        Raises:
            RetryableConflictError: one has.
        """
        if not self._index.num_keys:
            return
        newer = self._seen.at(version)
        splits = newer.changed_splits(self._seen)
        # Others may have renamed the key columns.
        paths = [path_to(newer.lance_schema, field_id) for field_id in self._fields]
        for split in splits:
            rows = key_rows(newer.lance_schema, split, paths, self._index)
            fragments = split.manifest.fragments
            files = [((*_place(split), message.id), message.files) for message in fragments.messages]
            unknown = (fragments[at] for at, (key, value) in enumerate(files) if self._known.get(key) != value)
            if any(bool((keys >= 0).any()) for _, keys in rows.read(unknown)):
                raise RetryableConflictError(
                    f"another writer inserted a key that was about to be inserted into {newer.uri}. "
                    "Read the new version and run the merge again",
                    own=OperationKind.UPDATE.value,
                    table_version=newer.base_version,
                )
            self._known.update(files)
        self._seen = newer


def _place(split: Split) -> tuple[str, str | None]:
    """The table that a split's fragments belong to."""
    return split.table.uri, split.table.branch


def key_rows(
    table: LanceSchema,
    split: Split,
    paths: Sequence[tuple[str, ...]],
    index: KeyIndex,
    *,
    matched_only: bool = False,
) -> KeyRows:
    """The rows of a split with their keys; same arguments as `KeyRows`."""
    scan = split_scan(table, split, None, list(dict.fromkeys(path[0] for path in paths)))
    return KeyRows(scan, split.manifest, paths, index, matched_only=matched_only)


def key_paths(table: LanceSchema, source: pa.Schema, on: Sequence[str]) -> list[tuple[str, ...]]:
    if not on or not all(isinstance(column, str) for column in on):
        raise InvalidInputError("a merge needs the names of its key columns")
    paths = []
    for column in on:
        path = (column,) if column in table.names() else parse_path(column)
        for parent in find(table, path)[:-1]:
            if parent.logical_type != "struct":
                raise InvalidInputError(f"key {column!r} leads into {parent.name!r}, which is not a struct")
        if path[0] not in source.names:
            raise InvalidInputError(f"the source has no key column {path[0]!r}")
        paths.append(path)
    return paths


def path_to(schema: LanceSchema, field_id: FieldId) -> tuple[str, ...]:
    def below(fields: Sequence[Field], names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for field in fields:
            if field.id == field_id:
                yield (*names, field.name)
            yield from below(field.children, (*names, field.name))

    path = next(below(schema.fields, ()), None)
    if path is None:
        raise RetryableConflictError("another writer dropped a key column. Merge by other columns")
    return path


def conformed(table: LanceSchema, rows: pa.Table, *, inserts: bool) -> tuple[tuple[Field, ...], pa.RecordBatch]:
    """The columns of the table that the source has, and its rows in their types.

    Without inserts a column that is not nullable may be missing: updated rows keep the value that they have. Identity
    columns may always be: new rows get values.
    """
    present = set(rows.schema.names)
    filled = identities_of(table) if inserts else table.names()
    fields = (
        replace(field, nullable=True) if field.name in filled and field.name not in present else field
        for field in table.fields
    )
    table = LanceSchema(tuple(fields), table.metadata)
    # CHECK constraints concern the merged rows, with all of their columns.
    pipeline = RowPipeline(without_checks(table), rows.schema)
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InvalidInputError("a column of the source holds more than 2 GiB of text; merge it in parts")
    batch = batches[0] if batches else no_rows(rows.schema)
    return pipeline.schema.fields, pipeline(batch)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def window_rows(source: pa.RecordBatch, width: float) -> int:
    """Rows to make at a time, about 64 MiB of them; `width` is the guessed width of what is not from the source."""
    width += source.nbytes / max(source.num_rows, 1)
    return max(_MIN_WINDOW_ROWS, int(_WINDOW_BYTES / max(width, 1)))


_Action = TypeVar("_Action", bound=Enum)


def _action(kind: type[_Action], name: str, value: str | None) -> _Action | None:
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        raise InvalidInputError(
            f"{name} is {' or '.join(repr(item.value) for item in kind)} or None, not {value!r}"
        ) from None
