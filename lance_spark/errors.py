"""The errors that this package raises.

::

    LanceError
    ├── CorruptFileError          bytes violate the format (path, byte range, column, page)
    ├── UnsupportedFeatureError   valid Lance, but not supported by this release (feature, version)
    ├── InvalidInputError         a wrong argument; also a ValueError
    │   ├── AlreadyExistsError          the name of a new table or namespace is taken
    │   ├── StreamBehindError           a streaming query offers an epoch that is too old (committed, offered)
    │   └── NotEmptyError               a namespace to be dropped contains tables or namespaces
    ├── NotFoundError             no such table, version, tag, column, index or object; also a ValueError and a KeyError
    ├── CommitConflictError       another writer committed first (own, committed, table_version)
    │   ├── RetryableConflictError      read the new version and run the operation again
    │   └── IncompatibleConflictError   the operation is not possible on the new version
    ├── EpochCommittedError       an epoch of a streaming query is in the table already
    └── StorageError              the store failed, or lacks a guarantee that commits need
        └── CommitStateUnknownError     the reply of a commit was lost; check for the version before a retry

A message says what is wrong, where, and what to do about it. Every error can be pickled, including its attributes,
because Spark sends errors from its workers to the driver that way.
"""

from __future__ import annotations

import re
from typing import Any


class LanceError(Exception):
    """The base of all errors of this package. Its text can always be encoded as UTF-8."""

    def __str__(self) -> str:
        # `KeyError`, a base of one of the classes, would show the text in quotes.
        return _printable(Exception.__str__(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _printable(text: str) -> str:
    """`text`, with lone surrogates (in names from users or file systems) escaped."""
    return text.encode(errors="backslashreplace").decode()


def _rebuild(cls: type[LanceError], args: tuple[Any, ...], attributes: dict[str, Any]) -> LanceError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(attributes)
    return error


class CorruptFileError(LanceError):
    """The bytes of a file violate the format; nothing of the affected part is returned.

    Args:
        message: what is wrong.
        path: the file, if known; `at` adds it later.
        root: URI of the table, or the partition, that `path` is relative to.
        start: offset of the affected byte range.
        length: length of that range in bytes.
        column: index of the column in the file.
        page: index of the page in the column.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        root: str | None = None,
        start: int | None = None,
        length: int | None = None,
        column: int | None = None,
        page: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.root = root
        self.start = start
        self.length = length
        self.column = column
        self.page = page

    def at(
        self,
        *,
        path: str | None = None,
        root: str | None = None,
        column: int | None = None,
        page: int | None = None,
    ) -> CorruptFileError:
        """This error with its location added; known attributes are not overwritten."""
        self.path = self.path if self.path is not None else path
        self.root = self.root if self.root is not None else root
        self.column = self.column if self.column is not None else column
        self.page = self.page if self.page is not None else page
        return self

    def __str__(self) -> str:
        file = "" if self.path is None else f"file {self.path}"
        places = [
            f"{file} in {self.root}" if file and self.root is not None else file,
            f"column {self.column}" if self.column is not None else "",
            f"page {self.page}" if self.page is not None else "",
            f"bytes {self.start}..{self.start + (self.length or 0)}" if self.start is not None else "",
        ]
        place = ", ".join(part for part in places if part)
        return _printable(f"{self.args[0]} ({place})" if place else str(self.args[0]))


class UnsupportedFeatureError(LanceError):
    """The table or file is valid but uses a feature that this release does not support.

    Args:
        message: what is not supported, and what to do.
        feature: short name of the feature.
        version: the format version of the feature, if specific to one.
    """

    def __init__(self, message: str, *, feature: str = "", version: str = "") -> None:
        super().__init__(message)
        self.feature = feature
        self.version = version


class InvalidInputError(LanceError, ValueError):
    """An invalid argument, option, schema or filter; nothing was changed."""


class AlreadyExistsError(InvalidInputError):
    """The name of a new table or namespace is taken; nothing was changed."""


class NotEmptyError(InvalidInputError):
    """A namespace to be dropped contains tables or namespaces; nothing was changed."""


class StreamBehindError(InvalidInputError):
    """A streaming query offers an epoch older than the one that the table has of it; nothing was changed.

    Args:
        message: the two epochs, and what to do.
        committed: the epoch that the table has.
        offered: the epoch that was to be written.
    """

    def __init__(self, message: str, *, committed: int = 0, offered: int = 0) -> None:
        super().__init__(message)
        self.committed = committed
        self.offered = offered


class EpochCommittedError(LanceError):
    """The table has this epoch of the streaming query already; nothing was changed."""


class NotFoundError(LanceError, ValueError, KeyError):
    """A table, namespace, version, tag, branch, column, index or object that does not exist.

    Other libraries call some of these a ValueError and some a KeyError; code that catches either works.
    """


class CommitConflictError(LanceError):
    """A concurrent transaction conflicts with this commit; nothing of this commit is visible.

    Args:
        message: the conflict, and what to do.
        own: name of this operation.
        committed: name of the operation that was committed first.
        table_version: the version of the committed operation.

    Attributes:
        table: URI of the table, which for a partition is that of the partitioned table; the text begins with it unless
            it names the table anyway.
    """

    def __init__(self, message: str, *, own: str = "", committed: str = "", table_version: int | None = None) -> None:
        super().__init__(message)
        self.own = own
        self.committed = committed
        self.table_version = table_version
        self.table = ""

    def __str__(self) -> str:
        text = super().__str__()
        table = _printable(self.table)
        is_named = re.search(rf"(?<![\w/]){re.escape(table)}(?![\w/$-]|\.\w)", text)
        return text if is_named or not table else f"{table}: {text}"


class RetryableConflictError(CommitConflictError):
    """Read the new version, run the operation again and commit it."""


class IncompatibleConflictError(CommitConflictError):
    """The operation is not possible on the new version; a retry cannot help."""


class StorageError(LanceError):
    """The store failed, or it lacks a required guarantee (such as put-if-absent)."""


class CommitStateUnknownError(StorageError):
    """A commit in doubt: the store failed during the commit, and the version may or may not exist.

    Nothing is cleaned up, because the version may need the files.

    Args:
        message: what failed, and how to find out.
        table_version: the version that may or may not exist.
        transaction: UUID of the transaction to look for.
    """

    def __init__(self, message: str, *, table_version: int | None = None, transaction: str = "") -> None:
        super().__init__(message)
        self.table_version = table_version
        self.transaction = transaction
