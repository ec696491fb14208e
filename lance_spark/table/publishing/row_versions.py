"""Row versions of a fast-forward: the versions of the other branch mean nothing on this one.

Rows that the branch has had keep what it says of them; all others were created or updated by the version that brings
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import DataFragment, FragmentList
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


def with_own_row_versions(state: Manifest, previous: Manifest, shared: int, version: int) -> Manifest:
    """`state` with row versions for the version number `version`, which follows `previous`.

    Args:
        state: of another branch, which descends from `previous`.
        shared: the number of the version of that branch that has all that `previous` has.
    """
    if not state.has_stable_row_ids:
        return state
    before = {fragment.id: fragment for fragment in previous.fragments}
    after = {fragment.id: fragment for fragment in state.fragments}
    known = _Known.of([item for item in previous.fragments if _has_lineage(item) and _left(item, after.get(item.id))])
    fragments = []
    for message, fragment in zip(state.fragments.messages, state.fragments, strict=True):
        if not _has_lineage(fragment) or _same_lineage(fragment, before.get(fragment.id)):
            fragments.append(message)
            continue
        own = known.versions(fragment, shared, version)
        changed = type(message)()
        changed.CopyFrom(message)
        changed.inline_created_at_versions, changed.inline_last_updated_at_versions = own
        fragments.append(changed)
    return replace(state, fragments=FragmentList(fragments))


@dataclass(frozen=True, slots=True)
class _Known:
    """Rows of the branch: uint64[n] each, by ascending row id."""

    row_ids: UInt64Array
    created: UInt64Array
    updated: UInt64Array

    @classmethod
    def of(cls, fragments: Sequence[DataFragment]) -> _Known:
        parts = [_lineage(fragment) for fragment in fragments] or [(np.empty(0, np.uint64),) * 3]
        row_ids, created, updated = (np.concatenate(column) for column in zip(*parts, strict=True))
        # A row that was updated is in two fragments, deleted in the older one: the newer one is the row.
        order = np.lexsort((updated, row_ids))
        last = np.ones(len(order), np.bool_)
        last[:-1] = row_ids[order][1:] != row_ids[order][:-1]
        order = order[last]
        return cls(row_ids[order], created[order], updated[order])

    def versions(self, fragment: DataFragment, shared: int, version: int) -> tuple[bytes, bytes]:
        """The serialized versions that created and last updated the rows of a fragment of the other branch."""
        row_ids, _, updated = _lineage(fragment)
        places: Int64Array = np.minimum(np.searchsorted(self.row_ids, row_ids), max(len(self.row_ids) - 1, 0))
        is_old = np.zeros(len(row_ids), np.bool_)
        if len(self.row_ids):
            is_old = self.row_ids[places] == row_ids
        own_created = np.full(len(row_ids), version, np.uint64)
        own_updated = own_created.copy()
        own_created[is_old] = self.created[places[is_old]]
        is_unchanged = is_old & (updated <= shared)
        own_updated[is_unchanged] = self.updated[places[is_unchanged]]
        return (
            RowDatasetVersionSequence.of_versions(own_created).to_bytes(),
            RowDatasetVersionSequence.of_versions(own_updated).to_bytes(),
        )


def _has_lineage(fragment: DataFragment) -> bool:
    """Whether row ids and versions are in the manifest, and not in data files or unknown."""
    return None not in (fragment.row_ids, fragment.created_at_versions, fragment.last_updated_at_versions)


def _same_lineage(fragment: DataFragment, other: DataFragment | None) -> bool:
    return other is not None and (
        (fragment.row_ids, fragment.created_at_versions, fragment.last_updated_at_versions)
        == (other.row_ids, other.created_at_versions, other.last_updated_at_versions)
    )


def _left(fragment: DataFragment, after: DataFragment | None) -> bool:
    """Whether rows have left a fragment of the branch, or were changed in it."""
    return after is None or fragment.deletion_file != after.deletion_file or not _same_lineage(fragment, after)


def _lineage(fragment: DataFragment) -> tuple[UInt64Array, UInt64Array, UInt64Array]:
    assert fragment.row_ids is not None
    assert fragment.created_at_versions is not None
    assert fragment.last_updated_at_versions is not None
    ids = RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows)
    rows = np.arange(ids.num_rows)
    created = RowDatasetVersionSequence.from_bytes(fragment.created_at_versions, ids.num_rows)
    updated = RowDatasetVersionSequence.from_bytes(fragment.last_updated_at_versions, ids.num_rows)
    return ids.at(rows), created.at(rows), updated.at(rows)
