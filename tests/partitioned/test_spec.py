"""Partition specs: JSON of the specification's appendix A, and every rule that says must."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.partitioned.field import PartitionField, partition_field
from lance_spark.partitioned.names import (
    spec_id_of_object,
)
from lance_spark.partitioned.spec import (
    PartitionSpec,
    PartitionSpecs,
    is_partitioned,
    spec_from_json,
    specs_from_metadata,
)
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.arrow import from_arrow_schema
from tests.partitioned.appendix import METADATA, metadata

SPECS = specs_from_metadata(metadata())
SCHEMA = from_arrow_schema(
    pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("ts", pa.timestamp("us", "UTC")),
            pa.field("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
            ("tags", pa.list_(pa.string())),
        ]
    )
)


def test_appendix_a_is_read_and_written_as_it_is() -> None:
    assert [spec.id for spec in SPECS.specs] == [1, 2]
    assert SPECS.current.namespace == "v2"
    assert [field.transform for field in SPECS.current.fields] == [Year(), Identity()]
    assert {key: json.loads(value) for key, value in SPECS.to_metadata().items()} == METADATA
    SPECS.check()


def test_appendix_a_columns_of_the_manifest() -> None:
    assert SPECS.partition_columns() == [
        pa.field("partition_field_event_date", pa.date32()),
        pa.field("partition_field_event_year", pa.int32()),
        pa.field("partition_field_country", pa.string()),
    ]


def test_appendix_c_partition_values() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"id": [1, 2], "event_date": [datetime.date(2025, 12, 10), None], "country": ["US", None]}
    )
    assert SPECS.specs[0].values(batch, SPECS.schema).to_pylist() == [
        {"partition_field_event_date": datetime.date(2025, 12, 10)},
        {"partition_field_event_date": None},
    ]
    values = SPECS.current.values(batch, SPECS.schema)
    assert values.to_pylist() == [
        {"partition_field_event_year": 2025, "partition_field_country": "US"},
        {"partition_field_event_year": None, "partition_field_country": None},
    ]


def test_appendix_e_runtime_property() -> None:
    assert json.dumps(SPECS.specs[0].to_json(), separators=(",", ":")) == (
        '{"id":1,"fields":[{"field_id":"event_date","source_ids":[1],"transform":{"type":"identity"},'
        '"result_type":{"type":"date32"}}]}'
    )


def test_only_namespaces_with_a_spec_are_partitioned() -> None:
    assert is_partitioned(metadata())
    assert not is_partitioned({"schema": "{}", "partition_spec": "x"})
    with pytest.raises(InvalidInputError, match="not partitioned"):
        specs_from_metadata({"schema": "{}"})


def changed(path: list[Any], value: Any) -> dict[str, str]:
    members = copy.deepcopy(METADATA)
    at: Any = members
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return {key: entry if isinstance(entry, str) else json.dumps(entry) for key, entry in members.items()}


V1, V2, FIELD = "partition_spec_v1", "partition_spec_v2", ["partition_spec_v1", "fields", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([V1], "{", "not JSON"),
        ([V1], "[" * 100_000, "not JSON"),
        ([V1], '{"id":' + "[" * 900 + "]" * 900 + "}", "nests deeper"),
        ([*FIELD, "field_id"], "\ud800", "not a text"),
        (["schema", "fields", 0, "name"], "\udfff", "not a text"),
        ([V1], "[]", "JSON object"),
        ([V1, "id"], 7, "holds spec 7"),
        ([V1, "id"], None, "needs the number id"),
        ([V1, "fields"], {}, "list fields"),
        (["schema"], None, "no 'schema'"),
        ([*FIELD, "field_id"], None, "field_id"),
        ([*FIELD, "field_id"], "", "field id"),
        ([*FIELD, "field_id"], "a.b", "dot"),
        ([*FIELD, "field_id"], "event_year", "two different fields"),
        ([*FIELD, "source_ids"], [], "source fields"),
        ([*FIELD, "source_ids"], ["1"], "source fields"),
        ([*FIELD, "source_ids"], [True], "source fields"),
        ([*FIELD, "source_ids"], 1, "source_ids"),
        ([*FIELD, "transform"], None, "either a transform or an expression"),
        ([*FIELD, "expression"], "col0", "either a transform or an expression"),
        ([*FIELD, "expression"], 5, "not a text"),
        ([*FIELD, "transform"], {"type": "bucket"}, "num_buckets"),
        ([*FIELD, "transform"], {}, "type"),
        ([*FIELD, "result_type"], None, "no JSON object"),
        ([*FIELD, "result_type"], {"type": 5}, "no name"),
        ([V2, "fields", 1], METADATA[V2]["fields"][0], "two fields of one field_id"),
        ([V2, "fields", 0, "transform"], {"type": "identity"}, "same field"),
        (["partition_spec_v0"], "{}", "no version"),
        (["partition_spec_vx"], "{}", "no version"),
        (["partition_spec_v01"], "{}", "no version"),
        (["schema", "fields", 0, "metadata"], None, "lance:field_id"),
        (["schema", "fields", 0, "metadata", "lance:field_id"], "1", "share"),
        (["schema", "fields", 0, "metadata", "lance:field_id"], "-1", "lance:field_id"),
        (["schema", "fields", 0, "type"], {"type": "list"}, "fields"),
        (["schema", "fields", 0, "name"], None, "name"),
        (["schema", "fields", 0, "name"], "country", "one name"),
        (["schema", "fields"], "x", "fields"),
    ],
)
def test_what_contradicts_the_specification_is_corrupt(path: list[Any], value: Any, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        specs_from_metadata(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"), [([*FIELD, "transform"], {"type": "week"}), ([*FIELD, "result_type"], {"type": "quaternion"})]
)
def test_what_is_unknown_is_unsupported(path: list[Any], value: Any) -> None:
    with pytest.raises(UnsupportedFeatureError):
        specs_from_metadata(changed(path, value))


def test_unknown_members_are_ignored() -> None:
    members = {**METADATA[V1], "comment": "x"}
    assert spec_from_json(members) == SPECS.specs[0]


def test_specs_survive_renamed_and_dropped_source_columns() -> None:
    renamed = specs_from_metadata(changed(["schema", "fields", 1, "name"], "happened_on"))
    batch = pa.RecordBatch.from_pydict(
        {"happened_on": [datetime.date(2025, 12, 10)], "country": pa.array([None], pa.string())}
    )
    assert renamed.specs[0].values(batch, renamed.schema).column(0).to_pylist() == [datetime.date(2025, 12, 10)]
    without = copy.deepcopy(METADATA)
    del without["schema"]["fields"][1]
    dropped = specs_from_metadata({key: json.dumps(value) for key, value in without.items()})
    dropped.check()
    values = dropped.current.values(pa.RecordBatch.from_pydict({"country": ["US"]}), dropped.schema)
    assert values.to_pylist() == [{"partition_field_event_year": None, "partition_field_country": "US"}]


def test_result_type_must_follow_from_the_transform() -> None:
    wrong = specs_from_metadata(changed([V2, "fields", 0, "result_type"], {"type": "int64"}))
    with pytest.raises(InvalidInputError, match="gives int32"):
        wrong.check()


@pytest.mark.parametrize(
    ("sources", "transform"),
    [
        (["missing"], Identity()),
        (["tags"], Identity()),
        (["place"], Identity()),
        (["name"], Year()),
        (["ts"], Truncate(3)),
        (["id", "name"], Bucket(3)),
    ],
)
def test_fields_that_do_not_fit_the_schema_are_refused(sources: list[str], transform: Any) -> None:
    with pytest.raises(InvalidInputError):
        partition_field("x", SCHEMA, sources, transform)


def test_fields_of_structs_can_partition() -> None:
    field = partition_field("city", SCHEMA, [("place", "city")], Truncate(2))
    batch = pa.RecordBatch.from_pylist(
        [{"place": {"city": "Berlin"}}, {"place": None}, {"place": {"city": None}}],
        schema=pa.schema([("place", pa.struct([("city", pa.string())]))]),
    )
    assert field.values(batch, SCHEMA).to_pylist() == ["Be", None, None]


def test_evolution_reuses_field_ids() -> None:
    first = PartitionSpec(1, (partition_field("name_bucket", SCHEMA, ["name"], Bucket(8)),))
    specs = PartitionSpecs(SCHEMA, (first,))
    same = partition_field("other", SCHEMA, ["name"], Bucket(8))
    assert specs.existing_field(same) == first.fields[0]
    with pytest.raises(InvalidInputError, match="the first id is reused"):
        specs.with_spec([same])
    with pytest.raises(InvalidInputError, match="two different fields"):
        specs.with_spec([partition_field("name_bucket", SCHEMA, ["name"], Bucket(16))])
    evolved = specs.with_spec([first.fields[0], partition_field("both", SCHEMA, ["id", "name"], MultiBucket(4))])
    assert evolved.current.id == 2
    assert specs_from_metadata(evolved.to_metadata()) == evolved


def test_a_spec_without_fields_has_one_partition() -> None:
    spec = PartitionSpec(1, ())
    assert spec.values(pa.RecordBatch.from_pydict({"a": [1, 2]}), SCHEMA).num_rows == 2
    assert spec_from_json(spec.to_json()) == spec


@pytest.mark.parametrize("spec_id", [0, -1, True, 2**31])
def test_spec_ids_are_versions(spec_id: int) -> None:
    with pytest.raises(InvalidInputError):
        PartitionSpec(spec_id, ())


def test_versions_rise() -> None:
    with pytest.raises(InvalidInputError, match="rising"):
        PartitionSpecs(SCHEMA, (PartitionSpec(2, ()), PartitionSpec(1, ())))


def test_objects_tell_their_spec_version() -> None:
    assert spec_id_of_object("v1$k7m2n9p4q8r5s3t6$dataset") == 1
    assert spec_id_of_object("v12") == 12
    assert [spec_id_of_object(name) for name in ("v0", "v01$x", "plain", "v$x", "w1$x", "vault")] == [None] * 6


def test_errors_name_the_place() -> None:
    with pytest.raises(CorruptFileError, match=r"partition_spec_v1 .*num_buckets"):
        specs_from_metadata(changed([*FIELD, "transform"], {"type": "bucket", "num_buckets": 0}))


def test_hierarchies_of_one_column() -> None:
    fields = [partition_field(part.name, SCHEMA, ["ts"], part) for part in (Year(), Month(), Day())]
    spec = PartitionSpec(1, tuple(fields))
    batch = pa.RecordBatch.from_pydict({"ts": pa.array([0, None], pa.timestamp("us", "UTC"))})
    assert [list(row.values()) for row in spec.values(batch, SCHEMA).to_pylist()] == [[1970, 1, 1], [None] * 3]


def test_a_field_is_hashable_and_picklable() -> None:
    field = partition_field("b", SCHEMA, ["id"], Bucket(3))
    assert pickle.loads(pickle.dumps(field)) == field
    assert isinstance(field, PartitionField)
    assert pickle.loads(pickle.dumps(SPECS)).current == SPECS.current


_JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "year", "utf8", "timestamp:us", "1"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["type", "fields", "length", "unit", "index", "name"]), inner, max_size=3),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, inner in steps for place in _places(inner, (*path, step)))]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_places(METADATA)[1:]), _JUNK), min_size=1, max_size=2))
def test_damaged_metadata_gives_lance_errors_only(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    members: Any = copy.deepcopy(METADATA)
    for path, junk in changes:
        at = members
        try:
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = junk
        except (KeyError, IndexError, TypeError):
            continue
    try:
        specs = specs_from_metadata({key: json.dumps(value) for key, value in members.items()})
        specs.check()
        specs_from_metadata(specs.to_metadata())
    except LanceError:
        pass
