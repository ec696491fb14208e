"""XXH64 with seed 0, for the few values that a query looks for in Bloom filters.

>>> hex(xxhash64(b"")), hex(xxhash64(b"abc"))
('0xef46db3751d8e999', '0x44bc2cf5ad770999')
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_P1, _P2, _P3, _P4, _P5 = _PRIMES
_STRIPE = struct.Struct("<4Q")


def xxhash64(data: bytes) -> int:
    """The 64-bit hash of `data`."""
    position = 0
    if len(data) >= _STRIPE.size:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while position + _STRIPE.size <= len(data):
            stripe = _STRIPE.unpack_from(data, position)
            lanes = [_round(lane, value) for lane, value in zip(lanes, stripe, strict=True)]
            position += _STRIPE.size
        hash_ = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            hash_ = ((hash_ ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        hash_ = _P5
    return _finished((hash_ + len(data)) & _MASK, data[position:])


def _finished(hash_: int, rest: bytes) -> int:
    """The hash after the last bytes, fewer than 32."""
    position = 0
    while position + 8 <= len(rest):
        value = int.from_bytes(rest[position : position + 8], "little")
        hash_ = (_rotated(hash_ ^ _round(0, value), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= len(rest):
        value = int.from_bytes(rest[position : position + 4], "little")
        hash_ = (_rotated(hash_ ^ (value * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in rest[position:]:
        hash_ = _rotated(hash_ ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    hash_ = (hash_ ^ hash_ >> 33) * _P2 & _MASK
    hash_ = (hash_ ^ hash_ >> 29) * _P3 & _MASK
    return hash_ ^ hash_ >> 32


def _round(lane: int, value: int) -> int:
    return _rotated((lane + value * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK
