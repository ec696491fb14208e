"""Dictionary: codes and values (`lance.encodings.Dictionary`).

The message has two uses, distinguished by the schema's type:

* The page of an Arrow dictionary column: codes of the index type, nulls around the codes or among the values.
* A page of strings with few distinct values: codes of 8 bits, **0 is null** and code k the value k - 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import TOO_LONG, dictionary_bytes, dictionary_offsets
from lance_spark.layouts.base import side_by_side
from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, PagesSelection, Selection, require_type
from lance_spark.layouts.v2_0.registry import parse, register

_WORD_BYTES = 8


@register
@dataclass(frozen=True, slots=True)
class Dictionary(ArrayEncoding):
    """`indices` are the codes; `items` the `num_dictionary_items` values."""

    wire_name: ClassVar[str] = "dictionary"
    indices: ArrayEncoding
    items: ArrayEncoding
    num_dictionary_items: int

    @classmethod
    def from_proto(cls, message: Any) -> Dictionary:
        return cls(parse(message.indices), parse(message.items), message.num_dictionary_items)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        is_dictionary = pa.types.is_dictionary(arrow_type)
        require_type(is_dictionary or arrow_type == pa.string(), self.wire_name, arrow_type)
        index_type = arrow_type.index_type if is_dictionary else pa.uint8()
        value_type = arrow_type.value_type if is_dictionary else arrow_type
        codes, values = yield from side_by_side(
            [
                self.indices.read(buffers, selection, index_type),
                self.items.read(buffers, Selection.all(self.num_dictionary_items), value_type),
            ]
        )
        if is_dictionary:
            return _dictionary_array(codes, values, arrow_type)
        return _strings(codes, values, np.array([[len(codes)], [len(values)]], np.int64))

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        """None for Arrow dictionaries: an array of them has one dictionary."""
        if arrow_type != pa.string() or self.num_dictionary_items == 0:
            return None
        keys = self.indices.join_key(pa.uint8()), self.items.join_key(arrow_type)
        return None if None in keys else ("dictionary", *keys)

    def read_pages(
        self,
        encodings: Sequence[ArrayEncoding],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        of_pages = [each for each in encodings if isinstance(each, Dictionary)]
        indices, items = [each.indices for each in of_pages], [each.items for each in of_pages]
        num_items = np.array([each.num_dictionary_items for each in of_pages], np.int64)
        codes, values = yield from side_by_side(
            [
                self.indices.read_pages(indices, buffers, selection, pa.uint8()),
                self.items.read_pages(items, buffers, PagesSelection.all(num_items), arrow_type),
            ]
        )
        return _strings(codes, values, np.stack([selection.values_of_pages(), num_items]))


def _dictionary_array(codes: pa.Array, values: pa.Array, arrow_type: pa.DataType) -> pa.DictionaryArray:
    used = pc.min_max(codes)
    low, high = used["min"].as_py(), used["max"].as_py()
    if low is not None and not 0 <= low <= high < len(values):
        raise CorruptFileError(f"dictionary: codes {low}..{high} for {len(values)} values")
    if values.null_count:
        codes, values = _without_null_values(codes, values)
    return pa.DictionaryArray.from_arrays(codes, values, ordered=arrow_type.ordered, safe=False)


def _without_null_values(codes: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Moves nulls from the values to the codes: Arrow cannot unify dictionaries with nulls."""
    valid = values.is_valid()
    kept = valid.to_numpy(zero_copy_only=False)
    renumbered = pa.array(np.cumsum(kept) - 1, mask=~kept).cast(codes.type)
    return renumbered.take(codes), values.filter(valid)


def _strings(codes: pa.UInt8Array, items: pa.StringArray, pages: Int64Array) -> pa.StringArray:
    """The strings that codes refer to.

    Args:
        codes: of all pages.
        items: of all pages.
        pages: int64[2, pages], contiguous: the codes and the items of each page.
    """
    if codes.null_count:
        codes = codes.fill_null(0)
    num_values, address = len(codes), codes.buffers()[1].address
    target_offsets = pa.allocate_buffer((num_values + 1) * 4)
    validity = pa.allocate_buffer((num_values + 7) // 8)
    np.frombuffer(validity, np.uint8)[:] = 0xFF
    item_validity, item_offsets, item_bytes = items.buffers()
    of_items = 0 if item_validity is None else item_validity.address
    of_codes = address, address_of(pages), pages.shape[1], item_offsets.address
    num_nulls = dictionary_offsets(*of_codes, of_items, target_offsets.address, validity.address)
    if num_nulls == TOO_LONG:
        raise InvalidInputError("more than 2 GiB of strings at once; read fewer rows at a time")
    if num_nulls < 0:
        raise CorruptFileError(f"dictionary: a code is larger than the number of values, {int(pages[1].max())}")
    num_bytes = int(np.frombuffer(target_offsets, np.int32)[-1])
    data = pa.allocate_buffer(num_bytes + _WORD_BYTES)
    padded = np.concatenate([np.frombuffer(item_bytes, np.uint8), np.zeros(_WORD_BYTES, np.uint8)])
    dictionary_bytes(*of_codes, address_of(padded), target_offsets.address, data.address)
    buffers = [validity if num_nulls else None, target_offsets, data.slice(0, num_bytes)]
    return pa.Array.from_buffers(pa.string(), num_values, buffers, num_nulls)
