"""Schemas after changes of columns: ids stay, new ones are new, and what makes no sense is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError
from lance_spark.schema.arrow import from_arrow_field, from_arrow_schema, to_arrow_schema
from lance_spark.schema.evolution import as_nested, is_wider, renamed, reordered, with_added, without
from lance_spark.schema.field import RESERVED_NAMES, LanceSchema

INNER = pa.struct([("x", pa.int32()), ("a.b", pa.string())])
ARROW = pa.schema(
    [
        ("i", pa.int64()),
        ("s", INNER),
        ("l", pa.list_(INNER)),
        ("m", pa.map_(pa.string(), INNER)),
        ("v", pa.list_(pa.float32(), 4)),
    ],
    metadata={"k": "v"},
)
SCHEMA = from_arrow_schema(ARROW)


def ids(schema: LanceSchema) -> dict[str, int]:
    found: dict[str, int] = {}

    def visit(fields, above: str) -> None:  # type: ignore[no-untyped-def]
        for field in fields:
            found[above + field.name] = field.id
            visit(field.children, f"{above}{field.name}/")

    visit(schema.fields, "")
    return found


def test_new_columns_come_last_and_get_new_ids() -> None:
    new = pa.schema([("n", pa.struct([("q", pa.int8())])), ("s", pa.struct([("y", pa.int8())])), ("o", pa.int8())])
    addition = with_added(SCHEMA, new, 100)
    assert addition.schema.names() == ("i", "s", "l", "m", "v", "n", "o")
    before, after = ids(SCHEMA), ids(addition.schema)
    assert {name: after[name] for name in before} == before
    assert {name: after[name] for name in after.keys() - before.keys()} == {"n": 100, "n/q": 101, "s/y": 102, "o": 103}
    assert to_arrow_schema(addition.added) == pa.schema([("s", pa.struct([("y", pa.int8())])), new[0], new[2]])
    assert addition.schema.metadata == SCHEMA.metadata


def test_members_of_structs_in_lists() -> None:
    new = pa.schema([("l", pa.list_(pa.struct([("y", pa.int8()), ("x", INNER[0].type)]).field(0)))])
    with pytest.raises(InvalidInputError):
        with_added(SCHEMA, new, 100)  # The item is an int8, not a struct.
    new = pa.schema([("l", pa.list_(pa.struct([("y", pa.int8())])))])
    assert ids(with_added(SCHEMA, new, 100).schema)["l/item/y"] == 100


def test_members_of_structs_in_maps() -> None:
    value = pa.schema([("m", pa.map_(pa.string(), pa.struct([("y", pa.int8()), ("z", pa.int8())])))])
    grown = with_added(SCHEMA, value, 100).schema
    assert {name: number for name, number in ids(grown).items() if number >= 100} == {
        "m/entries/value/y": 100,
        "m/entries/value/z": 101,
    }
    keyed = from_arrow_schema(pa.schema([("m", pa.map_(INNER, INNER))]))
    both = pa.schema([("m", pa.map_(pa.struct([("k", pa.int8())]), pa.struct([("y", pa.int8())])))])
    assert {name for name, number in ids(with_added(keyed, both, 100).schema).items() if number >= 100} == {
        "m/entries/key/k",
        "m/entries/value/y",
    }


@pytest.mark.parametrize("path", ["m.value.x", "m.entries.value.x", "l.item.x", "l.element.x"])
def test_items_and_parts_have_the_names_of_files_and_of_spark(path: str) -> None:
    stored = path.replace("m.value", "m.entries.value").replace("element", "item").replace(".", "/")
    assert ids(SCHEMA).keys() - ids(without(SCHEMA, [path])).keys() == {stored}
    assert stored.replace("/x", "/new") in ids(renamed(SCHEMA, {path: "new"}))
    field = pa.field("y", pa.int8())
    added = with_added(SCHEMA, pa.schema([as_nested(SCHEMA, path.replace(".x", ".y"), field)]), 100).schema
    assert ids(added)[stored.replace("/x", "/y")] == 100


@pytest.mark.parametrize(
    "new",
    [
        pa.schema([]),
        pa.schema([("i", pa.int64())]),
        pa.schema([("s", pa.int64())]),
        pa.schema([("s", pa.struct([("x", pa.int32())]))]),
        pa.schema([("s", pa.list_(pa.int8()))]),
        pa.schema([("m", pa.map_(pa.string(), pa.struct([("x", pa.int32())])))]),
        pa.schema([("m", pa.map_(pa.int8(), pa.struct([("y", pa.int8())])))]),
        pa.schema([("m", pa.map_(pa.string(), INNER))]),
        pa.schema([("m", pa.struct([("y", pa.int8())]))]),
        pa.schema([("n", pa.int8()), ("n", pa.int8())]),
        pa.schema([("a.b", pa.int8())]),
        pa.schema([("n", pa.struct([("", pa.int8())]))]),
    ],
)
def test_what_cannot_be_added(new: pa.Schema) -> None:
    with pytest.raises(InvalidInputError):
        with_added(SCHEMA, new, 100)


def test_a_path_as_part_of_its_column() -> None:
    field = pa.field("y", pa.int8())
    assert as_nested(SCHEMA, "l.item.y", field) == pa.field("l", pa.list_(pa.field("item", pa.struct([field]))))
    with pytest.raises(NotFoundError):
        as_nested(SCHEMA, "nope.y", field)
    with pytest.raises(InvalidInputError):
        as_nested(SCHEMA, "i.y", field)


def test_dropping() -> None:
    assert without(SCHEMA, ["i", "v"]).names() == ("s", "l", "m")
    left = without(SCHEMA, ["s.x", "l.item.`a.b`"])
    assert ids(SCHEMA).keys() - ids(left).keys() == {"s/x", "l/item/a.b"}
    assert without(SCHEMA, ["i", "i"]).names() == ("s", "l", "m", "v")


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["i", "s", "l", "m", "v"],
        ["s.x", "s.`a.b`"],
        ["l.item"],
        ["m.entries"],
        ["m.entries.key"],
        ["m.value"],
        ["m.value.x", "m.value.`a.b`"],
    ],
)
def test_what_cannot_be_dropped(paths: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        without(SCHEMA, paths)


@pytest.mark.parametrize("path", ["nope", "s.nope", "i.x", "S"])
def test_what_is_not_there(path: str) -> None:
    with pytest.raises(NotFoundError):
        without(SCHEMA, [path])
    with pytest.raises(NotFoundError):
        renamed(SCHEMA, {path: "new"})


def test_renaming_and_exchanging_names() -> None:
    changed = renamed(SCHEMA, {"i": "s", "s": "i", "s.x": "y.z"})
    assert changed.names() == ("s", "i", "l", "m", "v")
    assert ids(changed)["i/y.z"] == ids(SCHEMA)["s/x"]
    assert list(ids(changed).values()) == list(ids(SCHEMA).values())


@pytest.mark.parametrize(
    "names",
    [{}, {"i": "s"}, {"i": ""}, {"i": "a.b"}, {"s.x": "a.b"}, {"l.item": "x"}, {"i": None}, {"l.item.x": "a.b"}],
)
def test_names_that_cannot_be(names: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        renamed(SCHEMA, names)


def test_reordering() -> None:
    assert reordered(SCHEMA, ["v", "s"]).names() == ("v", "s", "i", "l", "m")
    with pytest.raises(InvalidInputError):
        reordered(SCHEMA, ["v", "v"])
    with pytest.raises(NotFoundError):
        reordered(SCHEMA, ["s.x"])


TYPES = [
    *(getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(20, 0), pa.decimal256(40, 4)),
    *(pa.decimal128(23, 3), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(2), pa.date32()),
    *(pa.date64(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time32("s"), pa.time64("ns")),
    *(pa.duration("s"), pa.duration("ms"), pa.bool_(), pa.list_(pa.float32(), 2), pa.list_(pa.float64(), 2)),
]
SAMPLES = {
    "int": [
        0,
        1,
        -1,
        127,
        -128,
        32767,
        -32768,
        2**31 - 1,
        -(2**31),
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        255,
        2049,
    ],
    "days": [0, 1, 86399, 20000],
    "float": [0.0, -0.0, 1.5, 65504.0, 3.4028234663852886e38, 1e300, float("inf"), 0.1],
}


@pytest.mark.parametrize("old", TYPES, ids=str)
def test_a_wider_type_holds_all_values(old: pa.DataType) -> None:
    kind = "float" if pa.types.is_floating(old) else "days" if pa.types.is_temporal(old) else "int"
    kept = [array for value in SAMPLES[kind] if (array := sample(value, old)) is not None]
    array = pa.concat_arrays([*kept, pa.nulls(1, old)])
    for new in TYPES:
        if is_wider(old, new):
            assert array.cast(new).cast(old).equals(array), new


def sample(value: float, dtype: pa.DataType) -> pa.Array | None:
    """One value of a type, None if the type does not have it."""
    try:
        if isinstance(value, float):
            return pa.array([value], dtype)
        array = pa.array([value], pa.int64() if value < 2**63 else pa.uint64())
        return array.cast(pa.int32()).cast(dtype) if dtype.bit_width == 32 and value < 2**31 else array.cast(dtype)
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def test_every_unsafe_direction_is_refused() -> None:
    wider = [(old, new) for old in TYPES for new in TYPES if old != new and is_wider(old, new)]
    assert not [pair for pair in wider if (pair[1], pair[0]) in wider]
    assert (pa.int64(), pa.float64()) not in wider
    assert (pa.uint64(), pa.int64()) not in wider
    assert (pa.int32(), pa.float64()) in wider
    assert (pa.uint32(), pa.int64()) in wider


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["i", "s", "l", "s.x", "l.item.x", "m", "v", "nope"]), max_size=4))
def test_any_drop_keeps_the_ids_of_the_rest(paths: list[str]) -> None:
    try:
        left = without(SCHEMA, paths)
    except LanceError:
        return
    before = ids(SCHEMA)
    after = ids(left)
    assert after.items() <= before.items()
    assert to_arrow_schema(left).names == [name for name in ARROW.names if name not in paths]


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_system_columns_are_no_names_for_columns(name: str) -> None:
    with pytest.raises(InvalidInputError, match="every table has"):
        from_arrow_schema(pa.schema([pa.field(name, pa.int64())]))
    with pytest.raises(InvalidInputError, match="every table has"):
        from_arrow_field(pa.field(name, pa.int64()), first_id=3)
    nested = from_arrow_schema(pa.schema([pa.field("s", pa.struct([pa.field(name, pa.int64())]))]))
    assert nested.fields[0].children[0].name == name
