"""Zipped slots, worked out by hand."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import full_zip_write as kernels


def u16(*levels: int) -> np.ndarray:
    return np.array(levels, np.uint16)


def test_fixed_width_keeps_a_filler_for_nulls_and_nothing_for_placeholders() -> None:
    reps, defs = u16(1, 0, 1, 1), u16(0, 1, 2, 0)
    values = np.frombuffer(b"aa..bb", np.uint8)
    starts, target = np.full(4, -1, np.int64), np.zeros(50, np.uint8)
    written = kernels.zip_fixed(
        address_of(reps), address_of(defs), 4, 1, 1, 2, 1, address_of(values), 2, address_of(starts), address_of(target)
    )
    assert target[:written].tobytes() == b"\x04aa\x01..\x06\x04bb"
    assert starts.tolist() == [0, 6, 7, 10]


def test_variable_width_leaves_out_length_and_bytes_of_nulls() -> None:
    defs, offsets, data = u16(0, 1, 0), np.array([0, 2, 2, 5], np.int32), np.frombuffer(b"abcde", np.uint8)
    starts, target = np.full(4, -1, np.int64), np.zeros(50, np.uint8)
    written = kernels.zip_variable(
        0,
        address_of(defs),
        3,
        0,
        1,
        1,
        1,
        address_of(offsets),
        4,
        address_of(data),
        address_of(starts),
        address_of(target),
    )
    assert target[:written].tobytes() == b"\x00\x02\0\0\0ab\x01\x00\x03\0\0\0cde"
    assert starts.tolist() == [0, 7, 8, 16]


def test_control_words_of_two_and_four_bytes() -> None:
    reps, defs, values = u16(3), u16(5), np.zeros(1, np.uint8)
    for control_bytes in (2, 4):
        target = np.zeros(8, np.uint8)
        written = kernels.zip_fixed(
            address_of(reps), address_of(defs), 1, 3, 5, 8, control_bytes, address_of(values), 1, 0, address_of(target)
        )
        assert target[:written].tobytes() == (3 << 8 | 5).to_bytes(control_bytes, "little") + b"\0"
