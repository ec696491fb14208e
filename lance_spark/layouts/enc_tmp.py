from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedBlock, EncodedBlocks, EncodedMiniBlocks
from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.kernels import mini_block_encode as kernels
from lance_spark.kernels.addresses import address_of


def _padded(sizes: Int64Array) -> Int64Array:
    return (sizes + 7) & ~7


def chunk_sizes(level_buffers: list[Chunks], value_buffers: list[Chunks], *, large_chunks: bool) -> Int64Array:
    """Bytes of each chunk, a multiple of 8."""
    header = 2 + 2 * len(level_buffers) + (4 if large_chunks else 2) * len(value_buffers)
    total = np.full(len(value_buffers[0].sizes), _padded(np.int64(header)), np.int64)
    for buffer in (*level_buffers, *value_buffers):
        total += _padded(buffer.sizes)
    return total


def chunk_words(sizes: Int64Array, num_values: Int64Array, *, large_chunks: bool) -> pa.Buffer:
    """`((bytes / 8 - 1) << 4) | log2(values)` for every chunk; the last one's number of values follows from the page's."""
    logs = np.zeros(len(num_values), np.int64)
    logs[:-1] = np.log2(num_values[:-1]).astype(np.int64)
    words = ((sizes // 8 - 1) << 4) | logs
    return pa.py_buffer(words.astype("<u4" if large_chunks else "<u2"))


def write_chunks(
    num_levels: Int64Array | None,
    level_buffers: list[Chunks],
    value_buffers: list[Chunks],
    sizes: Int64Array,
    *,
    large_chunks: bool,
) -> pa.Buffer:
    """The chunks of a page, back to back."""
    tables = [
        (buffer.data.address, np.ascontiguousarray(buffer.starts), np.ascontiguousarray(buffer.sizes))
        for buffer in (*level_buffers, *value_buffers)
    ]
    sources = np.array([[data, address_of(starts), address_of(lengths)] for data, starts, lengths in tables], np.int64)
    target = pa.allocate_buffer(int(sizes.sum()))
    written = kernels.write_chunks(
        0 if num_levels is None else address_of(num_levels),
        len(level_buffers),
        address_of(sources),
        len(tables),
        len(sizes),
        large_chunks,
        target.address,
    )
    assert written == target.size
    return target


# ---- stub of encodings/choose
from lance_spark._proto import encodings_v2_1_pb2 as pb  # noqa: E402
from lance_spark.encodings.base import EncodedValues  # noqa: E402
from lance_spark.encodings.blocks import FixedSizeListBlock, FixedWidthBlock, VariableWidthBlock  # noqa: E402
from lance_spark.encodings.flat import Flat  # noqa: E402
from lance_spark.encodings.inline_bitpacking import InlineBitpacking  # noqa: E402
from lance_spark.encodings.variable import Variable  # noqa: E402
from lance_spark.kernels import bitpack  # noqa: E402
from lance_spark.kernels import offsets as offset_kernels


class Fsl:
    def __init__(self, dimension, has_validity, values):
        self.dimension, self.has_validity, self.values = dimension, has_validity, values

    def to_proto(self):
        return pb.CompressiveEncoding(
            fixed_size_list=pb.FixedSizeList(
                items_per_value=self.dimension, has_validity=self.has_validity, values=self.values.to_proto()
            )
        )


def equal_chunks(n, per):
    full, rest = divmod(n, per)
    return np.array([per] * full + ([rest] if rest or not full else []), np.int64)


def bits_of(block):
    if isinstance(block, FixedSizeListBlock):
        return block.dimension * (bits_of(block.items) + (block.validity is not None))
    return block.bits_per_value


def fsl_codec(block):
    if isinstance(block, FixedSizeListBlock):
        return Fsl(block.dimension, block.validity is not None, fsl_codec(block.items))
    return Flat(block.bits_per_value)


def bit_slices(buf, bits, counts):
    """Chunks of a bit-wide or byte-wide buffer."""
    ends = np.cumsum(counts) * bits
    starts = ends - counts * bits
    if (starts % 8).any():
        arr = np.unpackbits(np.frombuffer(buf, np.uint8), bitorder="little")
        parts = [np.packbits(arr[s:e], bitorder="little").tobytes() for s, e in zip(starts, ends)]
        sizes = np.array([len(p) for p in parts], np.int64)
        return Chunks(pa.py_buffer(b"".join(parts)), np.cumsum(sizes) - sizes, sizes, counts)
    return Chunks(buf, starts // 8, (ends - starts + 7) // 8, counts)


def choose_mini_block(block, *, max_values, max_bytes=8186):
    if isinstance(block, VariableWidthBlock):
        ob = block.bits_per_offset // 8
        counts = np.empty(block.num_values, np.int64)
        sizes = np.empty(block.num_values, np.int64)
        n = offset_kernels.plan_variable_chunks(
            block.offsets.address, ob, block.num_values, max_values, max_bytes, address_of(counts), address_of(sizes)
        )
        counts, sizes = counts[:n].copy(), sizes[:n].copy()
        out = pa.allocate_buffer(int(sizes.sum()))
        offset_kernels.write_variable_chunks(
            block.offsets.address, block.data.address, ob, address_of(counts), address_of(sizes), n, 0x48, out.address
        )
        return EncodedMiniBlocks(Variable(ob * 8), [Chunks(out, np.cumsum(sizes) - sizes, sizes, counts)])
    bits = bits_of(block)
    if isinstance(block, FixedWidthBlock) and bits in (8, 16, 32, 64) and max_values >= 1024 and block.num_values:
        widths = np.empty((block.num_values + 1023) // 1024, np.int64)
        bitpack.block_widths(block.data.address, block.num_values, bits, address_of(widths))
        sizes = widths * 128 + bits // 8
        if sizes.sum() < block.num_values * bits // 8:
            out = pa.allocate_buffer(int(sizes.sum()))
            scratch = np.zeros(1024, np.uint64)
            bitpack.pack_inline(
                block.data.address, block.num_values, bits, address_of(widths), address_of(scratch), out.address
            )
            counts = equal_chunks(block.num_values, 1024)
            return EncodedMiniBlocks(InlineBitpacking(bits), [Chunks(out, np.cumsum(sizes) - sizes, sizes, counts)])
    per = max_values
    while per > 2 and per * bits // 8 > max_bytes:
        per //= 2
    counts = equal_chunks(block.num_values, per)
    buffers, mult, b = [], 1, block
    while isinstance(b, FixedSizeListBlock):
        mult *= b.dimension
        if b.validity is not None:
            buffers.append(bit_slices(b.validity, mult, counts))
        b = b.items
    buffers.append(bit_slices(b.data, b.bits_per_value * mult, counts))
    return EncodedMiniBlocks(fsl_codec(block), buffers)


def choose_block(block):
    if isinstance(block, FixedWidthBlock):
        return EncodedBlock(Flat(block.bits_per_value), block.data, block.num_values)
    word = "<u4" if block.bits_per_offset == 32 else "<u8"
    n = block.num_values + 1
    head = np.array([block.bits_per_offset, (n + 2) * block.bits_per_offset // 8], word).tobytes()
    data = head + block.offsets.to_pybytes() + block.data.to_pybytes()
    return EncodedBlock(Variable(block.bits_per_offset), pa.py_buffer(data), block.num_values)


def choose_values(block):
    if isinstance(block, FixedSizeListBlock):
        mult, b, parts = 1, block, []
        n = block.num_values
        while isinstance(b, FixedSizeListBlock):
            mult *= b.dimension
            if b.validity is not None:
                v = np.unpackbits(np.frombuffer(b.validity, np.uint8), count=n * mult, bitorder="little")
                parts.append(np.packbits(v.reshape(n, mult), axis=1, bitorder="little"))
            b = b.items
        flat = np.frombuffer(b.data, np.uint8).reshape(n, -1)
        if not parts:
            return EncodedValues(fsl_codec(block), FixedWidthBlock(b.data, 8 * flat.shape[1], n))
        joined = np.concatenate([*parts, flat], axis=1)
        return EncodedValues(fsl_codec(block), FixedWidthBlock(pa.py_buffer(joined), 8 * joined.shape[1], n))
    codec = Flat(block.bits_per_value) if isinstance(block, FixedWidthBlock) else Variable(block.bits_per_offset)
    return EncodedValues(codec, block)


def encode_level_blocks(levels, counts):
    width = int(levels.max()).bit_length() if len(levels) else 0
    sizes = counts * 2
    return EncodedBlocks(Flat(16), Chunks(pa.py_buffer(levels), np.cumsum(sizes) - sizes, sizes, counts))


# ---- layouts
from lance_spark.layouts.level_chunks import LevelChunks  # noqa: E402


def proto(encoding):
    return None if encoding is None else encoding.to_proto()


def encode_mini_block(levels, values, dictionary, *, large_chunks):
    num_values = values.num_values
    per_chunk = LevelChunks.of(levels, num_values)
    encoded = {
        name: encode_level_blocks(array, per_chunk.num_levels)
        for name, array in (("rep_compression", levels.reps), ("def_compression", levels.defs))
        if array is not None
    }
    level_buffers = [blocks.chunks for blocks in encoded.values()]
    sizes = chunk_sizes(level_buffers, values.buffers, large_chunks=large_chunks)
    words = chunk_words(sizes, num_values, large_chunks=large_chunks)
    chunks = write_chunks(
        per_chunk.num_levels if encoded else None, level_buffers, values.buffers, sizes, large_chunks=large_chunks
    )
    index = per_chunk.repetition_index(levels)
    buffers = [words, chunks]
    if dictionary is not None:
        buffers.append(dictionary.data)
    if index is not None:
        buffers.append(index)
    layout = pb.MiniBlockLayout(
        value_compression=values.encoding.to_proto(),
        layers=[int(layer) for layer in levels.scheme.layers],
        num_buffers=len(values.buffers),
        repetition_index_depth=0 if index is None else 1,
        num_items=levels.num_visible_items,
        has_large_chunk=large_chunks,
        **{name: blocks.encoding.to_proto() for name, blocks in encoded.items()},
    )
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary.encoding.to_proto())
        layout.num_dictionary_items = dictionary.num_values
    return pb.PageLayout(mini_block_layout=layout), buffers


from lance_spark.kernels import full_zip_encode as zip_kernels  # noqa: E402


def _addr(a):
    return 0 if a is None else address_of(a)


def encode_full_zip(levels, values):
    scheme = levels.scheme
    bits_rep = scheme.max_rep.bit_length()
    bits_def = 0 if levels.defs is None else scheme.max_def.bit_length()
    bits = bits_rep + bits_def
    control = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    block = values.block
    fixed = isinstance(block, FixedWidthBlock)
    indexed = not fixed or levels.reps is not None
    starts = np.empty(levels.num_rows + 1, np.int64) if indexed else None
    head = (
        _addr(levels.reps),
        _addr(levels.defs),
        levels.num_items,
        scheme.max_rep,
        scheme.max_visible_def,
        bits_def,
        control,
    )
    if fixed and control == 0:
        data = block.data
    elif fixed:
        width = block.bits_per_value // 8
        data = pa.allocate_buffer(levels.num_items * control + block.num_values * width)
        n = zip_kernels.zip_fixed(*head, block.data.address, width, _addr(starts), data.address)
        assert n == data.size
    else:
        ob = block.bits_per_offset // 8
        data = pa.allocate_buffer(levels.num_items * control + block.num_values * ob + block.data.size)
        n = zip_kernels.zip_variable(*head, block.offsets.address, ob, block.data.address, _addr(starts), data.address)
        data = data.slice(0, n)
    buffers = [data]
    if starts is not None:
        kind = next(k for k in ("<u1", "<u2", "<u4", "<u8") if data.size <= np.iinfo(k).max)
        buffers.append(pa.py_buffer(starts.astype(kind)))
    layout = pb.FullZipLayout(
        bits_rep=bits_rep,
        bits_def=bits_def,
        num_items=levels.num_items,
        num_visible_items=levels.num_visible_items,
        value_compression=values.encoding.to_proto(),
        layers=[int(layer) for layer in scheme.layers],
        **({"bits_per_value": block.bits_per_value} if fixed else {"bits_per_offset": block.bits_per_offset}),
    )
    return pb.PageLayout(full_zip_layout=layout), buffers


def encode_constant(levels, *, inline_value=None, value_buffer=None):
    buffers = [] if value_buffer is None else [value_buffer]
    layout = pb.ConstantLayout(layers=[int(layer) for layer in levels.scheme.layers], inline_value=inline_value)
    no_value = inline_value is None and value_buffer is None
    if levels.reps is not None or (levels.defs is not None and not (no_value and len(levels.scheme.layers) == 1)):
        buffers += [pa.py_buffer(b"" if a is None else a) for a in (levels.reps, levels.defs)]
    return pb.PageLayout(constant_layout=layout), buffers
