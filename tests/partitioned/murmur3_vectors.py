"""Vectors of the hash functions: what every implementation of `murmur3` and `murmur3_multi` must give.

`murmur3_vectors.json` holds rows `{"types", "values", "bytes", "hash", "bucket_16"}`: Arrow types and values of one or
more columns (text; null for NULL), the hexadecimal bytes that are hashed, the signed hash of the mmh3 package, and
`abs(hash) % 16`. `python -m tests.partitioned.murmur3_vectors` writes it again.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import mmh3

PATH = Path(__file__).with_name("murmur3_vectors.json")
_LONG = 2**63


def integer(text: str) -> bytes:
    number = int(text)
    return (number if number < _LONG else number - 2 * _LONG).to_bytes(8, "little", signed=True)


def floating(text: str) -> bytes:
    number = float(text)
    return bytes.fromhex("000000000000f87f") if math.isnan(number) else struct.pack("<d", number + 0.0)


def decimal(text: str) -> bytes:
    sign, digits, exponent = Decimal(text).as_tuple()
    while exponent < 0 and digits[-1] == 0:
        digits, exponent = digits[:-1] or (0,), exponent + 1
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return number.to_bytes(8 if -_LONG <= number < _LONG else 16, "little", signed=True)


def micros_of(per_micro: int, micros: int) -> Callable[[str], bytes]:
    return lambda text: (int(text) * micros // per_micro).to_bytes(8, "little", signed=True)


FORMS: dict[str, Callable[[str], bytes]] = {
    **dict.fromkeys(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"], integer),
    "bool": lambda text: integer(str(int(text == "true"))),
    "float16": floating,
    "float32": floating,
    "float64": floating,
    "decimal128(10, 2)": decimal,
    "decimal128(10, 4)": decimal,
    "decimal128(38, 2)": decimal,
    "string": str.encode,
    "large_string": str.encode,
    "binary": bytes.fromhex,
    "date32": integer,
    "timestamp(s)": micros_of(1, 1_000_000),
    "timestamp(ms)": micros_of(1, 1000),
    "timestamp(us)": micros_of(1, 1),
    "timestamp(ns)": micros_of(1000, 1),
    "timestamp(us, UTC)": micros_of(1, 1),
    "time64(us)": micros_of(1, 1),
    "time32(ms)": micros_of(1, 1000),
    "duration(ns)": micros_of(1000, 1),
}
"""The bytes of a value by type; temporal values are written as counts of their unit since 1970-01-01."""

SINGLES: list[tuple[str, list[str | None]]] = [
    ("int8", ["0", "1", "-1", "5", "34", "-128", "127", None]),
    ("int16", ["5", "-32768"]),
    ("int32", ["5", "34", "2147483647", "-2147483648"]),
    ("int64", ["5", "34", "9223372036854775807", "-9223372036854775808", "1000000000000"]),
    ("uint8", ["5", "255"]),
    ("uint32", ["5", "4294967295"]),
    ("uint64", ["5", "18446744073709551615"]),
    ("bool", ["true", "false", None]),
    ("float32", ["0.0", "-0.0", "1.0", "0.5", "nan", "inf", "-inf"]),
    ("float64", ["0.0", "-0.0", "1.0", "0.1", "nan", "inf", "-inf", "5e-324", "1.7976931348623157e308"]),
    ("decimal128(10, 2)", ["1.50", "5.00", "0.00", "-0.50", "14.20", "100.00", None]),
    ("decimal128(10, 4)", ["1.5000", "5.0000", "-0.5000"]),
    ("decimal128(38, 2)", ["123456789012345678901234567890.10", "-123456789012345678901234567890.00"]),
    ("string", ["", "a", "ab", "abc", "abcd", "abcde", "iceberg", "Grüße", "👍", "\0", "x" * 100, None]),
    ("large_string", ["iceberg"]),
    ("binary", ["", "00", "000102", "00010203", "ffffffffff", None]),
    ("date32", ["0", "-1", "17486", "20432"]),
    ("timestamp(s)", ["1510871468", "-1"]),
    ("timestamp(ms)", ["1510871468000", "-1"]),
    ("timestamp(us)", ["1510871468000000", "-1", "1510871468000001"]),
    ("timestamp(ns)", ["1510871468000000000", "-1", "1510871468000001001"]),
    ("timestamp(us, UTC)", ["1510871468000000", None]),
    ("time64(us)", ["81068000000"]),
    ("time32(ms)", ["81068000"]),
    ("duration(ns)", ["1000", "-1"]),
]

MULTIPLES: list[tuple[list[str], list[str | None]]] = [
    (["int64", "string"], ["5", "a"]),
    (["int8", "large_string"], ["5", "a"]),
    (["int64", "string"], [None, "a"]),
    (["int64", "string"], ["5", None]),
    (["int64", "string"], [None, None]),
    (["string", "int64"], ["abc", "5"]),
    (["string", "string"], ["ab", "c"]),
    (["string", "string"], ["a", "bc"]),
    (["string", "int32", "string", "float64"], ["iceberg", "-1", "Grüße", "-0.0"]),
    (["binary", "date32", "bool"], ["010203", "17486", "true"]),
]


def vector(types: list[str], values: list[str | None]) -> dict[str, Any]:
    known = [FORMS[type_](value) for type_, value in zip(types, values, strict=True) if value is not None]
    data = b"".join(known)
    hash_ = mmh3.hash(data, 0, signed=True) if known else None
    bucket = None if hash_ is None else abs(hash_) % 16
    return {"types": types, "values": values, "bytes": data.hex(), "hash": hash_, "bucket_16": bucket}


def vectors() -> list[dict[str, Any]]:
    singles = [vector([type_], [value]) for type_, values in SINGLES for value in values]
    return singles + [vector(types, values) for types, values in MULTIPLES]


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in vectors())
    PATH.write_text(f"[\n{lines}\n]\n")
