"""The number of rows of a fragment that are decoded at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import Field

_GROWTH = 8
_CAREFUL_ROWS = 1 << 14
_EXPANSION = 4
"""The assumed ratio of decoded to encoded size of texts and lists, for the first window."""

_TINY_WIDTH = 2.0


class Window:
    """A number of rows that decodes to approximately a given number of bytes.

    The decoded size of texts and lists is only known afterwards: a page of equal values is tiny in the file. So the
    first window is estimated, conservatively for such columns, and each following one is sized by the result of the
    previous.

    Args:
        num_bytes: the target size.
        batch_rows: windows are multiples of this if possible.
        columns: (top-level field, encoded bytes per row).
    """

    def __init__(self, num_bytes: int, batch_rows: int, columns: Iterable[tuple[Field, float]]) -> None:
        self._num_bytes = num_bytes
        self._batch_rows = batch_rows
        width, careful = 0.0, False
        for field, encoded_width in columns:
            fixed = fixed_width(field)
            width += fixed if fixed is not None else encoded_width * _EXPANSION
            careful = careful or (fixed is None and encoded_width < _TINY_WIDTH)
        self._rows = self._rows_of(width)
        if careful:
            self._rows = min(self._rows, max(_CAREFUL_ROWS, batch_rows))

    @property
    def num_rows(self) -> int:
        """Rows of the next window, at least 1."""
        whole = self._rows - self._rows % self._batch_rows
        return whole or self._rows

    def adapt(self, num_rows: int, num_bytes: int) -> None:
        """Records that `num_rows` rows decoded to `num_bytes`."""
        self._rows = min(self._rows_of(num_bytes / num_rows), self._rows * _GROWTH)

    def _rows_of(self, width: float) -> int:
        return max(1, int(self._num_bytes / max(width, 1.0)))


def fits_one_window(num_bytes: int, widths: Sequence[float | None], num_rows: int, encoded_bytes: int) -> bool:
    """Whether a `Window` of `num_bytes` has all `num_rows` rows, however the encoded bytes belong to the columns.

    `widths` as in `window_bytes_of`.

    >>> fits_one_window(1 << 20, [None], 1000, 4096), fits_one_window(1 << 20, [None], 100_000, 4096)
    (True, False)
    >>> fits_one_window(1 << 20, [8.0], 100_000, 4096), fits_one_window(1 << 20, [8.0], 200_000, 4096)
    (True, False)
    """
    if num_rows > _CAREFUL_ROWS and None in widths:
        return False
    return window_bytes_of(widths, num_rows, encoded_bytes) <= num_bytes


def window_bytes_of(widths: Sequence[float | None], num_rows: int, encoded_bytes: int) -> float:
    """About the most bytes that columns of `num_rows` rows decode to; `widths` are bytes per row, None if they vary."""
    fixed = sum([width or 0.0 for width in widths])
    return num_rows * max(1.0, fixed) + (encoded_bytes * _EXPANSION if None in widths else 0)


def fixed_width(field: Field) -> float | None:
    """Bytes per row of `field` in Arrow; None if it varies."""
    if field.logical_type == "struct" and not is_leaf(field):
        widths = [fixed_width(child) for child in field.children]
        known = [width for width in widths if width is not None]
        return sum(known) if len(known) == len(widths) else None
    if field.children:
        return None
    return _bit_width(to_arrow_type(field)) / 8 if _has_width(to_arrow_type(field)) else None


def _has_width(dtype: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(dtype):
        return _has_width(dtype.value_type)
    return bool(pa.types.is_primitive(dtype) or pa.types.is_fixed_size_binary(dtype) or pa.types.is_decimal(dtype))


def _bit_width(dtype: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * _bit_width(dtype.value_type)
    return int(dtype.bit_width)
