"""Errors that pyarrow raises where the bytes of a file are not what their types say."""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa

from lance_spark.errors import CorruptFileError

DECODING_ERRORS = (
    CorruptFileError,
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowNotImplementedError,
)
"""What decoding of a damaged file raises. A lack of memory and an interrupt are none of it."""


def raise_corrupt(
    error: BaseException,
    *,
    field: str | None = None,
    path: str | None = None,
    root: str | None = None,
    column: int | None = None,
    page: int | None = None,
) -> NoReturn:
    """Raises one of `DECODING_ERRORS` as a `CorruptFileError` with its place in the file.

    Args:
        field: the name of the field, for an error of pyarrow.
    """
    if isinstance(error, CorruptFileError):
        raise error.at(path=path, root=root, column=column, page=page)
    of_field = "" if field is None else f" of field {field!r}"
    found = CorruptFileError(f"values{of_field} are not of the type that the schema says: {error}")
    raise found.at(path=path, root=root, column=column, page=page) from error
