"""Copies of complete objects, by the stores themselves where they can, else piece by piece."""

from __future__ import annotations

from lance_spark.errors import LanceError
from lance_spark.storage.base import ByteRange, ObjectStore, copy_object

_PIECE_BYTES = 32 << 20


def copy_whole(source: ObjectStore, source_path: str, target: ObjectStore, path: str, size: int) -> None:
    """Makes `path` of `target` a copy of an object of `size` bytes. Nothing else may be under that name.

    Raises:
        NotFoundError: the source does not exist.
        StorageError: a store failed; the copy may exist.
    """
    if copy_object(source, source_path, target, path, size):
        return
    output = target.open_output(path)
    try:
        for start in range(0, size, _PIECE_BYTES):
            output.write(source.read_range(source_path, ByteRange(start, min(_PIECE_BYTES, size - start))))
        output.close()
    except LanceError:
        output.abort()
        raise
