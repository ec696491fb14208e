"""Work of tables of many columns grows with the number of columns, not with its square. Counts, no seconds."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import FieldFinder, find, project
from lance_spark.table.manifests.manifest import Manifest

FEW, MANY = 150, 600
_numbers = itertools.count()


def steps(work: Callable[[], object]) -> int:
    """Bytecode instructions of this package that `work` runs: a loop inside of a comprehension counts as well."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if "lance_spark" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def rows(columns: int) -> pa.Table:
    return pa.table({f"c{number}": pa.array([number, number + 1], pa.int32()) for number in range(columns)})


def stored(columns: int) -> lance_spark.Dataset:
    return lance_spark.write(rows(columns), f"memory://columns-{next(_numbers)}")


def _filter(columns: int) -> str:
    return " AND ".join(f"c{number} >= 0" for number in range(0, columns, 10))


def _names(columns: int) -> list[str]:
    return [f"c{number}" for number in range(columns)]


Work = Callable[[lance_spark.Dataset, int], object]
WORK: dict[str, Work] = {
    "write": lambda table, columns: lance_spark.write(rows(columns), f"{table.uri}-2"),
    "append": lambda table, columns: lance_spark.write(rows(columns), table.uri, mode="append"),
    "open": lambda table, columns: lance_spark.open(table.uri),
    "read": lambda table, columns: table.to_table(),
    "read named columns": lambda table, columns: table.to_table(columns=_names(columns)),
    "filter": lambda table, columns: table.to_table(filter=f"c{columns - 1} > 5"),
    "many filters": lambda table, columns: table.to_table(columns=["c0"], filter=_filter(columns)),
    "take": lambda table, columns: table.take([1]),
    "update": lambda table, columns: table.update({"c1": "c2 + 1"}),
    "update all": lambda table, columns: table.update(dict.fromkeys(_names(columns), 1)),
    "merge": lambda table, columns: table.merge(rows(columns), on="c5"),
    "rename": lambda table, columns: table.rename_columns({name: f"x{name}" for name in _names(columns)}),
    "reorder": lambda table, columns: table.reorder_columns(_names(columns)[::-1]),
    "drop": lambda table, columns: table.drop_columns(_names(columns)[1:]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_steps_grow_with_the_columns(name: str) -> None:
    few, many = stored(FEW), stored(MANY)
    WORK[name](stored(20), 20)  # Kernels are compiled and modules imported by then.
    counts = [steps(lambda table=table, n=n: WORK[name](table, n)) for table, n in ((few, FEW), (many, MANY))]
    assert counts[0] > FEW, "nothing was counted"
    # A file of few columns lies in the end that opening reads; of many columns, ranges have to be fetched too.
    assert counts[1] <= 1.15 * MANY / FEW * counts[0], counts


def _manifest(fields: int, *, in_struct: bool) -> table_pb2.Manifest:
    message = table_pb2.Manifest(version=1)
    if in_struct:
        message.fields.add(name="s", id=0, parent_id=-1, logical_type="struct", nullable=True)
    for number in range(int(in_struct), fields):
        parent = 0 if in_struct else -1
        message.fields.add(name=f"f{number}", id=number, parent_id=parent, logical_type="int32", nullable=True)
    return message


@pytest.mark.slow
@pytest.mark.parametrize("in_struct", [False, True])
def test_steps_grow_with_the_fields_of_a_manifest(in_struct: bool) -> None:
    def work(fields: int) -> None:
        manifest = Manifest.from_proto(_manifest(fields, in_struct=in_struct))
        first = "s." if in_struct else ""
        project(manifest.schema, [f"{first}f{number}" for number in range(1, fields)])
        manifest.to_proto()

    counts = [steps(lambda fields=fields: work(fields)) for fields in (1000, 4000)]
    assert counts[1] <= 4.2 * counts[0], counts


def test_finder_finds_what_find_finds() -> None:
    dtype = pa.struct([("x", pa.int32()), ("y.z", pa.struct([("x", pa.int8())]))])
    schema = from_arrow_schema(pa.schema([("a", pa.int32()), ("s", dtype), ("t", pa.int64())]))
    schema = LanceSchema((*schema.fields[:2], replace(schema.fields[2], name="s.x")))
    finder = FieldFinder(schema)
    for path in (("a",), ("s",), ("s", "x"), ("s", "y.z"), ("s", "y.z", "x"), ("s.x",)):
        assert finder.find(path) == find(schema, path)
    assert [finder.names(text) for text in ("a", "s.x", "s.`y.z`.x")] == [("a",), ("s.x",), ("s", "y.z", "x")]
    twice = LanceSchema((schema.fields[0], schema.fields[0]))
    assert FieldFinder(twice).find(("a",))[0] is schema.fields[0]
