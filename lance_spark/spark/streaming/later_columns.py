"""Values of rows in columns that came later, of a DEFAULT or computed, as streams of older versions read them.

Such values are files beside those of the rows, in the fragments of the version that brought the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lance_spark.errors import NotFoundError
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentList
from lance_spark.table.source import Split

if TYPE_CHECKING:
    from lance_spark.spark.streaming.history import StreamFile, StreamHistory


@dataclass(slots=True)
class LaterColumns:
    """The columns of a stream that came after the versions it reads.

    Attributes:
        planned: the columns, as the version `planned_at` has them.
    """

    history: StreamHistory
    planned: LanceSchema
    planned_at: int
    _ids: dict[int, frozenset[FieldId]] = field(default_factory=dict)

    def added_to(self, files: Iterable[StreamFile], version: int) -> Iterator[StreamFile]:
        """The files of a version, with those that hold later columns of the same rows.

        Rows that were rewritten between, by a compaction, are read without values in them.
        """
        files = list(files)
        missing = self._missing(version) if version < self.planned_at and files else frozenset()
        if not missing:
            yield from files
            return
        later = list(self._versions_with(missing, version))
        grown: dict[int, Split] = {}
        for file in files:
            split = grown.get(id(file.split))
            if split is None:
                own = [item.fragment for item in files if item.split is file.split]
                split = grown[id(file.split)] = self._grown(file.split, own, later, missing)
            yield replace(file, split=split, fragment=split.manifest.fragments.with_id(file.fragment.id))

    def _missing(self, version: int) -> frozenset[FieldId]:
        return frozenset(item.id for item in self.planned.walk()) - self._ids_of(version)

    def _ids_of(self, version: int) -> frozenset[FieldId]:
        if version not in self._ids:
            self._ids[version] = frozenset(item.id for item in self.history.columns(version).walk())
        return self._ids[version]

    def _versions_with(self, missing: frozenset[FieldId], version: int) -> Iterator[int]:
        """The versions that brought the columns; that of the DataFrame if those between are not left."""
        try:
            while missing:
                low, high = version, self.planned_at
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if missing & self._ids_of(middle) else (middle, high)
                yield high
                missing, version = missing - self._ids_of(high), high
        except NotFoundError:
            yield self.planned_at

    def _grown(self, split: Split, own: list[DataFragment], later: Iterable[int], missing: frozenset[FieldId]) -> Split:
        known = {fragment.id: fragment for fragment in own}
        for version in later:
            try:
                there = self.history.split(version, split)
            except NotFoundError:
                continue
            for fragment in () if there is None else there.manifest.fragments.with_ids(known):
                known[fragment.id] = _with_files(known[fragment.id], fragment.files, missing)
        fragments = FragmentList(fragment.to_proto() for fragment in known.values())
        return replace(split, manifest=replace(split.manifest, fragments=fragments))


def _with_files(fragment: DataFragment, later: Iterable[DataFile], missing: frozenset[FieldId]) -> DataFragment:
    """A fragment with the files of a later version of it that hold only columns that it does not have."""
    paths = {file.path for file in fragment.files}
    if paths.isdisjoint(file.path for file in later):
        return fragment  # Another fragment has its id.
    held = {column for file in fragment.files for column in file.columns()}
    new = [file for file in later if file.base_id is None and file.columns().keys() <= missing - held]
    return replace(fragment, files=(*fragment.files, *(file for file in new if file.path not in paths)))
