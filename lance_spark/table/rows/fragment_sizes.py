"""Fragment sizes of a manifest as columns: a planner looks at all of them, one number each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from lance_spark._proto import table_pb2
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import FieldId


class FileKind(NamedTuple):
    """Fields and file version of data files of equal columns.

    Attributes:
        fields: ids of the fields that own a column.
    """

    fields: tuple[FieldId, ...]
    version: FileVersion


@dataclass(frozen=True, slots=True)
class FragmentSizes:
    """Rows and data files of fragments.

    Attributes:
        physical_rows: int64[num_fragments], deleted rows included; 0 where the manifest does not say.
        fragments: int64[num_files], ascending: the place of the fragment of each data file.
        size_bytes: float64[num_files]; NaN where the manifest does not say.
        kinds: int64[num_files], the place in `file_kinds` of each data file.
        file_kinds: those of all data files.
    """

    physical_rows: npt.NDArray[np.int64]
    fragments: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.float64]
    kinds: npt.NDArray[np.int64]
    file_kinds: tuple[FileKind, ...]

    @classmethod
    def of(cls, messages: Sequence[table_pb2.DataFragment]) -> FragmentSizes:
        """The sizes of fragments whose counts were checked (`check_counts`).

        Raises:
            CorruptFileError: a data file has an unknown version.
        """
        places, sizes, kinds = [], [], []
        by_layout: dict[tuple[tuple[int, ...], int, int], int] = {}
        for place, message in enumerate(messages):
            for file in message.files:
                places.append(place)
                sizes.append(file.file_size_bytes)
                kind = (tuple(file.fields), file.file_major_version, file.file_minor_version)
                kinds.append(by_layout.setdefault(kind, len(by_layout)))
        size_bytes = np.array(sizes, np.float64)
        size_bytes[size_bytes == 0] = np.nan
        return cls(
            np.array([message.physical_rows for message in messages], np.int64),
            np.array(places, np.int64),
            size_bytes,
            np.array(kinds, np.int64),
            tuple(
                FileKind(cast("tuple[FieldId, ...]", fields), FileVersion.from_numbers(major, minor))
                for fields, major, minor in by_layout
            ),
        )

    def num_files(self, start: int, stop: int) -> int:
        """Number of data files of the fragments at the places [start, stop)."""
        first, last = np.searchsorted(self.fragments, [start, stop])
        return int(last - first)
