"""CPU time of taking random rows, by type and file version, beside the reference library.

    python -m benchmarks.takes [--rows 1000000] [--counts 10 1000] [--versions 2.0 2.1 2.2] [--only WORD] [--more]

`--more` takes values of other types, and asks the writer for other encodings. Tables are written by the reference
library. Both have the table open, and have read from it before. Times are user and system time, the best of several
rounds: of rounds in turn, where each library finds the caches full of what the other has read, and of rounds of one
library after the other.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lance_spark
from benchmarks.columns import alternating, columns

ROUNDS = 30

Column = tuple[Callable[[], pa.Array], dict[str, str]]
"""What makes the values, and the metadata of the field, which asks the writer for an encoding."""

ONLY_IN = {"struct, null": ("2.1", "2.2"), "list<struct>": ("2.1", "2.2"), "map": ("2.2",)}
"""Versions that have a column, where not all do."""


class Values:
    """Random values of a number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.rng = np.random.default_rng(0)
        self._letters = pa.py_buffer(self.rng.integers(97, 123, 64 * rows, dtype=np.uint8))

    def integers(self, high: int = 2**62) -> pa.Array:
        return pa.array(self.rng.integers(0, high, self.rows))

    def bits(self, share: float = 0.1) -> np.ndarray:
        return self.rng.random(self.rows) < share

    def floats(self) -> pa.Array:
        return pa.array(self.rng.random(self.rows, np.float32))

    def words(self) -> pa.Array:
        return pa.array([f"word number {number}" for number in range(800)]).take(self.integers(800))

    def runs(self) -> pa.Array:
        return pa.array(np.repeat(self.rng.integers(0, 2**40, self.rows // 50), 50))

    def fixed_binary(self) -> pa.Array:
        return pa.Array.from_buffers(pa.binary(16), self.rows, [None, self._letters])

    def binary(self, length: int) -> pa.Array:
        """binary[rows] of up to `length` letters."""
        lengths = self.rng.integers(length // 2, length, self.rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.Array.from_buffers(pa.binary(), self.rows, [None, pa.py_buffer(offsets), self._letters])

    def documents(self, length: int, share: int) -> pa.Array:
        """large_binary of that length for one row of `share`."""
        return pa.array([self.rng.bytes(length) for _ in range(self.rows // share)], pa.large_binary())

    def vectors(self, size: int, dtype: type) -> pa.Array:
        items: np.ndarray = self.rng.integers(0, 200, self.rows // 10 * size).astype(dtype)
        return pa.FixedSizeListArray.from_arrays(pa.array(items), size)

    def or_null(self, values: pa.Array) -> pa.Array:
        return pc.if_else(pa.array(self.bits()[: len(values)]), None, values)


def fives(items: pa.Array) -> pa.Array:
    """Lists of five items."""
    return pa.ListArray.from_arrays(np.arange(0, len(items) + 1, 5, dtype=np.int32), items)


def struct(*members: pa.Array, mask: pa.Array | None = None) -> pa.Array:
    return pa.StructArray.from_arrays(list(members), list("abc"[: len(members)]), mask=mask)


def other_types(made: Values) -> dict[str, Column]:
    """Types that `columns` does not have, by name."""
    makers: dict[str, Callable[[], pa.Array]] = {
        "decimal128": lambda: made.integers().cast(pa.decimal128(20, 0)),
        "timestamp": lambda: made.integers(2**50).cast(pa.timestamp("us")),
        "date32, null": lambda: made.or_null(made.integers(20_000).cast(pa.int32()).cast(pa.date32())),
        "uint8": lambda: made.integers(200).cast(pa.uint8()),
        "float16": lambda: made.floats().cast(pa.float16()),
        "large_string": lambda: made.binary(20).cast(pa.large_string()),
        "binary": lambda: made.binary(60),
        "binary, null": lambda: made.or_null(made.binary(20)),
        "binary of 300": lambda: made.documents(300, 10),
        "binary of 10 KB": lambda: made.documents(10_000, 500),
        "fixed binary": made.fixed_binary,
        "dictionary": lambda: made.words().dictionary_encode(),
        "dictionary, null": lambda: made.or_null(made.words()).dictionary_encode(),
        "words, null": lambda: made.or_null(made.words()),
        "list<string>": lambda: fives(made.words()),
        "list<list<int64>>": lambda: fives(fives(made.integers())),
        "list<struct>": lambda: fives(struct(made.integers(), made.words())),
        "list<float32>, null": lambda: made.or_null(fives(made.floats())),
        "map": lambda: pa.MapArray.from_arrays(fives(made.words()).offsets, made.words(), made.integers()),
        "struct, null": lambda: struct(made.integers(), made.integers(1000), mask=pa.array(made.bits())),
        "struct of struct": lambda: struct(struct(made.integers(), made.words()), made.integers(1000)),
        "float32[8]": lambda: made.vectors(8, np.float32),
        "uint8[128]": lambda: made.vectors(128, np.uint8),
        "all null": lambda: pa.nulls(made.rows, pa.int64()),
        "constant": lambda: pa.array(np.full(made.rows, 7)),
        "runs": made.runs,
    }
    return {name: (make, {}) for name, make in makers.items()}


def other_encodings(made: Values) -> dict[str, Column]:
    """Columns whose fields ask for an encoding, by name."""

    def asking(make: Callable[[], pa.Array], **options: str) -> Column:
        return make, {"lance-encoding:" + name.replace("_", "-"): value for name, value in options.items()}

    def packed() -> pa.Array:
        return struct(made.integers(), made.integers(1000).cast(pa.int32()))

    return {
        "packed struct": (packed, {"packed": "true", "lance-encoding:packed": "true"}),
        "int64, rle": asking(made.runs, compression="none", rle_threshold="1.0"),
        "float32, bss": asking(made.floats, compression="lz4", bss="on"),
        "int64, lz4": asking(made.integers, compression="lz4"),
        "int64, zstd": asking(made.integers, compression="zstd"),
        "int64, none": asking(made.integers, compression="none"),
        "string, lz4": asking(made.words, compression="lz4", dict_divisor="100000000"),
        "string, zstd": asking(lambda: made.binary(20), compression="zstd"),
        "string, fsst": asking(lambda: made.binary(40).cast(pa.string()), compression="fsst"),
        "string, full zip": asking(lambda: made.binary(20), structural_encoding="fullzip"),
        "int64, full zip": asking(made.integers, structural_encoding="fullzip"),
        "list, full zip": asking(lambda: fives(made.integers()), structural_encoding="fullzip"),
        "list<string>, zip": asking(lambda: fives(made.words()), structural_encoding="fullzip"),
    }


def measure(path: str, values: pa.Array, count: int) -> list[float]:
    """Our seconds and the reference's, in turn and then by themselves."""
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    indices = np.sort(np.random.default_rng(1).choice(ours.count_rows(), count, replace=False)).tolist()
    expected = values.take(pa.array(indices)).to_pylist()
    assert ours.take(indices)["x"].to_pylist() == expected
    assert theirs.take(indices)["x"].to_pylist() == expected
    runs = {"ours": lambda: ours.take(indices), "theirs": lambda: theirs.take(indices)}
    in_turn = alternating(runs, ROUNDS)
    by_themselves = [alternating({name: run}, ROUNDS)[name] for name, run in runs.items()]
    return [min(seconds) for seconds in (*in_turn.values(), *by_themselves)]


def shown(ours: float, theirs: float) -> str:
    return f"{ours * 1e3:9.2f}{theirs * 1e3:9.2f}{theirs / ours:8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", nargs="+", default=["2.0", "2.1", "2.2"])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--more", action="store_true", help="other types and encodings")
    options = parser.parse_args()
    measured: dict[str, Column] = {name: (make, {}) for name, make in columns(options.rows).items()}
    if options.more:
        made = Values(options.rows)
        measured = {**other_types(made), **other_encodings(made)}
    os.sched_setaffinity(0, {options.core})
    print(f"{'':34}{'in turn':>26}{'by themselves':>28}")
    print(f"{'':34}" + f"{'ours ms':>9}{'ref. ms':>9}{'x ref.':>8}  " * 2)
    for version in options.versions:
        for name, (make, metadata) in measured.items():
            if options.only not in name or version not in ONLY_IN.get(name, (version,)):
                continue
            with tempfile.TemporaryDirectory() as folder:
                path, values = str(Path(folder) / "x.lance"), make()
                schema = pa.schema([pa.field("x", values.type, metadata=metadata)])
                lance.write_dataset(pa.table([values], schema=schema), path, data_storage_version=version)
                for count in options.counts:
                    mine, theirs, mine_alone, theirs_alone = measure(path, values, count)
                    print(f"{name:20}{version:>6}{count:>8}", shown(mine, theirs), "", shown(mine_alone, theirs_alone))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
