"""Values of rows in columns that came later, of a DEFAULT or computed, as streams of older versions read them.

Such values are files beside those of the rows, in the fragments of the version that brought the column. Rows that were
compacted before have no such file; the value that a DEFAULT gave to all rows is in the metadata of the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lance_spark.errors import NotFoundError
from lance_spark.expr.literals import Literal
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.spark.types.defaults import existing_value_of
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentList
from lance_spark.table.source import Split

if TYPE_CHECKING:
    from lance_spark.spark.streaming.history import StreamFile, StreamHistory

_Ids = frozenset[FieldId]

_Constants = tuple[tuple[str, Literal], ...]

_Column = tuple[FieldId, str, str]
"""Id, name and type: other columns can have the id, of a table that was replaced, or after a column was dropped."""


@dataclass(slots=True)
class LaterColumns:
    """The columns of a stream that came after the versions it reads.

    Attributes:
        planned: the columns, as the version `planned_at` has them.
    """

    history: StreamHistory
    planned: LanceSchema
    planned_at: int
    _columns: dict[int, frozenset[_Column]] = field(default_factory=dict)

    def added_to(
        self, files: Iterable[StreamFile], version: int, columns: LanceSchema | None = None
    ) -> Iterator[StreamFile]:
        """The files of a version, with those that hold later columns of the same rows.

        Rows that were rewritten between, by a compaction, have the constant of a DEFAULT, and no computed values.

        Args:
            columns: those of the stream as the version has them; None if they are the same.
        """
        files = list(files)
        missing = self._missing(version) if version < self.planned_at and files else frozenset()
        later = list(self._versions_with(missing, version)) if missing else []
        found: dict[int, tuple[Split, LanceSchema | None]] = {}
        filled: dict[tuple[int, _Constants], Split] = {}
        for file in files:
            if id(file.split) not in found:
                own = [item.fragment for item in files if item.split is file.split]
                found[id(file.split)] = self._grown(file.split, own, later, columns)
            split, stored = found[id(file.split)]
            fragment = split.manifest.fragments.with_id(file.fragment.id) if later else file.fragment
            constants = self._constants(version, fragment, stored or self.planned) if missing else ()
            if constants:
                # A task reads all that it gets of one split alike.
                split = filled.setdefault((id(split), constants), replace(split))
            yield replace(file, split=split, fragment=fragment, columns=stored, constants=constants)

    def _constants(self, version: int, fragment: DataFragment, stored: LanceSchema) -> _Constants:
        """The values of older rows in columns that neither the version nor a file of the fragment has."""
        there = {id_ for id_, _, _ in self._columns_of(version)}.union(*(file.columns() for file in fragment.files))
        pairs = zip(stored.fields, self.planned.fields, strict=True)
        lacking = [item for here, item in pairs if here.id not in there]
        values = ((item.name, existing_value_of(item.name, item.metadata, to_arrow_type(item))) for item in lacking)
        return tuple((name, value) for name, value in values if value is not None)

    def _missing(self, version: int) -> frozenset[_Column]:
        ids = {id_ for id_, _, _ in self._columns_of(version)}
        return frozenset(item for item in _described(self.planned) if item[0] not in ids)

    def _columns_of(self, version: int) -> frozenset[_Column]:
        if version not in self._columns:
            self._columns[version] = _described(self.history.columns(version))
        return self._columns[version]

    def _versions_with(self, missing: frozenset[_Column], version: int) -> Iterator[tuple[int, _Ids]]:
        """The versions that brought the columns, with the ids of all that each has; that of the DataFrame if those
        between are not left.
        """
        wanted = missing
        try:
            while missing:
                low, high = version, self.planned_at
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if missing & self._columns_of(middle) else (middle, high)
                yield high, frozenset(id_ for id_, _, _ in wanted & self._columns_of(high))
                missing, version = missing - self._columns_of(high), high
        except NotFoundError:
            yield self.planned_at, frozenset(id_ for id_, _, _ in wanted)

    def _grown(
        self,
        split: Split,
        own: list[DataFragment],
        later: Sequence[tuple[int, _Ids]],
        columns: LanceSchema | None,
    ) -> tuple[Split, LanceSchema | None]:
        """A split whose fragments have the files of later versions too, and `columns` with those that came so."""
        known = {fragment.id: fragment for fragment in own}
        planned, added = _ids_of(self.planned.fields), set[FieldId]()
        for version, ids in later:
            try:
                there = self.history.split(version, split)
            except NotFoundError:
                continue
            for fragment in () if there is None else there.manifest.fragments.with_ids(known):
                before = known[fragment.id]
                new = _new_files(before, fragment.files, ids, planned - ids)
                known[fragment.id] = replace(before, files=(*before.files, *new))
                added.update(*(ids & file.columns().keys() for file in new))
        if not later:
            return split, columns
        fragments = FragmentList(fragment.to_proto() for fragment in known.values())
        split = replace(split, manifest=replace(split.manifest, fragments=fragments))
        return split, None if columns is None else self._with_later(columns, added)

    def _with_later(self, columns: LanceSchema, added: Set[FieldId]) -> LanceSchema:
        """`columns`, but those as they are planned of which files were added."""
        pairs = zip(columns.fields, self.planned.fields, strict=True)
        fields = [item if added & _ids_of([item]) else column for column, item in pairs]
        return LanceSchema(tuple(fields), columns.metadata)


def _described(schema: LanceSchema) -> frozenset[_Column]:
    return frozenset((item.id, item.name, item.logical_type) for item in schema.walk())


def _ids_of(columns: Iterable[Field]) -> _Ids:
    return frozenset(item.id for column in columns for item in column.walk())


def _new_files(fragment: DataFragment, later: Sequence[DataFile], wanted: _Ids, others: _Ids) -> list[DataFile]:
    """The files of a later version of a fragment that have wanted columns, and none that it has or of `others`."""
    paths = {file.path for file in fragment.files}
    if paths.isdisjoint(file.path for file in later):
        return []  # Another fragment has its id.
    refused = others.union(*(file.columns() for file in fragment.files))
    # Columns that came with them may have been removed since.
    new = [file for file in later if file.base_id is None and wanted & file.columns().keys()]
    return [file for file in new if file.path not in paths and refused.isdisjoint(file.columns())]
