"""Operations on raw addresses in kernels: pointers, byte copies, and vector operations on rows of bits.

Imported by `kernels.jit` only at the first compilation, since it needs numba at import time. Nothing here is checked:
that is up to the calling kernel.

* ``pointer_u8(address)`` and its siblings: pointers that can be indexed.
* ``copy_bytes(target, source, length)``: C's memcpy.
* ``prefetch(address)``: asks for the cache line of an address, which need not be valid.
* ``unpack_row`` and the other row functions work on a *row* of 1024 bits (16 u64 words, any alignment) as one LLVM
  vector, so that the machine's widest registers are used independent of the loop vectorizer.
* ``levels_up_to``: comparisons of 64 words of 16 bits, as bits.
* ``unpack_lanes``: numbers of 4 lanes, which the loop vectorizer would compute one by one.
* ``near_of_panel``: integer products of 6 vectors with 16, which the loop vectorizer would compute in words twice as
  wide, and their comparison.
* ``squared_difference_of_bytes``: of two rows of bytes, in words of 16 bits.
* ``products_of_short_rows``, ``products_of_long_rows``: products of 8 rows of bytes with words of 16 bits.
* ``products_of_panel``: the same of 16 rows that lie side by side, in pairs of bytes.
* ``bits_of_panel``: products of 8 rows of bits with numbers of 8 bits, by counting bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_ROW = ir.VectorType(ir.IntType(64), 16)


def _pointer_to(element: Any) -> Any:
    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return pointer


@intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, length: Any) -> Any:
    """memcpy(target, source, length); the two must not overlap."""
    signature = types.void(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source, length = arguments
        cgutils.raw_memcpy(builder, builder.inttoptr(target, byte), builder.inttoptr(source, byte), length, 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Asks the machine for the cache line of an address that is read soon; any address is allowed."""
    signature = types.void(types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        request = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        # For reading, to be kept in all caches, of data.
        builder.call(request, [builder.inttoptr(arguments[0], byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


def _load_row(builder: Any, address: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, _ROW.as_pointer()))
    loaded.align = 1
    return loaded


def _store_row(builder: Any, row: Any, address: Any) -> None:
    stored = builder.store(row, builder.inttoptr(address, _ROW.as_pointer()))
    stored.align = 1


def _splat(builder: Any, word: Any) -> Any:
    one = builder.insert_element(ir.Constant(_ROW, ir.Undefined), word, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16)
    return builder.shuffle_vector(one, ir.Constant(_ROW, ir.Undefined), zeros)


@intrinsic
def unpack_row(typing_context: Any, source: Any, shift: Any, mask: Any, target: Any) -> Any:
    """target = (source >> shift) & mask, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, shift, mask, target = arguments
        row = builder.lshr(_load_row(builder, source), _splat(builder, shift))
        _store_row(builder, builder.and_(row, _splat(builder, mask)), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def unpack_split_row(
    typing_context: Any, source: Any, shift: Any, low: Any, high_shift: Any, high: Any, target: Any
) -> Any:
    """target = ((source[0:16] >> shift) & low) | ((source[16:32] & high) << high_shift); shifts < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, shift, low, high_shift, high, target = arguments
        first = builder.lshr(_load_row(builder, source), _splat(builder, shift))
        second = _load_row(builder, builder.add(source, source.type(128)))
        second = builder.shl(builder.and_(second, _splat(builder, high)), _splat(builder, high_shift))
        _store_row(builder, builder.or_(builder.and_(first, _splat(builder, low)), second), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pack_row(typing_context: Any, source: Any, low: Any, shift: Any, target: Any) -> Any:
    """target |= (source & low) << shift, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, low, shift, target = arguments
        row = builder.and_(_load_row(builder, source), _splat(builder, low))
        row = builder.shl(row, _splat(builder, shift))
        _store_row(builder, builder.or_(_load_row(builder, target), row), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pack_high_row(typing_context: Any, source: Any, high: Any, shift: Any, target: Any) -> Any:
    """target |= (source & high) >> shift, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, high, shift, target = arguments
        row = builder.and_(_load_row(builder, source), _splat(builder, high))
        row = builder.lshr(row, _splat(builder, shift))
        _store_row(builder, builder.or_(_load_row(builder, target), row), target)
        return context.get_dummy_value()

    return signature, generate


_LEVELS = ir.VectorType(ir.IntType(16), 64)


@intrinsic
def levels_up_to(typing_context: Any, levels: Any, bound: Any) -> Any:
    """Bit k of the result is set if levels[k] <= bound, for uint16[64] at any address; `bound` < 65536."""
    signature = types.uint64(types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        levels, bound = arguments
        loaded = builder.load(builder.inttoptr(levels, _LEVELS.as_pointer()))
        loaded.align = 1
        one = builder.trunc(bound, ir.IntType(16))
        one = builder.insert_element(ir.Constant(_LEVELS, ir.Undefined), one, ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        bounds = builder.shuffle_vector(one, ir.Constant(_LEVELS, ir.Undefined), places)
        return builder.bitcast(builder.icmp_unsigned("<=", loaded, bounds), ir.IntType(64))

    return signature, generate


_WORD = ir.IntType(32)
_WORDS = ir.VectorType(_WORD, 16)
_PAIRS = ir.VectorType(ir.IntType(16), 32)
_FLOATS = ir.VectorType(ir.FloatType(), 16)
_QUERIES = 6


def _load_pairs(builder: Any, address: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, _PAIRS.as_pointer()))
    loaded.align = 4
    return loaded


def _repeated_pair(builder: Any, address: Any) -> Any:
    word = builder.load(builder.inttoptr(address, _WORD.as_pointer()))
    word.align = 4
    one = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), word, _WORD(0))
    words = builder.shuffle_vector(one, ir.Constant(_WORDS, ir.Undefined), ir.Constant(_WORDS, [0] * 16))
    return builder.bitcast(words, _PAIRS)


def _plus_products(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """total + the sum of both products of each pair, in the form that LLVM knows as one instruction."""
    wide = ir.VectorType(_WORD, 32)
    products = builder.mul(builder.sext(left, wide), builder.sext(right, wide))
    nothing = ir.Constant(wide, ir.Undefined)
    first = builder.shuffle_vector(products, nothing, ir.Constant(_WORDS, list(range(0, 32, 2))))
    second = builder.shuffle_vector(products, nothing, ir.Constant(_WORDS, list(range(1, 32, 2))))
    return builder.add(total, builder.add(first, second))


def _repeated(builder: Any, address: Any) -> Any:
    """A float32 in each of 16 places."""
    return builder.bitcast(_repeated_pair(builder, address), _FLOATS)


_LANES = ir.VectorType(_WORD, 4)


@intrinsic
def unpack_lanes(typing_context: Any, data: Any, place: Any, width: Any, num_lanes: Any, out: Any, first: Any) -> Any:
    """Unpacks 32 numbers of each of 4 lanes of 32-bit words, lowest bits first.

    Word w of lane l is at byte ``place + 4 * (num_lanes * w + l)`` of `data` (uint8, at any address), number i of it
    goes to ``out[first + num_lanes * i + l]`` (int32). Of each lane `width` words are read, 1 to 32.
    """
    signature = types.void(data, types.int64, types.int64, types.int64, out, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place, width, num_lanes, out, first = arguments
        number, stride = place.type, builder.shl(num_lanes, place.type(2))
        source, target = builder.gep(data, [place]), builder.gep(out, [first])
        every, nothing = ir.Constant(_LANES, [0] * 4), ir.Constant(_LANES, ir.Undefined)

        def repeated(value: Any) -> Any:
            one = builder.insert_element(nothing, builder.trunc(value, _WORD), _WORD(0))
            return builder.shuffle_vector(one, nothing, every)

        def words(bit: Any) -> Any:
            at = builder.gep(source, [builder.mul(builder.lshr(bit, number(5)), stride)])
            loaded = builder.load(builder.bitcast(at, _LANES.as_pointer()))
            loaded.align = 1
            return loaded

        mask = repeated(builder.sub(builder.shl(number(1), width), number(1)))
        form = ir.FunctionType(_LANES, [_LANES] * 3)
        shift = cgutils.get_or_insert_function(builder.module, form, "llvm.fshr.v4i32")
        with cgutils.for_range(builder, number(32), intp=number) as loop:
            bit = builder.mul(loop.index, width)
            # The words with the first and the last bit of the numbers, often the same ones.
            both = words(builder.sub(builder.add(bit, width), number(1))), words(bit)
            values = builder.and_(builder.call(shift, [*both, repeated(bit)]), mask)
            at = builder.gep(target, [builder.mul(loop.index, num_lanes)])
            builder.store(values, builder.bitcast(at, _LANES.as_pointer())).align = 4
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def near_of_panel(
    typing_context: Any,
    rows: Any,
    row_terms: Any,
    term_bytes: Any,
    queries: Any,
    num_pairs: Any,
    query_terms: Any,
    query_term_bytes: Any,
    target: Any,
) -> Any:
    """Bit r of the result is set if row r is near to one of 6 queries: if low[r] - scale[r] * (product * scale[q] +
    error[q]) <= bound[q].

    The product of query q and row r is the sum of rows[i, r, :] * queries[q, i, :], int32, which wraps around. It is
    stored at target[q, r], and bits of each query, int32, at target[6, q].

    `rows` is int16[num_pairs, 16, 2], `queries` int16[6, num_pairs, 2], `num_pairs` positive. `row_terms` are
    float32[2, 16] (scale, low), `query_terms` float32[3, 6] (scale, error, bound), each with the distance between two
    of the first axis in bytes.
    """
    signature = types.int64(*[types.int64] * 8)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, row_terms, term_bytes, queries, num_pairs, query_terms, query_term_bytes, target = arguments
        products = _products(builder, rows, queries, num_pairs)
        scale = builder.bitcast(_load_pairs(builder, row_terms), _FLOATS)
        low = builder.bitcast(_load_pairs(builder, builder.add(row_terms, term_bytes)), _FLOATS)
        together: Any = _WORD(0)
        for number, total in enumerate(products):
            at = builder.add(query_terms, rows.type(number * 4))
            error_at = builder.add(at, query_term_bytes)
            bound_at = builder.add(error_at, query_term_bytes)
            product = builder.fmul(builder.sitofp(total, _FLOATS), _repeated(builder, at))
            product = builder.fadd(product, _repeated(builder, error_at))
            least = builder.fsub(low, builder.fmul(scale, product))
            near = builder.fcmp_ordered("<=", least, _repeated(builder, bound_at))
            bits = builder.zext(builder.bitcast(near, ir.IntType(16)), _WORD)
            together = builder.or_(together, bits)
            place = builder.add(target, rows.type(number * 64))
            builder.store(total, builder.inttoptr(place, _WORDS.as_pointer())).align = 4
            place = builder.add(target, rows.type(6 * 64 + number * 4))
            builder.store(bits, builder.inttoptr(place, _WORD.as_pointer())).align = 4
        return builder.zext(together, rows.type)

    return signature, generate


def _products(builder: Any, rows: Any, queries: Any, num_pairs: Any) -> list[Any]:
    """For each query a vector of 16 products, in the block where the builder then is."""
    number, before = rows.type, builder.block
    loop, after = builder.append_basic_block("pairs"), builder.append_basic_block("products")
    query_bytes = builder.mul(num_pairs, number(4))
    builder.branch(loop)
    builder.position_at_end(loop)
    pair, totals = builder.phi(number), [builder.phi(_WORDS) for _ in range(_QUERIES)]
    loaded = _load_pairs(builder, builder.add(rows, builder.mul(pair, number(64))))
    wanted = builder.add(queries, builder.mul(pair, number(4)))
    sums = []
    for total in totals:
        sums.append(_plus_products(builder, total, loaded, _repeated_pair(builder, wanted)))
        wanted = builder.add(wanted, query_bytes)
    following = builder.add(pair, number(1))
    starts = [number(0), *[_WORDS([0] * 16)] * _QUERIES]
    for variable, start, end in zip([pair, *totals], starts, [following, *sums], strict=True):
        variable.add_incoming(start, before)
        variable.add_incoming(end, loop)
    builder.cbranch(builder.icmp_signed("<", following, num_pairs), loop, after)
    builder.position_at_end(after)
    return sums


_BYTES = ir.VectorType(ir.IntType(8), 32)


@intrinsic
def squared_difference_of_bytes(typing_context: Any, one: Any, other: Any, num_bytes: Any) -> Any:
    """The sum of (one[i] - other[i]) ** 2, of bytes at any address; int32, which wraps around.

    `num_bytes` is a positive multiple of 32.
    """
    signature = types.int64(*[types.int64] * 3)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *rows, num_bytes = arguments
        number, before = num_bytes.type, builder.block
        loop, after = builder.append_basic_block("bytes"), builder.append_basic_block("difference")
        builder.branch(loop)
        builder.position_at_end(loop)
        place, total = builder.phi(number), builder.phi(_WORDS)
        loaded = []
        for row in rows:
            data = builder.load(builder.inttoptr(builder.add(row, place), _BYTES.as_pointer()))
            data.align = 1
            loaded.append(builder.zext(data, _PAIRS))
        difference = builder.sub(*loaded)
        following, added = builder.add(place, number(32)), _plus_products(builder, total, difference, difference)
        for variable, start, end in ((place, number(0), following), (total, _WORDS([0] * 16), added)):
            variable.add_incoming(start, before)
            variable.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, num_bytes), loop, after)
        builder.position_at_end(after)
        form = ir.FunctionType(_WORD, [_WORDS])
        reduced = cgutils.get_or_insert_function(builder.module, form, "llvm.vector.reduce.add.v16i32")
        return builder.sext(builder.call(reduced, [added]), number)

    return signature, generate


def _products_of_rows(at_once: int) -> Any:
    """Products of 8 rows with words, of `at_once` rows side by side."""

    @intrinsic
    def products(typing_context: Any, rows: Any, row_bytes: Any, words: Any, last_words: Any, target: Any) -> Any:
        """target[r] = sum of rows[r, i] * words[i], int32, which wraps around.

        `rows` is uint8[8, row_bytes] at any address, `words` int16[row_bytes]; `row_bytes` is at least 32. The last 32
        bytes of a row overlap those before; they are multiplied by `last_words`, int16[32].
        """
        signature = types.void(*[types.int64] * 5)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, row_bytes, words, last_words, target = arguments
            number = rows.type
            starts = [builder.add(rows, builder.mul(row_bytes, number(row))) for row in range(8)]
            totals = [cgutils.alloca_once_value(builder, _WORDS([0] * 16)) for _ in starts]
            last = builder.sub(row_bytes, number(32))
            num_chunks = builder.udiv(builder.add(last, number(31)), number(32))
            for first in range(0, 8, at_once):
                some = [*zip(totals, starts, strict=True)][first : first + at_once]
                with cgutils.for_range(builder, num_chunks, intp=number) as loop:
                    place = builder.mul(loop.index, number(32))
                    words_at = builder.add(words, builder.mul(place, number(2)))
                    for total, start in some:
                        _add_products(builder, total, builder.add(start, place), words_at)
                for total, start in some:
                    _add_products(builder, total, builder.add(start, last), last_words)
            sums = _sum_of_each(builder, [builder.load(total) for total in totals])
            builder.store(sums, builder.inttoptr(target, sums.type.as_pointer())).align = 4
            return context.get_dummy_value()

        return signature, generate

    return products


def _add_products(builder: Any, total: Any, codes: Any, words: Any) -> None:
    """Adds the products of 32 bytes and words to the vector at `total`."""
    data = builder.load(builder.inttoptr(codes, _BYTES.as_pointer()))
    data.align = 1
    both = _plus_products(builder, builder.load(total), builder.zext(data, _PAIRS), _load_pairs(builder, words))
    builder.store(both, total)


_FOLDS = (
    ([0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29], 2),
    ([0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29], 2),
    ([0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23], 8),
    ([0, 1, 2, 3, 8, 9, 10, 11], 4),
)
"""Lanes of two vectors side by side, and how far the lanes that are added to them are behind them."""


def _sum_of_each(builder: Any, vectors: list[Any]) -> Any:
    """A vector of the sums of 8 vectors of 16 lanes: two of them become one with half as many lanes of each."""
    vectors = [*vectors, ir.Constant(_WORDS, ir.Undefined)]
    for lanes, step in _FOLDS:
        masks = [ir.Constant(ir.VectorType(_WORD, len(lanes)), [lane + more for lane in lanes]) for more in (0, step)]
        pairs = zip(vectors[:-1:2], vectors[1::2], strict=True)
        vectors = [builder.add(*[builder.shuffle_vector(*pair, mask) for mask in masks]) for pair in pairs]
        vectors.append(ir.Constant(_WORDS, ir.Undefined))
    return vectors[0]


@intrinsic
def products_of_panel(typing_context: Any, rows: Any, wanted: Any, num_pairs: Any, target: Any) -> Any:
    """target[r] = sum of rows[i, r, :] * wanted[i, :], int32, which wraps around.

    `rows` is uint8[num_pairs, 16, 2] at any address, `wanted` int16[num_pairs, 2]; `num_pairs` is a positive multiple
    of 4: sums of every fourth pair do not wait for each other.
    """
    signature = types.void(*[types.int64] * 4)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, wanted, num_pairs, target = arguments
        number, before = rows.type, builder.block
        loop, after = builder.append_basic_block("pairs"), builder.append_basic_block("products")
        builder.branch(loop)
        builder.position_at_end(loop)
        pair, totals, sums = builder.phi(number), [builder.phi(_WORDS) for _ in range(4)], []
        for place, total in enumerate(totals):
            at = builder.add(pair, number(place))
            data = builder.load(builder.inttoptr(builder.add(rows, builder.mul(at, number(32))), _BYTES.as_pointer()))
            data.align = 1
            both = _repeated_pair(builder, builder.add(wanted, builder.mul(at, number(4))))
            sums.append(_plus_products(builder, total, builder.zext(data, _PAIRS), both))
        following = builder.add(pair, number(4))
        starts = [number(0), *[_WORDS([0] * 16)] * 4]
        for variable, start, end in zip([pair, *totals], starts, [following, *sums], strict=True):
            variable.add_incoming(start, before)
            variable.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, num_pairs), loop, after)
        builder.position_at_end(after)
        total = builder.add(builder.add(sums[0], sums[1]), builder.add(sums[2], sums[3]))
        builder.store(total, builder.inttoptr(target, _WORDS.as_pointer())).align = 4
        return context.get_dummy_value()

    return signature, generate


_LONG = ir.IntType(64)
_LONGS = ir.VectorType(_LONG, 8)
_PLANES = 8


@intrinsic
def bits_of_panel(typing_context: Any, rows: Any, num_words: Any, planes: Any, sums: Any, counts: Any) -> Any:
    """sums[r] = the sum of the numbers at the places of the bits of row r, counts[r] = how many bits these are.

    `rows` is uint64[num_words, 8], `planes` uint64[num_words, 8]: bit b of the numbers of 64 places is at [., b];
    `num_words` is positive. `sums` and `counts` are int64[8].
    """
    signature = types.void(*[types.int64] * 5)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, num_words, planes, *targets = arguments
        *totals, ones = _counted_bits(builder, rows, num_words, planes)
        total = totals[0]
        for bit, counted in enumerate(totals[1:], 1):
            total = builder.add(total, builder.shl(counted, _LONGS([bit] * 8)))
        for target, found in zip(targets, (total, ones), strict=True):
            builder.store(found, builder.inttoptr(target, _LONGS.as_pointer())).align = 8
        return context.get_dummy_value()

    return signature, generate


def _counted_bits(builder: Any, rows: Any, num_words: Any, planes: Any) -> list[Any]:
    """For each plane, and for all bits, a vector of 8 counts, in the block where the builder then is."""
    number, before = rows.type, builder.block
    loop, after = builder.append_basic_block("words"), builder.append_basic_block("counts")
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_LONGS, [_LONGS]), "llvm.ctpop.v8i64")
    builder.branch(loop)
    builder.position_at_end(loop)
    word, totals = builder.phi(number), [builder.phi(_LONGS) for _ in range(_PLANES + 1)]
    at = builder.mul(word, number(64))
    bits = builder.load(builder.inttoptr(builder.add(rows, at), _LONGS.as_pointer()))
    bits.align = 8
    sums = []
    for plane, total in enumerate(totals[:-1]):
        place = builder.add(planes, builder.add(at, number(plane * 8)))
        chosen = builder.load(builder.inttoptr(place, _LONG.as_pointer()))
        one = builder.insert_element(ir.Constant(_LONGS, ir.Undefined), chosen, _WORD(0))
        places = ir.Constant(ir.VectorType(_WORD, 8), [0] * 8)
        repeated = builder.shuffle_vector(one, ir.Constant(_LONGS, ir.Undefined), places)
        sums.append(builder.add(total, builder.call(count, [builder.and_(bits, repeated)])))
    sums.append(builder.add(totals[-1], builder.call(count, [bits])))
    following = builder.add(word, number(1))
    starts = [number(0), *[_LONGS([0] * 8)] * len(totals)]
    for variable, start, end in zip([word, *totals], starts, [following, *sums], strict=True):
        variable.add_incoming(start, before)
        variable.add_incoming(end, loop)
    builder.cbranch(builder.icmp_signed("<", following, num_words), loop, after)
    builder.position_at_end(after)
    return sums


_ELEMENTS = {
    "u8": types.uint8,
    "u16": types.uint16,
    "u32": types.uint32,
    "u64": types.uint64,
    "i8": types.int8,
    "i16": types.int16,
    "i32": types.int32,
    "i64": types.int64,
    "f32": types.float32,
    "f64": types.float64,
}

FUNCTIONS = {f"pointer_{name}": _pointer_to(element) for name, element in _ELEMENTS.items()} | {
    "copy_bytes": copy_bytes,
    "prefetch": prefetch,
    "unpack_row": unpack_row,
    "unpack_split_row": unpack_split_row,
    "levels_up_to": levels_up_to,
    "unpack_lanes": unpack_lanes,
    "pack_row": pack_row,
    "pack_high_row": pack_high_row,
    "near_of_panel": near_of_panel,
    "squared_difference_of_bytes": squared_difference_of_bytes,
    # Long rows side by side are read from memory at half the speed, short ones one by one take half as long again.
    "products_of_short_rows": _products_of_rows(8),
    "products_of_long_rows": _products_of_rows(1),
    "products_of_panel": products_of_panel,
    "bits_of_panel": bits_of_panel,
}
