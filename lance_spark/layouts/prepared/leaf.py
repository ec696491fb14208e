"""A leaf of an open file, prepared once: its pages are parsed, their chunks listed, their dictionaries decoded."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.layouts.pick import CHUNKS
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import EncodedColumn, Located
from lance_spark.layouts.leaf.arrays import PageDictionary
from lance_spark.layouts.mini_block.chunks import BufferOfPages, RowIndex
from lance_spark.layouts.page_form import ListedValues, PageForm, Run
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.prepared.forms import chunks_of, form_of_page, run_key
from lance_spark.layouts.prepared.pick import Picker

MAX_PAGES = 256
"""Columns of more pages are not prepared: their layouts would all be parsed for a read of few rows."""

_MAX_DICTIONARY_BYTES = 1 << 20
"""Maximum size of the dictionaries of a run, in the file and decoded."""


@dataclass(frozen=True)
class PreparedLeaf:
    """All pages of a leaf.

    Attributes:
        data_type: of the path array.
        runs: pages one behind the other that are read by one call.
        ends: int64[runs]: the rows up to the end of each run.
    """

    data_type: pa.DataType
    runs: Sequence[Run]
    ends: Int64Array

    @classmethod
    def of(cls, path: LeafPath, column: EncodedColumn, data: pa.Buffer) -> PreparedLeaf | None:
        """The pages of a column of the file `data`; None if single rows of one cannot be found.

        Raises:
            CorruptFileError: a page contradicts the format.
            UnsupportedFeatureError: a page has an encoding that this release does not know.
        """
        pages = [page for page in column.pages if page.num_rows]
        if not 0 < len(pages) <= MAX_PAGES or path.slots_per_row > 1:
            return None
        forms = []
        for page in pages:
            form = form_of_page(page)
            if form is None:
                return None
            forms.append((form, page.num_rows))
        return cls.of_forms(path.data_type, path.nodes[0].data_type, path, forms, column.num_rows, data)

    @classmethod
    def of_forms(
        cls,
        data_type: pa.DataType,
        leaf_type: pa.DataType,
        path: LeafPath | None,
        forms: Sequence[tuple[PageForm, int]],
        num_rows: int,
        data: pa.Buffer,
    ) -> PreparedLeaf | None:
        """Pages with these forms and numbers of rows, which are `num_rows` together; other arguments as of `of`."""
        if sum([count for _, count in forms]) != num_rows:
            return None
        runs = []
        groups = [forms] if len(forms) == 1 else [[*pages] for _, pages in groupby(forms, _key)]
        for pages in groups:
            run = _run(leaf_type, path, pages, data)
            if run is None:
                return None
            runs.append(run)
        return cls(data_type, runs, np.array([*accumulate([run.num_rows for run in runs])], np.int64))

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.ends[-1])

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and dictionaries, in bytes."""
        return sum([run.num_bytes for run in self.runs])

    @cached_property
    def most_rows(self) -> int:
        """See `Run.most_rows`."""
        return min([run.most_rows for run in self.runs])

    @property
    def encoded_bytes(self) -> int:
        """The bytes of all chunks."""
        return sum([int(run.table.sizes.sum()) for run in self.runs])

    def pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The path array of `rows` (int64[n], at least one, in any order) of the file `data`.

        None if they have so large strings that whole pages are better decoded.

        Raises:
            CorruptFileError: there are no such rows, or the bytes contradict the layout.
        """
        if self._are_in_first_run(rows):
            return self.runs[0].pick(data, rows)
        owners = self.ends.searchsorted(rows, side="right")
        if int(rows.min()) < 0 or int(owners.max()) >= len(self.runs):
            raise CorruptFileError(f"rows {rows.min()} to {rows.max()} of a column of {self.num_rows}")
        arrays, places = [], []
        for owner in np.unique(owners).tolist():
            (inside,) = (owners == owner).nonzero()
            first = int(self.ends[owner - 1]) if owner else 0
            array = self.runs[owner].pick(data, rows[inside] - first)
            if array is None:
                return None
            arrays.append(array)
            places.append(inside)
        return in_order(arrays, np.concatenate(places))

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """See `Run.listed`; None also for rows of several runs."""
        return self.runs[0].listed(data, rows) if self._are_in_first_run(rows) else None

    def _are_in_first_run(self, rows: Int64Array) -> bool:
        return len(self.runs) == 1 or int(rows.max()) < self.ends[0]


def _key(page: tuple[PageForm, int]) -> Hashable:
    return run_key(page[0])


def in_order(arrays: Sequence[pa.Array], places: Int64Array) -> pa.Array:
    """The values of `arrays` one behind the other, each at its place (int64[n]) in the result."""
    joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if bool((places[1:] > places[:-1]).all()):
        return joined
    order: Int64Array = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    return take(joined, order)


def _run(
    leaf_type: pa.DataType, path: LeafPath | None, pages: Sequence[tuple[PageForm, int]], data: pa.Buffer
) -> Run | None:
    forms, counts = [form for form, _ in pages], [count for _, count in pages]
    dictionary = None
    if forms[0].dictionary is not None:
        dictionary = _dictionary(forms, leaf_type, data)
        if dictionary is None:
            return None
    table, index = chunks_of(forms, data), None
    if forms[0].layout == CHUNKS and forms[0].has_lists:
        indices = [form.side_data for form in forms if form.side_data is not None]
        addresses = [data.address + buffer.position for buffer in indices]
        index = RowIndex.parse(BufferOfPages(addresses, [size for _, size in indices], data), table, counts)
    layout = forms[0].decoded_by
    if layout is not None:
        return None if path is None else layout.run(path, sum(counts), table, index, dictionary)
    return Picker.of(forms, leaf_type, path, table, sum(counts), index, dictionary)


def _dictionary(forms: Sequence[PageForm], data_type: pa.DataType, data: pa.Buffer) -> PageDictionary | None:
    """The dictionaries of pages with one encoding; None if they are large, or not inside of the file."""
    encoding = forms[0].dictionary
    if encoding is None or (len(forms) > 1 and pa.types.is_dictionary(data_type)):
        # Each page gives an array with a dictionary of its own.
        return None
    starts, sizes = zip(*[form.dictionary_data for form in forms], strict=True)
    if sum(sizes) > _MAX_DICTIONARY_BYTES or min(starts) < 0 or min(sizes) < 0:
        return None
    if any(start + size > data.size for start, size in zip(starts, sizes, strict=True)):
        return None
    counts = np.array([form.num_dictionary_items for form in forms], np.int64)
    located = Located(data, np.array(starts, np.int64))
    dictionary = PageDictionary.decode(encoding, counts, located, list(sizes), data_type)
    return dictionary if dictionary.values.nbytes <= _MAX_DICTIONARY_BYTES else None
