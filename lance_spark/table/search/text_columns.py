"""Sources of a full-text search in a column: the segments of an index, and the rows that none of them covers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.analysis.analyzer import is_text
from lance_spark.analysis.parameters import JSON, TEXT, TextParameters
from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.index.members import check_path, member_type, member_values
from lance_spark.index.text.documents import analyzer_of
from lance_spark.index.text.found import FoundPart
from lance_spark.index.text.items import Granularity, items_of, levels_of
from lance_spark.index.text.part import AnalyzedPart, TextPart
from lance_spark.index.text.search import Columns, LocatedPart, TextColumn
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.logical_type import is_list
from lance_spark.schema.projection import FieldFinder, quoted
from lance_spark.storage.cache import cached_part
from lance_spark.storage.cache import shared as cache
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.search.text_segments import Covering, TextIndexes

Found = TypeVar("Found")

_COLUMN_BYTES = 1024
_MAX_ANALYZED_SHARE = 1 / 4
"""Analyzed texts of rows without an index that would take more of the cache are analyzed by each search."""


class TextColumns:
    """The searchable columns of a version.

    Args:
        schema: the columns, which a partition may have only some of.
        use_index: False scans all rows, with the analysis of the index if there is one.
        fast_search: leaves out rows that the index does not cover, if there is one.
        known: by column, what others have found in the rows without an index.
        is_partition: whether the version is one of several, on whose indexes it depends what documents are.
    """

    def __init__(
        self,
        manifest: Manifest,
        schema: LanceSchema,
        bases: Bases,
        *,
        use_index: bool = True,
        fast_search: bool = False,
        known: Mapping[str, KnownRows] | None = None,
        is_partition: bool = True,
    ) -> None:
        self._manifest = manifest
        self._schema = schema
        self._bases = bases
        self._use_index = use_index
        self._fast_search = fast_search
        self._known = known or {}
        self._is_kept = use_index and not fast_search and not is_partition
        self._made: dict[tuple[str, bool, str | None], TextColumn] = {}
        self.shared = SharedAnalyses(lambda: [self])

    @cached_property
    def _finder(self) -> FieldFinder:
        return FieldFinder(self._schema)

    @cached_property
    def _indexes(self) -> TextIndexes:
        return TextIndexes(self._manifest, self._bases)

    @property
    def has_index(self) -> bool:
        """Whether there is a text index on any column."""
        return bool(self._indexes.fields)

    def searched_by_default(self) -> tuple[str, ...]:
        """The columns that a query without columns searches: those with an index, else all columns of text."""
        if not self._is_kept:
            return self._default_columns()
        return cached_part(self._manifest, "text columns", lambda: (self._default_columns(), _COLUMN_BYTES))

    def _default_columns(self) -> tuple[str, ...]:
        ids = self._indexes.fields
        indexed = [(path, field) for path, field in _leaves(self._schema.fields) if field.id in ids]
        # Words are no query of JSON documents.
        texts = [path for path, field in indexed if field.logical_type != JSON]
        if indexed:
            return tuple(texts or [path for path, _ in indexed])
        return tuple(field.name for field in self._schema.fields if is_text(to_arrow_field(field).type))

    def __call__(self, name: str, needs_positions: bool, granularity: str | None = None) -> TextColumn:
        """Sources of a search in a column.

        Args:
            granularity: the unit of a document; None for the unit of the index.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: it is not a column of text, or has indexes of both granularities and none is given.
        """
        key = (name, needs_positions, granularity)
        if key not in self._made:
            kept = self._indexed_column(key) if self._is_kept else None
            self._made[key] = kept or self._make(name, needs_positions, self._covered(*key))
        return self._made[key]

    def _indexed_column(self, key: tuple[str, bool, str | None]) -> TextColumn | None:
        """A column all of whose rows are indexed, which all searches of the version share; None for others."""

        def make() -> tuple[TextColumn | None, int]:
            name, needs_positions, _ = key
            column = self._covered(*key)
            return None if column.others else self._make(name, needs_positions, column), _COLUMN_BYTES

        return cached_part(self._manifest, ("text column", *key), make)

    def granularity(self, name: str, given: str | None) -> Granularity:
        """Document granularity of a column, unless it is `given`. Raises as `__call__`."""
        return self.shared.granularity(name) if given is None else Granularity.of(given)

    def leave_out(self, error: CorruptFileError) -> bool:
        """Searches without the segment that has the damaged file from now on; False if no segment in use has it."""
        found = self._indexes.leave_out(error)
        if found:
            self._made.clear()
            self._is_kept = False
        return found

    def uncovered(self, name: str, granularity: str | None) -> Uncovered:
        """The rows of a column that a search for words reads. Same arguments and errors as `__call__`."""
        column = self._covered(name, False, granularity)
        return Uncovered(column.parameters, column.others, column.granularity)

    def asked(self, name: str, needs_positions: bool, granularity: str | None) -> Sequence[Covering]:
        """The segments that a search of a column asks. Same arguments and errors as `__call__`."""
        return self._covered(name, needs_positions, granularity).used

    def analyzed(self, name: str, fragment_ids: pyroaring.BitMap, parameters: TextParameters) -> AnalyzedPart:
        """The texts of a column in some fragments, with rows as documents. Raises as calls."""
        fragments = [fragment for fragment in self._manifest.fragments if fragment.id in fragment_ids]
        return self._analyzed(self._names(name), fragments, parameters, 0)

    def _make(self, name: str, needs_positions: bool, column: _Covered) -> TextColumn:
        levels = column.item_levels
        indexed = tuple(source for item in column.used for source in item.sources)
        if not column.others:
            return TextColumn(column.parameters, indexed, None, levels)
        known = None if needs_positions or levels else self._known.get(name)
        ids = {fragment.id for fragment in column.others}
        if known is not None and known.parameters == column.parameters and set(known.fragment_ids) == ids:
            part: TextPart = known.found
        else:
            # Also where an index has become readable or unreadable meanwhile.
            part = self._kept_analysis(column)
        return TextColumn(column.parameters, indexed, LocatedPart(part, _all_exist), levels)

    def _kept_analysis(self, column: _Covered) -> AnalyzedPart:
        """The texts of the rows without an index, which later searches of the version find analyzed."""
        levels = column.item_levels

        def make() -> tuple[AnalyzedPart, int]:
            part = self._analyzed(column.names, column.others, column.parameters, levels)
            # What does not leave room for others is not kept.
            return part, part.nbytes if part.nbytes <= cache.max_bytes * _MAX_ANALYZED_SHARE else cache.max_bytes

        ids = tuple([fragment.id for fragment in column.others])
        return cached_part(self._manifest, ("analyzed texts", column.names, ids, column.parameters, levels), make)

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(field.name for field in self._path(name))

    def _path(self, name: str) -> tuple[Field, ...]:
        return self._finder.find_in_lists(self._finder.names(name))

    def _covered(self, name: str, needs_positions: bool, granularity: str | None) -> _Covered:
        path = self._path(name)
        check_path(path, name, in_lists=True)
        dtype = member_type(path)
        is_json = path[-1].logical_type == JSON
        if not (is_text(dtype) or is_json):
            raise InvalidInputError(f"column {name!r} is {dtype}; text search needs strings, lists of strings or JSON")
        names = tuple(field.name for field in path)
        documents = self.granularity(name, granularity)
        has_items = documents is Granularity.LIST_ELEMENT
        levels = levels_of(member_type(path, keeps_lists=True)) if has_items else 0
        found = self._indexes.segments(path, documents)
        parameters = self._parameters_of(path, documents, found) or self.shared.parameters(name, documents)
        parameters = parameters or TextParameters(lance_tokenizer=JSON if is_json else TEXT)
        if self._use_index:
            # Segments of other analyses cannot answer the same words.
            used = [
                item
                for item in found
                if item.segment.parameters == parameters and (item.segment.has_positions or not needs_positions)
            ]
        else:
            used = []
        covered = {fragment.id for item in used for fragment in item.fragments}
        is_enough = self._fast_search and bool(used)
        others = [] if is_enough else [item for item in self._manifest.fragments if item.id not in covered]
        return _Covered(names, parameters, used, others, documents, levels)

    def own_granularities(self, name: str) -> set[Granularity]:
        """Document granularities of the indexes of a column."""
        return self._indexes.granularities(self._path(name))

    def own_parameters(self, name: str, documents: Granularity) -> TextParameters | None:
        """The analysis of the index of a column, if there is one; one of this granularity comes first."""
        path = self._path(name)
        return self._parameters_of(path, documents, self._indexes.segments(path, documents))

    def _parameters_of(
        self, path: Sequence[Field], documents: Granularity, found: Sequence[Covering]
    ) -> TextParameters | None:
        same = found or self._indexes.segments(path, documents.other)
        return same[-1].segment.parameters if same else None

    def _analyzed(
        self,
        names: tuple[str, ...],
        fragments: Sequence[DataFragment],
        parameters: TextParameters,
        item_levels: int,
    ) -> AnalyzedPart:
        scan = Scan.of(
            self._schema,
            self._bases,
            columns=[quoted(names)],
            with_row_address=True,
            stable_row_ids=self._manifest.has_stable_row_ids,
        )
        analyzer = analyzer_of(parameters)
        pieces, rows, items = [], [np.empty(0, np.uint64)], [np.empty((0, item_levels), np.uint32)]
        for fragment in fragments:
            for batch in scan.read([fragment]):
                column = batch.column(batch.schema.get_field_index(names[0]))
                values = member_values(column, names[1:], keeps_lists=item_levels > 0)
                addresses = batch.column(batch.schema.get_field_index(ROW_ADDRESS)).to_numpy()
                if item_levels:
                    values, owners, numbers = items_of(values)
                    addresses = addresses[owners]
                    items.append(numbers)
                pieces.append(analyzer.analyze(values))
                rows.append(addresses)
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(piece.offsets) for piece in pieces)])
        return AnalyzedPart(
            analyzer.terms,
            np.concatenate([np.empty(0, np.int32), *(piece.terms for piece in pieces)]),
            np.concatenate([np.empty(0, np.int32), *(piece.positions for piece in pieces)]),
            np.cumsum(counts),
            np.concatenate(rows),
            np.concatenate(items) if item_levels else None,
        )


@dataclass(frozen=True)
class Uncovered:
    """The rows of a column that no index covers, and how they are analyzed."""

    parameters: TextParameters
    fragments: Sequence[DataFragment]
    granularity: Granularity


@dataclass(frozen=True)
class KnownRows:
    """Documents with terms of a query, in fragments that others have analyzed with `parameters`."""

    fragment_ids: pyroaring.BitMap
    parameters: TextParameters
    found: FoundPart


@dataclass(frozen=True)
class _Covered:
    """Coverage of a column: segments of an index, and the fragments that none of them covers."""

    names: tuple[str, ...]
    parameters: TextParameters
    used: Sequence[Covering]
    others: list[DataFragment]
    granularity: Granularity
    item_levels: int


def _all_exist(addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    return addresses, np.ones(len(addresses), np.bool_)


def _leaves(fields: Sequence[Field], prefix: tuple[str, ...] = ()) -> list[tuple[str, Field]]:
    found = []
    for field in fields:
        names = (*prefix, field.name)
        if field.logical_type == JSON or is_text(to_arrow_field(field).type):
            found.append((quoted(names), field))
            found += [(quoted(names), child) for child in field.children]
        else:
            found += _leaves(_members(field), names)
    return found


def _members(field: Field) -> Sequence[Field]:
    """The members of a struct, or of the structs in a list."""
    while is_list(field.logical_type):
        field = field.children[0]
    return field.children if field.logical_type == "struct" else ()


def without_damage(columns: Sequence[TextColumns], ask: Callable[[], Found]) -> Found:
    """Result of `ask` in `columns`. If a file of an index is damaged `ask` is called again without that segment, whose
    rows are read: most of an index is read only when a query needs it.

    Raises:
        CorruptFileError: of a data file.
    """
    while True:
        try:
            return ask()
        except CorruptFileError as error:
            if not any(part.leave_out(error) for part in columns):
                raise


class SharedAnalyses:
    """Settings of text analysis for partitions without an index, from the partitions that have one.

    Args:
        parts: the columns of all partitions; called when a partition without an index needs them.
    """

    def __init__(self, parts: Callable[[], Sequence[TextColumns]]) -> None:
        self._open = parts
        self._granularities: dict[str, Granularity] = {}
        self._parameters: dict[tuple[str, Granularity], TextParameters | None] = {}

    @cached_property
    def _parts(self) -> Sequence[TextColumns]:
        return self._open()

    def granularity(self, name: str) -> Granularity:
        """Document granularity of a column.

        Raises:
            InvalidInputError: there are indexes of both granularities.
        """
        if name not in self._granularities:
            found = {granularity for part in self._parts for granularity in part.own_granularities(name)}
            if len(found) > 1:
                raise InvalidInputError(
                    f"column {name!r} has text indexes of rows and of items; set document_granularity in the query"
                )
            self._granularities[name] = next(iter(found), Granularity.ROW)
        return self._granularities[name]

    def parameters(self, name: str, documents: Granularity) -> TextParameters | None:
        """The analysis of the first index of a column; None if there is none."""
        key = (name, documents)
        if key not in self._parameters:
            all_of_them = (part.own_parameters(name, documents) for part in self._parts)
            self._parameters[key] = next((found for found in all_of_them if found is not None), None)
        return self._parameters[key]


class JoinedColumns:
    """The searchable columns of several partitions of a table, which share their statistics."""

    def __init__(self, parts: Sequence[TextColumns]) -> None:
        self._parts = parts

    def searched_by_default(self) -> tuple[str, ...]:
        """The columns with an index in any partition, else all columns of text."""
        if len(self._parts) == 1 or not any(part.has_index for part in self._parts):
            return self._parts[0].searched_by_default() if self._parts else ()
        names = (name for part in self._parts if part.has_index for name in part.searched_by_default())
        return tuple(dict.fromkeys(names))

    def of(self, number: int) -> Columns:
        """The columns of partition `number`."""
        if len(self._parts) == 1:
            return self._parts[number]

        def column(name: str, needs_positions: bool, granularity: str | None) -> TextColumn:
            own = self._parts[number](name, needs_positions, granularity)
            others = [
                part(name, needs_positions, granularity) for place, part in enumerate(self._parts) if place != number
            ]
            return replace(
                own,
                other_indexed=tuple(part for other in others for part in other.indexed_parts),
                other_scanned=tuple(part for other in others for part in other.scanned_parts),
            )

        return column
