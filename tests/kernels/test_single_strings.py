"""Places of strings in full-zip pages, whose index comes from a file."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.layouts.single_rows import ZIPPED
from lance_spark.kernels.layouts.single_strings import locate_strings
from tests.support.guarded_memory import allocate_guarded, guarded

_TEXTS = [b"one", b"", b"three"]
_LENGTH_BYTES, _INDEX_BYTES = 4, 8


def located(index: list[int], row: int) -> int:
    """The bytes of a row of a page with these texts, whose index is `index`; negative if the index is refused."""
    slots = b"".join(len(text).to_bytes(_LENGTH_BYTES, "little") + text for text in _TEXTS)
    data = guarded(slots + b"".join(entry.to_bytes(_INDEX_BYTES, "little") for entry in index))
    pages = guarded(np.array([ZIPPED, 0, len(slots), _LENGTH_BYTES, 0, _INDEX_BYTES], "<i8").tobytes())
    chunks = guarded(np.array([0, 0, len(slots), len(_TEXTS)], "<i8").tobytes())
    rows, found = guarded(np.array([row], "<i8").tobytes()), allocate_guarded(3 * 8)
    return int(locate_strings(data.address, pages.address, 1, chunks.address, 1, rows.address, 1, 0, found.address))


def test_lengths_of_rows() -> None:
    assert [located([0, 7, 11, 20], row) for row in range(3)] == [3, 0, 5]


@pytest.mark.parametrize(
    "bounds",
    [(7, 21), (11, 7), (1 << 62, 1 << 63), ((1 << 63) - 1, 1 << 63), (1 << 63, (1 << 63) + 4), (1 << 60, 20)],
    ids=str,
)
def test_rows_outside_of_their_page(bounds: tuple[int, int]) -> None:
    # The difference of numbers above and below 2**63 is positive.
    assert located([0, *bounds, 20], 1) < 0
