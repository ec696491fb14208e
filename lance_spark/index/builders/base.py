"""Base of index builders, which build and merge segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.index.base import IndexKind
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles

UInt64Array = npt.NDArray[np.uint64]
Parameters = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Rows that are to be indexed, in the order of the table.

    Attributes:
        values: of the column, nulls included.
        ids: uint64[n]: addresses or stable row ids, as the kind of index wants them.
        addresses: uint64[n]: addresses.
        ends_fragment: whether the fragment of the last row is known to have no more rows.
    """

    values: pa.Array
    ids: UInt64Array
    addresses: UInt64Array
    ends_fragment: bool = False

    @classmethod
    def none(cls, dtype: pa.DataType) -> IndexedRows:
        """No rows of a column of this type."""
        return cls(pa.array([], dtype), np.empty(0, np.uint64), np.empty(0, np.uint64))

    @classmethod
    def joined(cls, parts: Sequence[IndexedRows], dtype: pa.DataType) -> IndexedRows:
        """The rows of all parts, which are of a column of this type."""
        if not parts:
            return cls.none(dtype)
        if len(parts) == 1:
            return parts[0]
        return cls(
            pa.concat_arrays([part.values for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.addresses for part in parts]),
        )


class IdMapping(Protocol):
    """Maps the row ids of an old segment to those of a new one."""

    def __call__(self, ids: UInt64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
        """(bool[n]: which ids are kept, uint64[k]: the new ids of those)."""
        ...


class ValuesOfRows(Protocol):
    """Reads values of the column again, for a merge that cannot copy all it needs from old segments."""

    def __call__(self, ids: UInt64Array) -> IndexedRows:
        """The rows with these distinct ids, each once, in the order of the table.

        Raises:
            CorruptFileError: there is no such row, or a file contradicts the format.
            NotFoundError: a file does not exist any more.
            StorageError: the store failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class OldSegment:
    """A segment whose rows go into a new one.

    Attributes:
        files: its files.
        mapping: which of its row ids are kept, and what they become.
        fragment_rows: physical rows, by id, of the fragments that it answers for, as they are numbered in its files.
    """

    files: IndexFiles
    mapping: IdMapping
    fragment_rows: Mapping[int, int]


class IndexBuilder(ABC):
    """Builds segments of one kind over columns of one type. Subclasses give class attributes and two methods.

    Args:
        dtype: the column's type.
        parameters: by name, checked by `checked`.
    """

    index_type: ClassVar[type[IndexKind]]
    defaults: ClassVar[Mapping[str, object]] = {}
    """The parameters that the kind knows, with their default values."""
    can_remap: ClassVar[bool] = True
    """Whether a segment follows rows to other addresses."""
    can_merge: ClassVar[bool] = True
    """Whether segments are merged without reading the column again."""
    reaches_into_lists: ClassVar[bool] = False
    """Whether columns can be members of structs in lists, which are a list for each row."""
    binary_is_json: ClassVar[bool] = False
    """Whether columns of bytes must be JSON."""

    def __init__(self, dtype: pa.DataType, parameters: Parameters) -> None:
        self.dtype = dtype
        self.parameters: Parameters = {**self.defaults, **parameters}

    @classmethod
    def made(cls, dtype: pa.DataType, parameters: Parameters) -> IndexBuilder:
        """The builder for columns of a type with these parameters."""
        return cls(dtype, parameters)

    @classmethod
    @abstractmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        """Whether columns of a type can have an index of this kind."""

    @classmethod
    def keeps_lists(cls, parameters: Parameters) -> bool:
        """Whether lists in lists stay lists in the values that are indexed, or are one list for each row."""
        return False

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        """The version of new files, as the reference library writes it."""
        return 0

    @classmethod
    def kind_in(cls, details: bytes) -> type[IndexKind] | None:
        """The kind of the files of a segment with these details; None for one that this release does not know."""
        return cls.index_type

    @classmethod
    def checked(cls, parameters: Parameters) -> dict[str, object]:
        """Parameters as the builder wants them.

        Raises:
            InvalidInputError: an unknown name or an impossible value.
        """
        for name in parameters:
            if name not in cls.defaults:
                known = ", ".join(sorted(cls.defaults)) or "none"
                raise InvalidInputError(f"{cls.index_type.type_name} has no parameter {name!r}; it knows: {known}")
        return {name: cls._value(name, value) for name, value in parameters.items()}

    @classmethod
    def _value(cls, name: str, value: object) -> object:
        return positive_number(cls.index_type.type_name, name, value)

    @classmethod
    def of_segment(cls, details: bytes, files: IndexFiles) -> type[IndexBuilder]:
        """The builder of a segment whose details have this class's type URL.

        Raises:
            LanceError: its files are missing or broken.
        """
        return cls

    def sample_rows(self, num_rows: int) -> int:
        """Number of rows to sample, of `num_rows` of a table, to train one model for several segments; 0 for none.

        Only kinds of index whose segments depend on more than their own rows are trained.
        """
        return 0

    def trained(self, sample: IndexedRows, num_rows: int) -> IndexBuilder:
        """A builder with a model, by which all of its segments are built.

        Args:
            sample: `sample_rows` rows of the table.
            num_rows: rows of the table.
        """
        return self

    def shared_parameters(self) -> dict[str, object]:
        """The parameters that `trained` has added, for builders of the same index on other machines."""
        return {}

    def untrained(self) -> IndexBuilder:
        """A builder without a model: the next segment trains its own."""
        return self

    def rebalancing(self, values: ValuesOfRows) -> IndexBuilder:
        """A builder whose merges may split and dissolve partitions. `values` reads those that old segments hold."""
        return self

    def details(self) -> bytes:
        """The serialized details message of a segment's metadata."""
        return b""

    @abstractmethod
    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        """Writes a segment over `rows`. Writing no file means that the rows are not covered.

        Raises:
            StorageError: the store failed.
        """

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        """Writes a segment over rows that are read batch by batch; see `train`."""
        self.train(IndexedRows.joined(list(batches), self.dtype), output)

    @abstractmethod
    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        """Writes a segment over the rows of old segments and over new ones.

        Raises:
            LanceError: a file of an old segment is missing or broken, or the store failed.
        """

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        """Writes a segment over the rows of old segments, and new ones that are read batch by batch; see `merge`."""
        self.merge(old, IndexedRows.joined(list(batches), self.dtype), output)

    def remap(self, old: OldSegment, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        """Writes what a segment becomes when rows move: as `merge_batches`, for the rows of one segment.

        Args:
            batches: the rows that have moved, for a kind whose segments do not follow them.
        """
        self.merge_batches([old], batches, output)

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        """The parameters that a segment was built with.

        Raises:
            LanceError: its files are missing or broken.
        """
        return {}

    @classmethod
    def described_parameters(cls, details: bytes) -> dict[str, object]:
        """Parameters in the details of a segment, for one whose files cannot be read."""
        return {}

    @classmethod
    def name_suffix(cls, parameters: Parameters) -> str:
        """Suffix of the default name of an index, after the path of its column."""
        return "_idx"

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        """Statistics of a segment from its files, by name.

        Raises:
            LanceError: they are missing or broken.
        """
        return {}


def positive_number(kind: str, name: str, value: object) -> int:
    """A parameter that must be a whole number > 0, which may be written as text.

    Raises:
        InvalidInputError: no such kind.
    """
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 1 << 31:
        raise InvalidInputError(f"{name} of {kind} is {value!r}; it must be a whole number from 1 to {(1 << 31) - 1}")
    return number
