"""The headers of mini-block chunks (`lance.encodings21.MiniBlockLayout`).

A chunk begins with ``u16 num_levels``, ``u16`` bytes of repetition levels and ``u16`` bytes of definition levels (each
only if the page has them) and the bytes of each value buffer (``u16``, or ``u32`` in pages with large chunks). The
header and each part are padded to 8 bytes, counted from the start of the chunk.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64
from lance_spark.kernels.words import read_word


@inlined
def parts_begin(size, num_level_parts, num_value_parts, size_bytes):
    """Offset of the first part in a chunk of `size` bytes; -1 if the chunk ends within its header.

    Args:
        num_level_parts: 0 to 2 parts of levels, whose sizes have 2 bytes.
        num_value_parts: parts of values, whose sizes have `size_bytes` bytes.
    """
    header = 2 + 2 * num_level_parts + size_bytes * num_value_parts
    return np.int64((header + 7) // 8 * 8) if header <= size else np.int64(-1)


@inlined
def part_of_chunk(chunk, size, part, num_level_parts, size_bytes, begin):
    """(bytes of a part, offset of the next one), by the sizes in the header of a chunk.

    Args:
        chunk, size: the address of the chunk and its bytes, which contain the header.
        part: the number of the part; parts of levels come first.
        begin: offset of the part in the chunk.

    Returns:
        The bytes are -1 if the part does not end within the chunk.
    """
    num_levels = min(part, num_level_parts)
    sizes = chunk + 2 + 2 * num_levels + size_bytes * (part - num_levels)
    num_bytes = np.int64(read_word(sizes, 2 if part < num_level_parts else size_bytes))
    if begin + num_bytes > size:
        return np.int64(-1), begin
    return num_bytes, begin + (num_bytes + 7) // 8 * 8


@inlined
def num_levels_of_chunk(chunk):
    """The number of levels of a chunk with levels."""
    return np.int64(read_word(chunk, 2))


@inlined
def chunk_of_word(word_at, word_bytes, left, is_last):
    """(bytes, values) of a chunk by its word; the last chunk has the values that are left."""
    word = np.int64(read_word(word_at, word_bytes))
    return ((word >> 4) + 1) << 3, left if is_last else np.int64(1) << (word & 15)


@kernel("int64(int64, int64, int64, int64)")
def list_chunks(pages, num_pages, table, num_chunks):
    """Lists the chunks of pages by their chunk words.

    Args:
        pages: ``int64[6, num_pages]``: of each page the bytes of a chunk word, 0 for a page that is one chunk; address
            and bytes of its words; start and bytes of its chunks; the number of its values.
        table: ``int64[5, num_chunks]``: of each chunk the index of its page, its start and size, its number of values,
            and the number of values up to its end, those of earlier pages included.

    Returns:
        0, or ``~i`` for the first page whose chunks contradict its bytes or values, or which has more chunks than are
        left; ``~num_pages`` if there are fewer.
    """
    of_page = pointer_i64(pages)
    out = pointer_i64(table)
    at = np.int64(0)
    total = np.int64(0)
    for page in range(num_pages):
        word_bytes = of_page[page]
        words = of_page[num_pages + page]
        word_size = of_page[2 * num_pages + page]
        start = of_page[3 * num_pages + page]
        end = start + of_page[4 * num_pages + page]
        left = of_page[5 * num_pages + page]
        count = word_size // word_bytes if word_bytes else np.int64(1)
        if word_size != count * word_bytes or start < 0 or end < start or left < 0 or count > num_chunks - at:
            return ~np.int64(page)
        for i in range(count):
            size, num_values = end - start, left
            if word_bytes:
                size, num_values = chunk_of_word(words + i * word_bytes, word_bytes, left, i == count - 1)
            if num_values > left or start + size > end:
                return ~np.int64(page)
            left -= num_values
            total += num_values
            out[at] = page
            out[num_chunks + at] = start
            out[2 * num_chunks + at] = size
            out[3 * num_chunks + at] = num_values
            out[4 * num_chunks + at] = total
            start += size
            at += 1
        if left > 0:
            return ~np.int64(page)
    return 0 if at == num_chunks else ~np.int64(num_pages)


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def chunks_of_values(ends, num_chunks, starts, stops, num_ranges, chosen):
    """The chunks with any value of ranges, which ascend; values beyond the last chunk are in none.

    Args:
        ends: int64[num_chunks], the values up to the end of each chunk.
        starts, stops: int64[num_ranges].
        chosen: int64[num_chunks], the indices of the chunks, ascending.

    Returns:
        The number of chunks.
    """
    end = pointer_i64(ends)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    found = pointer_i64(chosen)
    count = np.int64(0)
    chunk = np.int64(0)
    for i in range(num_ranges):
        if start[i] >= stop[i]:
            continue
        while chunk < num_chunks and end[chunk] <= start[i]:
            chunk += 1
        while chunk < num_chunks:
            if count == 0 or found[count - 1] < chunk:
                found[count] = chunk
                count += 1
            if end[chunk] >= stop[i]:
                break
            chunk += 1
    return count


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def move_ranges(firsts, moves, num_chunks, starts, stops, num_ranges, moved):
    """Moves ranges of values, which ascend, by the distance of the chunk in which each begins.

    Args:
        firsts, moves: int64[num_chunks], the first value of each chunk, ascending, and its distance; at least one.
        starts, stops: int64[num_ranges].
        moved: ``int64[2, num_ranges]``, the starts and stops.
    """
    first = pointer_i64(firsts)
    move = pointer_i64(moves)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    out = pointer_i64(moved)
    chunk = np.int64(0)
    for i in range(num_ranges):
        while chunk + 1 < num_chunks and first[chunk + 1] <= start[i]:
            chunk += 1
        out[i] = start[i] + move[chunk]
        out[num_ranges + i] = stop[i] + move[chunk]


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def parse_row_index(pages, num_pages, page_of_chunk, num_chunks, begun, finished):
    """Parses the repetition indices of pages: pairs of u64 for each chunk, rows that end in it and slots of its
    unfinished last row.

    Args:
        pages: ``int64[3, num_pages]``: of each page the address of its pairs, their bytes, and its number of rows.
        page_of_chunk: ``int64[num_chunks]``, ascending.
        begun, finished: ``int64[num_chunks]``: rows that begin, and that end, up to the end of each chunk.

    Returns:
        0, or ``~i`` for the first page whose pairs contradict its chunks or its rows.
    """
    of_page = pointer_i64(pages)
    owner = pointer_i64(page_of_chunk)
    starts = pointer_i64(begun)
    ends = pointer_i64(finished)
    at = np.int64(0)
    total = np.int64(0)
    for page in range(num_pages):
        pairs = of_page[page]
        num_bytes = of_page[num_pages + page]
        left = of_page[2 * num_pages + page]
        is_open = np.int64(1)
        if num_bytes == 0 or num_bytes & 15:
            return ~np.int64(page)
        for i in range(num_bytes >> 4):
            if at == num_chunks or owner[at] != page:
                return ~np.int64(page)
            ended = np.int64(read_word(pairs + 16 * i, 8))
            if ended < 0 or ended > left:
                return ~np.int64(page)
            is_open = np.int64(read_word(pairs + 16 * i + 8, 8) != 0)
            left -= ended
            total += ended
            ends[at] = total
            starts[at] = total + is_open
            at += 1
        if left or is_open:
            return ~np.int64(page)
    return 0 if at == num_chunks else ~np.int64(num_pages)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def chunks_of_rows(begun, finished, num_chunks, starts, stops, num_ranges, chosen, bound_chunks, ordinals):
    """Finds the chunks with any slot of some rows.

    Args:
        begun, finished: int64[num_chunks]: the rows that begin, and that end, up to the end of each chunk.
        starts, stops: int64[num_ranges]: ranges of rows, ascending, none of them empty.
        chosen: int64[num_chunks], gets the chunks, ascending.
        bound_chunks: int64[2 * num_ranges], gets for the start and the end of each range the place of its chunk in
            `chosen`: where the first row begins, and where the last one ends.
        ordinals: int64[2 * num_ranges], gets how many rows begin in that chunk before.

    Returns:
        The number of chunks; -1 if there are not as many rows.
    """
    begun_to = pointer_i64(begun)
    finished_to = pointer_i64(finished)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    out = pointer_i64(chosen)
    place = pointer_i64(bound_chunks)
    ordinal = pointer_i64(ordinals)
    num_chosen = np.int64(0)
    following = first = last = np.int64(0)
    for i in range(num_ranges):
        while first < num_chunks and begun_to[first] <= start[i]:
            first += 1
        last = max(last, first)
        while last < num_chunks and finished_to[last] < stop[i]:
            last += 1
        if last >= num_chunks:
            return -1
        for chunk in range(max(first, following), last + 1):
            out[num_chosen] = chunk
            num_chosen += 1
        following = last + 1
        # All chunks from the first to the last are chosen.
        place[2 * i] = num_chosen - 1 - (last - first)
        place[2 * i + 1] = num_chosen - 1
        ordinal[2 * i] = start[i] - (begun_to[first - 1] if first > 0 else 0)
        ordinal[2 * i + 1] = stop[i] - (begun_to[last - 1] if last > 0 else 0)
    return num_chosen


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_parts(
    data, data_size, bases, owners, offsets, sizes, num_chunks, num_level_parts, num_value_parts, size_bytes, table
):
    """Locates the parts of each chunk in `data`.

    Args:
        data_size: bytes at `data`.
        bases, owners, offsets: chunk i begins at ``bases[owners[i]] + offsets[i]``; int64, the last two of num_chunks.
        sizes: int64[num_chunks], bytes of each chunk.
        num_level_parts, num_value_parts, size_bytes: as for `parts_begin`.
        table: ``int64[1 + 2 * parts, num_chunks]``: the number of levels, then start and size of each part.

    Returns:
        0, or ``~i`` for the first chunk with a part out of bounds.
    """
    base = pointer_i64(bases)
    owner = pointer_i64(owners)
    offset = pointer_i64(offsets)
    size_of = pointer_i64(sizes)
    out = pointer_i64(table)
    num_parts = num_level_parts + num_value_parts
    for i in range(num_chunks):
        start = base[owner[i]] + offset[i]
        size = size_of[i]
        begin = parts_begin(size, num_level_parts, num_value_parts, size_bytes)
        if start < 0 or begin < 0 or start + size > data_size:
            return ~np.int64(i)
        chunk = data + start
        out[i] = num_levels_of_chunk(chunk)
        for part in range(num_parts):
            num_bytes, end = part_of_chunk(chunk, size, part, num_level_parts, size_bytes, begin)
            if num_bytes < 0:
                return ~np.int64(i)
            out[(1 + 2 * part) * num_chunks + i] = start + begin
            out[(2 + 2 * part) * num_chunks + i] = num_bytes
            begin = end
    return 0
