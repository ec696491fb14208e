"""Strings declared as CHAR(n) or VARCHAR(n) in Spark are not written with more characters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.schema.text_type import TEXT_TYPE
from lance_spark.table.writing.row_pipeline import check_lengths
from tests.table_verbs.kinds import ROWS, SCHEMA, Kind, content, table_of


def declared(name: str, dtype: pa.DataType, text: str) -> pa.Field:
    return pa.field(name, dtype, metadata={TEXT_TYPE: text.encode()})


def test_too_long_strings_are_refused(kind: Kind, dataset: Any) -> None:
    limited = dataset.update_field_metadata({"p": {TEXT_TYPE.decode(): "varchar(2)"}})
    fits, too_long = table_of((6, "é€", 60)), table_of((7, "é€a", 70))
    for verb in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match=r"column 'p' is VARCHAR\(2\), and a value has 3 characters"):
            getattr(limited, verb)(too_long)
    with pytest.raises(InvalidInputError, match=r"VARCHAR\(2\)"):
        limited.merge(too_long, "id")
    with pytest.raises(InvalidInputError, match=r"VARCHAR\(2\)"):
        limited.update({"p": "'abc'"}, "id = 1")
    made = limited.append(fits)
    kind.check(made, [*ROWS, (6, "é€", 60)])
    assert content(limited) == ROWS
    assert made.schema.names == SCHEMA.names


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (declared("c", pa.string(), "char(1)"), ["a", None, "ab"]),
        (declared("c", pa.large_string(), "varchar(1)"), ["a", None, "ab"]),
        (pa.field("c", pa.list_(declared("item", pa.string(), "varchar(1)"))), [["a"], None, ["a", "ab"]]),
        (pa.field("c", pa.struct([declared("x", pa.string(), "varchar(1)")])), [{"x": "a"}, None, {"x": "ab"}]),
        (
            pa.field("c", pa.map_(declared("key", pa.string(), "varchar(1)").with_nullable(False), pa.int32())),
            [[("a", 1)], None, [("ab", 2)]],
        ),
        (
            pa.field("c", pa.map_(pa.int32(), declared("value", pa.string(), "varchar(1)"))),
            [[(1, "a")], None, [(2, "ab")]],
        ),
    ],
)
def test_lengths_are_checked_at_every_level(field: pa.Field, values: list[Any]) -> None:
    array = pa.array(values, field.type)
    check_lengths(array.slice(0, 2), field, "c")
    with pytest.raises(InvalidInputError, match="has 2 characters"):
        check_lengths(array.slice(1), field, "c")
