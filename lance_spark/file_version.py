"""File format versions and their numbers on disk (Lance file format specification).

A 2.0 file says (0, 3) in its footer while the manifest says 2/0; 0.1 files say (0, 0), (0, 1) or (0, 2).
"""

from __future__ import annotations

from enum import Enum

from lance_spark.errors import CorruptFileError, InvalidInputError


class FileVersion(str, Enum):
    """A version of the Lance file format, named as in the manifest's `data_format.version`."""

    V0_1 = "0.1"
    V2_0 = "2.0"
    V2_1 = "2.1"
    V2_2 = "2.2"
    V2_3 = "2.3"

    @classmethod
    def from_numbers(cls, major: int, minor: int, *, path: str | None = None) -> FileVersion:
        """The version of the numbers (major, minor) in a footer or a `DataFile`.

        Raises:
            CorruptFileError: no version has these numbers.
        """
        version = _BY_NUMBERS.get((major, minor))
        if version is None:
            raise CorruptFileError(f"no Lance file version is numbered {major}.{minor}", path=path)
        return version

    @classmethod
    def parse(cls, text: str) -> FileVersion:
        """Parses a version name: "0.1", "legacy", "2.0" to "2.3", "stable" (2.2), "next" (2.3).

        Raises:
            InvalidInputError: no such version.
        """
        named = {version.value: version for version in cls} | {"legacy": cls.V0_1, "stable": cls.V2_2, "next": cls.V2_3}
        if text not in named:
            raise InvalidInputError(f"unknown file format version {text!r}; one of {', '.join(sorted(named))}")
        return named[text]

    @property
    def footer_numbers(self) -> tuple[int, int]:
        """(major, minor) as written in the footer of a file."""
        return {FileVersion.V0_1: (0, 2), FileVersion.V2_0: (0, 3)}.get(self) or self.data_file_numbers

    @property
    def data_file_numbers(self) -> tuple[int, int]:
        """(file_major_version, file_minor_version) of a `DataFile` in the manifest."""
        return (0, 2) if self is FileVersion.V0_1 else (2, int(self.value[-1]))


_BY_NUMBERS = {
    (0, 0): FileVersion.V0_1,
    (0, 1): FileVersion.V0_1,
    (0, 2): FileVersion.V0_1,
    (0, 3): FileVersion.V2_0,
    (2, 0): FileVersion.V2_0,
    (2, 1): FileVersion.V2_1,
    (2, 2): FileVersion.V2_2,
    (2, 3): FileVersion.V2_3,
}
