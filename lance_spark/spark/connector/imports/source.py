"""The table, view or folder of files that is imported, as Spark describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import quote_string
from lance_spark.schema.projection import parse_path, quoted
from lance_spark.spark.connector.channel.codec import decode

_WITHOUT_TYPES = frozenset({"csv", "json", "text", "xml", "binaryfile"})
_OF_SPARK = frozenset(
    {"provider", "location", "owner", "external", "is_managed_location", "transient_lastddltime", "comment"}
)
"""Entries that Spark makes by itself."""
_OF_FORMATS = (
    *("spark.sql.", "option.", "parquet.", "orc.", "delta.", "iceberg.", "write.", "read.", "commit.", "history."),
    *("gc.", "snapshot-", "current-", "format", "sort-order", "identifier-fields", "default-", "compatibility."),
    *("numfiles", "numrows", "totalsize", "rawdatasize", "bucketing_version", "engine.", "schema.", "serialization."),
)
"""Prefixes of properties that configure another format."""
_LOSSY = ("ignorecorruptfiles", "ignoremissingfiles")


@dataclass(frozen=True, slots=True)
class SourceName:
    """The name of a source in a statement: a name of a catalog, or a format and a path."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SourceName:
        """The name that a user has written.

        Raises:
            InvalidInputError: it is no name, or a path without its format.
            UnsupportedFeatureError: files of this format do not say the types of their columns.
        """
        name = cls(tuple(parse_path(text)))
        if "/" in name.parts[0]:
            raise InvalidInputError(f"source {text!r} is a path; write its format before it, as in parquet.`/path`")
        if name.format in _WITHOUT_TYPES:
            raise UnsupportedFeatureError(
                f"files of {name.format} do not say the types of their columns; make a table of them by CREATE TABLE t "
                f"(columns) USING {name.format} OPTIONS (...) LOCATION 'path', and import it",
                feature=f"import of {name.format} by path",
            )
        return name

    @property
    def format(self) -> str:
        """The format of files at a path; empty for a name of a catalog."""
        return self.parts[0].lower() if len(self.parts) == 2 and "/" in self.parts[1] else ""

    @property
    def sql(self) -> str:
        """The name in statements."""
        return quoted(self.parts)

    @property
    def refresh(self) -> str:
        """The statement after which Spark lists the files again, and takes no cached rows."""
        return f"REFRESH {quote_string(self.parts[1])}" if self.format else f"REFRESH TABLE {self.sql}"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source; `modified` in milliseconds since 1970."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source as Spark describes it.

    Attributes:
        definitions: its columns in SQL's form.
        partitioning: its transforms in SQL's form.
        properties: those that go over.
        dropped: what does not go over, in words.
        files: in the order of their paths; None if Spark does not list them.
    """

    columns: StructType
    definitions: tuple[str, ...]
    partitioning: tuple[str, ...]
    comment: str | None
    properties: Mapping[str, str]
    dropped: tuple[str, ...]
    files: tuple[SourceFile, ...] | None

    @classmethod
    def parse(cls, name: SourceName, text: bytes) -> Source:
        """The description that the JVM has sent.

        Raises:
            UnsupportedFeatureError: the session has no such source; or it is a Lance table.
            InvalidInputError: the session may leave out files.
        """
        described = json.loads(text)
        if not described["has_format"]:
            raise UnsupportedFeatureError(
                f"this session cannot read {name.format}; start it with the package of {name.format} for this version "
                "of Spark, as its documentation says",
                feature=f"import of {name.format} without its package",
            )
        if described["is_lance"]:
            raise UnsupportedFeatureError(
                f"{name.sql} is a Lance table; CREATE TABLE ... AS SELECT copies it, and CALL system.register_table "
                "gives it a name",
                feature="import of a Lance table",
            )
        lossy = described["lossy"] + [
            key for key, value in described["options"].items() if key.lower() in _LOSSY and value.lower() == "true"
        ]
        if lossy:
            raise InvalidInputError(
                f"with {lossy[0]} Spark leaves out files that it cannot read, and nobody would notice; set it to false"
            )
        given = {key: value for key, value in described["properties"].items() if key.lower() not in _OF_SPARK}
        kept = {key: value for key, value in given.items() if not key.lower().startswith(_OF_FORMATS)}
        dropped = [f"property {key}" for key in sorted(given.keys() - kept.keys()) if not _is_internal(key)]
        if described["buckets"] is not None:
            dropped.insert(0, f"bucketing: {described['buckets']}")
        files = described.get("files")
        return cls(
            columns=decode(StructType, described["columns"]),
            definitions=tuple(described["definitions"]),
            partitioning=tuple(described["partitioning"]),
            comment=described["comment"],
            properties=kept,
            dropped=tuple(dropped),
            files=None if files is None else tuple(sorted((SourceFile(*file) for file in files), key=_path)),
        )

    @property
    def num_bytes(self) -> int | None:
        """Bytes of all files."""
        return None if self.files is None else sum(file.size for file in self.files)

    def definition(self, table: str) -> str:
        """The statement that makes the Lance table with the name `table`."""
        text = f"CREATE TABLE {table} ({', '.join(self.definitions)}) USING lance"
        if self.partitioning:
            text += f" PARTITIONED BY ({', '.join(self.partitioning)})"
        if self.comment is not None:
            text += f" COMMENT {quote_string(self.comment)}"
        if self.properties:
            entries = (f"{quote_string(key)} = {quote_string(value)}" for key, value in sorted(self.properties.items()))
            text += f" TBLPROPERTIES ({', '.join(entries)})"
        return text

    def steps(self, max_files: int, max_bytes: int) -> tuple[tuple[str, ...], ...]:
        """The paths of the files of each step; a file that is larger than `max_bytes` is a step of its own."""
        groups: list[list[str]] = []
        size = 0
        for file in self.files or ():
            if not groups or len(groups[-1]) == max_files or size + file.size > max_bytes:
                groups.append([])
                size = 0
            groups[-1].append(file.path)
            size += file.size
        return tuple(map(tuple, groups))


def changes(before: Sequence[SourceFile], now: Sequence[SourceFile]) -> str | None:
    """The first difference between two listings in words; None if there is none."""
    old, new = ({file.path: file for file in files} for files in (before, now))
    for path in sorted(old.keys() | new.keys()):
        if path not in new:
            return f"{path} was removed"
        if path not in old:
            return f"{path} is new"
        if old[path] != new[path]:
            return f"{path} was written again"
    return None if len(before) == len(now) else "a file is listed twice"


def _is_internal(key: str) -> bool:
    return key.lower().startswith(("spark.sql.", "option.", "serialization."))


def _path(file: SourceFile) -> str:
    return file.path
