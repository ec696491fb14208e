"""The rows that differ between two consecutive versions of a table.

Manifests are compared, not transactions: removed and added fragments, deletion files that grew (or shrank, by a
restore), and data files that were replaced in place. The kind of the operation matters only in two cases: a Rewrite
moves rows without changing them, and after an Overwrite fragment ids can have other meanings.

With stable row ids, a row that is deleted at one address and added at another one is one row. Its row versions say
whether it was updated; without them, its values are compared. Without stable row ids these are two rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from lance_spark._proto import table_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.row_level.row_lineage import KeptLineage
from lance_spark.table.rows.deletion_vector import DeletionVector
from lance_spark.table.rows.fragment import BaseId, DataFragment

# No table assigns such ids, so no data file has them: such a field reads as null.
_FIRST_UNHELD = 1 << 30

_SAME_ROWS = frozenset({OperationKind.REWRITE, OperationKind.CLONE})
NEW_MEANING = frozenset({OperationKind.OVERWRITE, OperationKind.RESTORE, OperationKind.UNKNOWN})
"""Operations after which ids of fragments and fields can have other meanings than before."""

_NUM_THREADS = 16

_Holder = tuple[str, "BaseId | None", int]


def found_in(wanted: LanceSchema, here: LanceSchema, there: LanceSchema, *, by_id: bool) -> LanceSchema:
    """`wanted`, as stored in data files of the version with the schema `there`.

    Names and nesting are those of `wanted`, ids and types those of `there`. A field that `there` lacks gets an id that
    no file has.

    Args:
        wanted: columns with the ids of `here`; unknown ids stand for missing columns.
        here: the schema of the version that follows the one with the schema `there`.
        by_id: whether field ids mean the same in both.
    """
    return LanceSchema(_Match(here, there, by_id).fields(wanted.fields, there.fields), wanted.metadata)


def nullable(field: Field) -> Field:
    """`field`, nullable at every depth; the entries of a map are unchanged."""
    if field.logical_type.startswith("map") or is_blob(field):
        return replace(field, nullable=True)
    return replace(field, nullable=True, children=tuple(nullable(child) for child in field.children))


class _Match:
    def __init__(self, here: LanceSchema, there: LanceSchema, by_id: bool) -> None:
        self._names: Mapping[FieldId, str] = {node.id: node.name for node in here.walk()}
        self._known: Mapping[FieldId, Field] = {node.id: node for node in there.walk() if node.id >= 0} if by_id else {}
        self._taken: Collection[FieldId] = self._names.keys() if by_id else ()
        self._unheld: Iterator[int] = count(_FIRST_UNHELD)

    def fields(self, wanted: Sequence[Field], there: Sequence[Field]) -> tuple[Field, ...]:
        return tuple(self._field(field, there) for field in wanted)

    def _field(self, wanted: Field, siblings: Sequence[Field]) -> Field:
        found = self._known.get(wanted.id) if wanted.id in self._names else None
        if found is None:
            name = self._names.get(wanted.id)
            found = next((other for other in siblings if other.name == name and other.id not in self._taken), None)
        if found is None:
            return self._missing(wanted)
        if is_blob(found) or is_blob(wanted) or bool(found.children) != bool(wanted.children):
            return replace(found, name=wanted.name)
        children = self.fields(wanted.children, found.children)
        return replace(found, name=wanted.name, nullable=wanted.nullable, children=children)

    def _missing(self, wanted: Field) -> Field:
        if is_blob(wanted):
            return replace(wanted, id=FieldId(next(self._unheld)))
        children = tuple(self._missing(child) for child in wanted.children)
        return replace(wanted, id=FieldId(next(self._unheld)), children=children)


@dataclass(frozen=True, slots=True)
class Version:
    """A version, and the stores of its files."""

    manifest: Manifest
    bases: Bases


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows of one fragment.

    Attributes:
        offsets: int64[n], ascending, distinct; None for all rows that are not deleted.
    """

    fragment: DataFragment
    offsets: Int64Array | None = None


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Rows that are in both versions, whose values may differ.

    Attributes:
        before, after: their fragments.
        offsets_before, offsets_after: int64[n], the offsets of each row; the first ones ascend.
        fields: names of the top-level columns of the newer version that may differ.
    """

    before: DataFragment
    after: DataFragment
    offsets_before: Int64Array
    offsets_after: Int64Array
    fields: tuple[str, ...]


@dataclass(slots=True)
class VersionDiff:
    """The changes of one version. Deleted rows and preimages are in the previous version, the others in the new one."""

    deleted: list[RowSet] = field(default_factory=list)
    inserted: list[RowSet] = field(default_factory=list)
    preimages: list[RowSet] = field(default_factory=list)
    postimages: list[RowSet] = field(default_factory=list)
    maybe_updated: list[RowPairs] = field(default_factory=list)


def same_field_ids(before: Manifest, after: Manifest) -> bool:
    """Whether field ids mean the same in a version made by an operation of `NEW_MEANING` and in its predecessor.

    An overwrite, and a restore across one, assign new ids and write new data files; one that reuses files reuses their
    ids.
    """
    paths = {file.path for message in before.fragments.messages for file in message.files}
    return any(file.path in paths for message in after.fragments.messages for file in message.files)


def diff_versions(before: Version | None, after: Version, kind: OperationKind, same_ids: bool = True) -> VersionDiff:
    """The rows changed by `after`, which was made by an operation of `kind`; `before` is None for a new table.

    Args:
        same_ids: whether field ids mean the same in both.

    Raises:
        CorruptFileError: a deletion file or a sequence of row ids violates the format.
        UnsupportedFeatureError: it cannot be determined whether rows were changed or only rewritten.
    """
    if kind in _SAME_ROWS:
        return VersionDiff()
    if before is None:
        return VersionDiff(inserted=[RowSet(fragment) for fragment in after.manifest.fragments])
    comparison = Comparison(before, after, kind, same_ids)
    return comparison.of(*comparison.fragments())


class Comparison:
    """Two versions, fragment by fragment; arguments as `diff_versions`."""

    def __init__(self, before: Version, after: Version, kind: OperationKind, same_ids: bool) -> None:
        self._before = before
        self._after = after
        self._kind = kind
        self._stable = before.manifest.has_stable_row_ids and after.manifest.has_stable_row_ids
        self._fields = _FieldPairs(before.manifest.schema, after.manifest.schema, same_ids)
        self._diff = VersionDiff()

    def of(
        self,
        deleted: Sequence[DataFragment],
        new: Sequence[DataFragment],
        unchanged: Sequence[tuple[DataFragment, DataFragment]],
        shared_row_ids: int | None = None,
    ) -> VersionDiff:
        """The rows that differ.

        Args:
            deleted, new: fragments of one version alone.
            unchanged: pairs of fragments with the same rows.
            shared_row_ids: stable row ids below this are of the same row in both versions; None: all of them.
        """
        if deleted and new and self._kind is OperationKind.UNKNOWN and not self._stable:
            raise UnsupportedFeatureError(
                f"version {self._after.manifest.version} does not name its operation, and without stable row ids "
                "it is not known whether it changed rows or only moved them",
                feature="changes of a version without a transaction",
            )
        self._compare_kept(unchanged)
        self._diff.deleted += [RowSet(fragment) for fragment in deleted]
        self._diff.inserted += [RowSet(fragment) for fragment in new]
        if self._stable and self._diff.deleted and self._diff.inserted:
            self._pair(shared_row_ids)
        return self._diff

    def fragments(self) -> tuple[list[DataFragment], list[DataFragment], list[tuple[DataFragment, DataFragment]]]:
        """(removed fragments, added ones, pairs of kept ones); pairs with equal fragments and columns are omitted."""
        before, after = self._before.manifest.fragments, self._after.manifest.fragments
        places = {message.id: place for place, message in enumerate(before.messages)}
        new, unchanged, replaced = [], [], []
        for place, message in enumerate(after.messages):
            old_place = places.pop(message.id, None)
            if old_place is None:
                new.append(after[place])
            elif before.messages[old_place] != message or self._fields.has_moved(message):
                old = before[old_place]
                if self._same_rows(old, after[place]):
                    unchanged.append((old, after[place]))
                else:
                    new.append(after[place])
                    replaced.append(old_place)
        deleted = [before[place] for place in sorted([*places.values(), *replaced])]
        return deleted, new, unchanged

    def _same_rows(self, before: DataFragment, after: DataFragment) -> bool:
        """False if the two fragments only share the id; old releases assigned ids twice."""
        if self._kind not in NEW_MEANING:
            return True
        if before.physical_rows != after.physical_rows:
            return False
        if before.row_ids is not None and after.row_ids is not None:
            return before.row_ids == after.row_ids
        if self._kind is OperationKind.RESTORE:
            return True
        paths = {(file.path, file.base_id) for file in before.files}
        return any((file.path, file.base_id) in paths for file in after.files)

    def _compare_kept(self, kept: Sequence[tuple[DataFragment, DataFragment]]) -> None:
        rewritten = {new.id: names for old, new in kept if (names := self._fields.rewritten(old, new))}
        needed = [(old, new) for old, new in kept if old.deletion_file != new.deletion_file or new.id in rewritten]
        readers = [FragmentReader(old, self._before.bases) for old, _ in needed]
        readers += [FragmentReader(new, self._after.bases) for _, new in needed]
        deletions = overlapped(lambda reader: reader.deletions, readers, _NUM_THREADS)
        for place, (old, new) in enumerate(needed):
            was, now = deletions[place], deletions[place + len(needed)]
            _add(self._diff.deleted, old, _minus(now.offsets, was.offsets))
            _add(self._diff.inserted, new, _minus(was.offsets, now.offsets))
            if new.id in rewritten:
                offsets = _live_in_both(readers[place].num_rows, was, now)
                if len(offsets):
                    self._diff.maybe_updated.append(RowPairs(old, new, offsets, offsets, rewritten[new.id]))

    def _pair(self, shared_row_ids: int | None) -> None:
        """Pairs rows that were deleted at one address and added at another."""
        deleted = _VersionRows.of(self._diff.deleted, self._before.bases)
        new = _VersionRows.of(self._diff.inserted, self._after.bases)
        both, at_deleted, at_new = np.intersect1d(deleted.row_ids, new.row_ids, return_indices=True)
        if shared_row_ids is not None:
            at_deleted, at_new = at_deleted[both < shared_row_ids], at_new[both < shared_row_ids]
        if len(at_deleted) == 0:
            return
        # A restore brings back old row versions, and columns may have been rewritten without changing them.
        trusted = self._kind is not OperationKind.RESTORE
        updated = (deleted.last_updated_at[at_deleted] != new.last_updated_at[at_new]) & trusted
        self._diff.deleted = deleted.without(at_deleted)
        self._diff.inserted = new.without(at_new)
        self._diff.preimages += deleted.only(at_deleted[updated])
        self._diff.postimages += new.only(at_new[updated])
        names = self._after.manifest.schema.names()
        self._diff.maybe_updated += _pairs(deleted, at_deleted[~updated], new, at_new[~updated], names)


class _FieldPairs:
    """The matching fields of two consecutive versions."""

    def __init__(self, before: LanceSchema, after: LanceSchema, same_ids: bool) -> None:
        there = found_in(after, after, before, by_id=same_ids)
        self._tops: list[tuple[str, list[tuple[FieldId, FieldId]]]] = [
            (new.name, [(one.id, other.id) for one, other in zip(old.walk(), new.walk(), strict=False)])
            if _same_form(old, new)
            else (new.name, [(old.id, new.id)])
            for old, new in zip(there.fields, after.fields, strict=True)
        ]
        self._moved = {field_id for _, ids in self._tops for pair in ids if pair[0] != pair[1] for field_id in pair}

    def has_moved(self, message: table_pb2.DataFragment) -> bool:
        """Whether a file of the fragment, which is unchanged, has a field that now represents another column."""
        return bool(self._moved) and any(not self._moved.isdisjoint(file.fields) for file in message.files)

    def rewritten(self, before: DataFragment, after: DataFragment) -> tuple[str, ...]:
        """Names of the columns whose values are now in another file, or in another column of it."""
        if not self._moved and before.files == after.files:
            return ()
        was, now = _holders(before), _holders(after)
        return tuple(name for name, ids in self._tops if any(was.get(one) != now.get(other) for one, other in ids))


def _same_form(one: Field, other: Field) -> bool:
    return len(one.children) == len(other.children) and all(map(_same_form, one.children, other.children))


def _holders(fragment: DataFragment) -> dict[FieldId, _Holder]:
    return {
        field_id: (file.path, file.base_id, index)
        for file in fragment.files
        for field_id, index in file.columns().items()
    }


def _add(rows: list[RowSet], fragment: DataFragment, offsets: Int64Array) -> None:
    if len(offsets):
        rows.append(RowSet(fragment, offsets))


def _minus(one: Int64Array, other: Int64Array) -> Int64Array:
    return np.setdiff1d(one, other, assume_unique=True)


def _live_in_both(num_rows: int, was: DeletionVector, now: DeletionVector) -> Int64Array:
    live = np.ones(num_rows, np.bool_)
    live[was.offsets] = live[now.offsets] = False
    return np.flatnonzero(live)


@dataclass(frozen=True, slots=True)
class _VersionRows:
    """Rows of several fragments with their stable row ids.

    Attributes:
        places: int64[n], the fragment of each row, an index into `fragments`.
        offsets: int64[n].
        row_ids, last_updated_at: uint64[n].
    """

    fragments: list[DataFragment]
    places: Int64Array
    offsets: Int64Array
    row_ids: np.typing.NDArray[np.uint64]
    last_updated_at: np.typing.NDArray[np.uint64]

    @classmethod
    def of(cls, sets: Sequence[RowSet], bases: Bases) -> _VersionRows:
        readers = [FragmentReader(rows.fragment, bases) for rows in sets]
        offsets = overlapped(lambda place: _offsets(sets[place], readers[place]), list(range(len(sets))), _NUM_THREADS)
        lineages = [
            KeptLineage.of(rows.fragment, reader, own) for rows, reader, own in zip(sets, readers, offsets, strict=True)
        ]
        return cls(
            [rows.fragment for rows in sets],
            np.repeat(np.arange(len(sets)), [len(own) for own in offsets]),
            np.concatenate(offsets),
            np.concatenate([lineage.row_ids for lineage in lineages]),
            np.concatenate([lineage.last_updated_at for lineage in lineages]),
        )

    def only(self, rows: Int64Array) -> list[RowSet]:
        """The rows with the indexes `rows` (int64[n]), by fragment."""
        return self._sets(np.sort(rows))

    def without(self, rows: Int64Array) -> list[RowSet]:
        """All rows except those with the indexes `rows`."""
        keep = np.ones(len(self.offsets), np.bool_)
        keep[rows] = False
        return self._sets(np.flatnonzero(keep))

    def _sets(self, rows: Int64Array) -> list[RowSet]:
        cuts = np.searchsorted(self.places[rows], np.arange(len(self.fragments) + 1))
        return [
            RowSet(fragment, self.offsets[rows[cuts[place] : cuts[place + 1]]])
            for place, fragment in enumerate(self.fragments)
            if cuts[place] < cuts[place + 1]
        ]


def _offsets(rows: RowSet, reader: FragmentReader) -> Int64Array:
    if rows.offsets is not None:
        return rows.offsets
    return reader.deletions.live_rows(0, reader.num_rows).indices()


def _pairs(
    deleted: _VersionRows, at_deleted: Int64Array, new: _VersionRows, at_new: Int64Array, names: Iterable[str]
) -> Iterable[RowPairs]:
    """The rows number `at_deleted` and `at_new`, which are the same ones, by pair of fragments."""
    order = np.lexsort((at_deleted, new.places[at_new], deleted.places[at_deleted]))
    at_deleted, at_new = at_deleted[order], at_new[order]
    both = deleted.places[at_deleted] * len(new.fragments) + new.places[at_new]
    for rows in np.split(np.arange(len(both)), np.flatnonzero(np.diff(both)) + 1):
        if len(rows):
            yield RowPairs(
                deleted.fragments[int(deleted.places[at_deleted[rows[0]]])],
                new.fragments[int(new.places[at_new[rows[0]]])],
                deleted.offsets[at_deleted[rows]],
                new.offsets[at_new[rows]],
                tuple(names),
            )
