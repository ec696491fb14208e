"""Comparisons of two branches: the numbers of rows that one has added, deleted and updated beside the other."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import NotFoundError
from lance_spark.table.change_feed.change_feed import FeedCommit, PairsTask, VersionStep
from lance_spark.table.change_feed.version_diff import Comparison, RowPairs, RowSet, Version
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.publishing.lineage import Lineage, Point
from lance_spark.table.publishing.seen_from import seen_from
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import BaseId, DataFragment

ADDED, DELETED, UPDATED = "added", "deleted", "updated"


@dataclass(frozen=True, slots=True)
class BranchChange:
    """One kind of change between two branches.

    Attributes:
        change: "added", "deleted" or "updated".
        rows: their number.
    """

    change: str
    rows: int


FragmentPairs = list[tuple[DataFragment, DataFragment]]


def compare_branches(left: TableLocation, right: TableLocation) -> list[BranchChange]:
    """Changes of the newest version of the branch `right` beside that of `left`: one entry for each kind.

    A row is the same one in both if it is at the same place of a shared fragment, or if it has a stable row id that was
    given before the branches parted. Of these, rows whose values differ were updated.

    Raises:
        NotFoundError: one of the branches has no version.
        InvalidInputError: the branches have different base paths with one id.
        CorruptFileError: a file violates the format.
        UnsupportedFeatureError: a version needs a feature that this release does not read.
    """
    before, after = left.newest(), right.newest()
    return counted(left, before, seen_from(left, before, right, after), shared_row_ids(left, right, before, after))


def shared_row_ids(left: TableLocation, right: TableLocation, before: Manifest, after: Manifest) -> int:
    """The number below which stable row ids are of the same row in both versions; 0 if that is not known."""
    lineage = Lineage(left)
    common = lineage.common(Point(left.branch, before.version), Point(right.branch, after.version))
    return max((_next_row_id(lineage, point) for point in common), default=0)


def counted(table: TableLocation, before: Manifest, after: Manifest, shared: int) -> list[BranchChange]:
    """The changes between two versions whose files are named as from the branch `table`.

    Args:
        shared: as `shared_row_ids`.
    """
    one, other = Version(before, table.bases(before)), Version(after, table.bases(after))
    pairs = same_fragments(before, after)
    kept, new = {old.id for old, _ in pairs}, {item.id for _, item in pairs}
    # As after a restore, values alone say whether a row was updated: versions of two branches cannot be compared.
    diff = Comparison(one, other, OperationKind.RESTORE, True).of(
        [item for item in before.fragments if item.id not in kept],
        [item for item in after.fragments if item.id not in new],
        [(old, item) for old, item in pairs if old != item],
        shared,
    )
    step = VersionStep(table, before, after, OperationKind.RESTORE, True)
    return [
        BranchChange(ADDED, sum(_num_rows(rows, other) for rows in diff.inserted)),
        BranchChange(DELETED, sum(_num_rows(rows, one) for rows in diff.deleted)),
        BranchChange(UPDATED, sum(num_updated(step, item) for item in diff.maybe_updated)),
    ]


def same_fragments(before: Manifest, after: Manifest) -> FragmentPairs:
    """The fragments of two versions that share a data file, so that they have the same rows at the same places."""
    places = {
        (file.path, BaseId(file.base_id) if file.HasField("base_id") else None): place
        for place, message in enumerate(before.fragments.messages)
        for file in message.files
    }
    pairs: FragmentPairs = []
    for number, message in enumerate(after.fragments.messages):
        for file in message.files:
            place = places.get((file.path, BaseId(file.base_id) if file.HasField("base_id") else None))
            if place is not None and before.fragments[place].physical_rows == after.fragments[number].physical_rows:
                pairs.append((before.fragments[place], after.fragments[number]))
                break
    return pairs


def num_updated(step: VersionStep, pairs: RowPairs) -> int:
    """The number of rows of `pairs` whose values differ."""
    before, after = step.compared(pairs.fields)
    return PairsTask(pa.schema([]), FeedCommit(0, 0), before, after, before, after, pairs).num_updated()


def _num_rows(rows: RowSet, version: Version) -> int:
    if rows.offsets is not None:
        return len(rows.offsets)
    reader = FragmentReader(rows.fragment, version.bases)
    return reader.num_rows - len(reader.deletions)


def _next_row_id(lineage: Lineage, point: Point) -> int:
    try:
        return lineage.location(point.branch).at(point.version).manifest.next_row_id
    except NotFoundError:
        return 0
