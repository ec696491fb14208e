"""The kernel of dictionaries finds the items of pyarrow's `dictionary_encode`, and stays within its memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.kernels.distinct import distinct_values
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.leaf.values import leaf_block
from tests.support.guarded_memory import allocate_guarded, guarded


def columns(rows: int, distinct: int, seed: int) -> list[pa.Array]:
    """Texts and values of 64 and 128 bits with this many distinct values, without and with nulls, and slices."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, distinct, rows)
    texts = ["x" * (number % 23) + str(number) if number else "" for number in numbers.tolist()]
    whole = [
        pa.array(texts),
        pa.array(texts, pa.large_string()),
        pa.array(numbers),
        pa.array([b"%016d" % number for number in numbers.tolist()], pa.binary(16)),
    ]
    arrays = []
    for array in whole:
        nulls = pa.array(rng.random(rows) < 0.3)
        arrays += [array, array.slice(rows // 7), pc.if_else(nulls, pa.scalar(None, array.type), array)]
    return arrays


def distinct(array: pa.Array, max_items: int) -> tuple[int, list[int], list[int]]:
    """(result, item of each value, first value of each item), with guarded memory."""
    block = leaf_block(array)
    data = guarded(block.data)
    offsets = guarded(block.offsets) if hasattr(block, "offsets") else None
    validity = guarded(array.buffers()[0].slice(0, (array.offset + len(array) + 7) // 8)) if array.null_count else None
    slot_bits = max_items.bit_length() + 1
    slots = guarded(bytes(4 << slot_bits))
    indices, firsts = allocate_guarded(4 * len(array)), allocate_guarded(8 * max_items)
    result = distinct_values(
        0 if offsets is None else offsets.address,
        0 if offsets is None else block.bits_per_offset // 8,
        data.address,
        data.size,
        0 if offsets is not None else block.bits_per_value // 8,
        len(array),
        0 if validity is None else validity.address,
        array.offset,
        max_items,
        slots.address,
        slot_bits,
        indices.address,
        firsts.address,
    )
    items = np.frombuffer(firsts, np.int64)[: max(result, 0)].tolist()
    return result, np.frombuffer(indices, np.int32).tolist(), items


@pytest.mark.parametrize("rows", [1, 2, 99, 1000])
@pytest.mark.parametrize("number", [1, 3, 40, 10**6])
def test_items_are_those_of_pyarrow(rows: int, number: int) -> None:
    for array in columns(rows, number, seed=rows):
        expected = array.dictionary_encode()
        result, indices, firsts = distinct(array, rows)
        assert result == len(expected.dictionary)
        assert array.take(pa.array(firsts, pa.int64())) == expected.dictionary
        assert indices == expected.indices.fill_null(0).to_pylist()


def test_too_many_items() -> None:
    for array in columns(500, 60, seed=1):
        items = len(array.dictionary_encode().dictionary)
        assert distinct(array, items)[0] == items
        assert distinct(array, items - 1)[0] == -1


def test_values_are_compared_bitwise() -> None:
    words = np.array([0, 1 << 63, 0x7FF8 << 48, 0x7FF8 << 48 | 1, 1 << 63, 0], np.uint64)
    array = pa.array(words.view(np.float64), from_pandas=False)
    assert distinct(array, 6) == (4, [0, 1, 2, 3, 1, 0], [0, 1, 2, 3])


def test_equal_hashes_of_full_tables() -> None:
    """Every slot is probed where all but a few are taken."""
    numbers = np.arange(1 << 10)
    slots, indices, firsts = np.zeros(1 << 11, np.int32), np.empty(2 << 10, np.int32), np.empty(1 << 10, np.int64)
    twice = np.concatenate([numbers, numbers[::-1]])
    arguments = (0, 0, address_of(twice), twice.nbytes, 8, len(twice), 0, 0, 1 << 10)
    assert distinct_values(*arguments, address_of(slots), 11, address_of(indices), address_of(firsts)) == 1 << 10
    assert firsts.tolist() == numbers.tolist()
    assert indices.tolist() == twice.tolist()
