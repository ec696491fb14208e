"""All values of fixed width of a column, straight from the pages of a file in memory, by one call.

Everything that comes from the file is checked. A negative result says that the pages contradict the format; the output
is then undefined.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, unpack_block
from lance_spark.kernels.bits import append_bits
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64
from lance_spark.kernels.layouts.mini_block import chunk_of_word, part_of_chunk, parts_begin
from lance_spark.kernels.words import read_word


@inlined
def _is_outside(start, size, data_size):
    return start < 0 or size < 0 or start > data_size - size


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_mini_blocks(data, data_size, pages, num_pages, size_bytes, num_wanted, bits, target):
    """Decodes all `num_wanted` values of mini-block pages without levels (`lance_spark.kernels.layouts.mini_block`).

    Args:
        pages: ``int64[6, num_pages]``: where the chunk words of each page begin in the file, and their bytes; the same
            of its chunks; the number of values; 1 if they are bit-packed.
        size_bytes: of a chunk word, and of the size of values in a chunk: 2 or 4.
        bits: of a value: 1, or a multiple of 8; 8 to 64, a power of two, of pages with inline bit packing.
        target: gets the values, back to back; needs room for 1024 more.

    Returns:
        The bytes of the chunks.
    """
    of_page = pointer_i64(pages)
    word_bytes = bits >> 3
    taken = np.int64(0)
    num_read = np.int64(0)
    for page in range(num_pages):
        words, words_size = of_page[page], of_page[num_pages + page]
        chunk, chunks_size = of_page[2 * num_pages + page], of_page[3 * num_pages + page]
        left = of_page[4 * num_pages + page]
        is_packed = of_page[5 * num_pages + page]
        if _is_outside(words, words_size, data_size) or _is_outside(chunk, chunks_size, data_size):
            return -1
        count = words_size // size_bytes
        if count * size_bytes != words_size or left > num_wanted - taken:
            return -1
        chunks_end = data + chunk + chunks_size
        chunk += data
        num_read += chunks_size
        for i in range(count):
            size, num_values = chunk_of_word(data + words + i * size_bytes, size_bytes, left, i == count - 1)
            begin = parts_begin(size, 0, 1, size_bytes)
            if num_values > left or chunk + size > chunks_end or begin < 0:
                return -1
            values_size, _ = part_of_chunk(chunk, size, 0, 0, size_bytes, begin)
            if values_size < 0:
                return -1
            source = chunk + begin
            if is_packed:
                if values_size < word_bytes or num_values > BLOCK_VALUES:
                    return -1
                width = np.int64(read_word(source, word_bytes))
                if width < 0 or width > bits or values_size < word_bytes + width * BLOCK_BYTES_PER_BIT:
                    return -1
                unpack_block(source + word_bytes, width, bits, target + taken * word_bytes)
            else:
                if num_values > values_size * 8 // bits:
                    return -1
                if bits == 1:
                    append_bits(target, taken, source, num_values)
                else:
                    copy_bytes(target + taken * word_bytes, source, num_values * word_bytes)
            taken += num_values
            left -= num_values
            chunk += size
        if left > 0:
            return -1
    return num_read if taken == num_wanted else np.int64(-1)
