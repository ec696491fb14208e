"""Partition specs: the versions of how a partitioned namespace lays out its rows (partitioning specification).

They lie in the metadata of `__manifest`, one JSON object a version under `partition_spec_v<N>`, next to the `schema`
that all partition tables share. A namespace with at least one such key is a partitioned one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.namespace.json_arrow_schema import schema_from_json, schema_to_json
from lance_spark.partitioned.field import PartitionField, partition_field_from_json
from lance_spark.partitioned.names import (
    MAX_SPEC_ID,
    SCHEMA_KEY,
    spec_id_of_key,
    spec_key,
    spec_namespace,
)
from lance_spark.schema.field import MAX_DEPTH, LanceSchema

_MAX_JSON_DEPTH = 3 * MAX_DEPTH + 10
"""A nested field is three levels of JSON: the field, its type, and the list of its children."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One version: its number and the partition fields, in the order of the levels of the hierarchy."""

    id: int
    fields: tuple[PartitionField, ...]

    def __post_init__(self) -> None:
        if isinstance(self.id, bool) or not isinstance(self.id, int) or not 1 <= self.id <= MAX_SPEC_ID:
            raise InvalidInputError(f"a partition spec has a version from 1 on as its id, got {self.id!r}")
        names = [field.field_id for field in self.fields]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"partition spec {self.id} has two fields of one field_id: {', '.join(names)}")
        definitions = {field.definition for field in self.fields}
        if len(definitions) < len(self.fields):
            raise InvalidInputError(f"partition spec {self.id} has the same field twice under two field_ids")

    @property
    def namespace(self) -> str:
        """The child namespace of its partitions, `v<N>`."""
        return spec_namespace(self.id)

    def values(self, batch: pa.RecordBatch, schema: LanceSchema) -> pa.RecordBatch:
        """The partition values of each row, one column `partition_field_<field_id>` a field.

        Arguments and errors as `PartitionField.values`.
        """
        columns = [field.values(batch, schema) for field in self.fields]
        if not columns:
            # The one way to a batch of rows without columns.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field.arrow_field for field in self.fields]))

    def check(self, schema: LanceSchema) -> None:
        """Nothing, if every field fits the namespace's schema. Raises as `PartitionField.check`."""
        for field in self.fields:
            field.check(schema)

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return {"id": self.id, "fields": [field.to_json() for field in self.fields]}


def spec_from_json(members: object) -> PartitionSpec:
    """The spec of a JSON object.

    Raises:
        InvalidInputError: a member is missing or invalid.
        CorruptFileError: a `result_type` that is no type.
        UnsupportedFeatureError: an unknown transform or type.
    """
    if not isinstance(members, Mapping):
        raise InvalidInputError(f"a partition spec is a JSON object, got {members!r}")
    spec_id, fields = members.get("id"), members.get("fields")
    if not isinstance(spec_id, int) or not isinstance(fields, list):
        raise InvalidInputError(f"a partition spec needs the number id and the list fields, got {members!r}")
    return PartitionSpec(spec_id, tuple(map(partition_field_from_json, fields)))


@dataclass(frozen=True, slots=True)
class PartitionSpecs:
    """All versions of a namespace's partition spec and the schema that they refer to.

    Args:
        schema: the namespace's schema.
        specs: the versions, in the order of their ids; at least one.
    """

    schema: LanceSchema
    specs: tuple[PartitionSpec, ...]

    def __post_init__(self) -> None:
        ids = [spec.id for spec in self.specs]
        if not ids or ids != sorted(set(ids)):
            raise InvalidInputError(f"a partitioned namespace has specs of different, rising versions, got {ids}")
        check_field_ids(self.fields_of_all())

    @property
    def current(self) -> PartitionSpec:
        """The newest version: new rows are written by it."""
        return self.specs[-1]

    def fields_of_all(self) -> list[PartitionField]:
        """The fields of all versions, those that several share once for each."""
        return [field for spec in self.specs for field in spec.fields]

    def partition_columns(self) -> list[pa.Field]:
        """The columns that `__manifest` has for them, each once, in the order of the versions."""
        return list({field.column_name: field.arrow_field for field in self.fields_of_all()}.values())

    def with_spec(self, fields: Sequence[PartitionField]) -> PartitionSpecs:
        """These versions and a new one with these fields, checked against the schema.

        A field that an earlier version has too must have the same `field_id` there; `existing_field` finds it.

        Raises:
            InvalidInputError: a field does not fit the schema, or its `field_id` is taken or another one's.
        """
        spec = PartitionSpec(self.current.id + 1, tuple(fields))
        spec.check(self.schema)
        return PartitionSpecs(self.schema, (*self.specs, spec))

    def existing_field(self, field: PartitionField) -> PartitionField | None:
        """The field of some version with the same sources and rule: its `field_id` must be reused."""
        return next((existing for existing in self.fields_of_all() if existing.definition == field.definition), None)

    def check(self) -> None:
        """Nothing, if all fields fit the schema. Raises as `PartitionField.check`."""
        for spec in self.specs:
            spec.check(self.schema)

    def to_metadata(self) -> dict[str, str]:
        """The entries for the metadata of `__manifest`."""
        entries = {spec_key(spec.id): _text(spec.to_json()) for spec in self.specs}
        return {**entries, SCHEMA_KEY: _text(schema_to_json(self.schema))}


def check_field_ids(fields: Sequence[PartitionField]) -> None:
    """Nothing, if one `field_id` means one field over all versions, and one field has one `field_id`.

    Raises:
        InvalidInputError: it does not.
    """
    by_id: dict[str, PartitionField] = {}
    by_definition: dict[tuple[object, ...], PartitionField] = {}
    for field in fields:
        earlier = by_id.setdefault(field.field_id, field)
        if earlier.definition != field.definition or earlier.result_type != field.result_type:
            raise InvalidInputError(
                f"partition field id {field.field_id!r} stands for two different fields; a new field needs a new id"
            )
        first = by_definition.setdefault(field.definition, field)
        if first.field_id != field.field_id:
            raise InvalidInputError(
                f"partition fields {first.field_id!r} and {field.field_id!r} are the same field; the first id is reused"
            )


def is_partitioned(metadata: Mapping[str, str]) -> bool:
    """Whether metadata of `__manifest` belongs to a partitioned namespace."""
    return any(_spec_id(key) is not None for key in metadata)


def specs_from_metadata(metadata: Mapping[str, str]) -> PartitionSpecs:
    """The specs in the metadata of `__manifest`.

    Raises:
        CorruptFileError: they contradict the specification.
        UnsupportedFeatureError: an unknown transform or type.
        InvalidInputError: the namespace is not a partitioned one.
    """
    keys = {spec_id: key for key in metadata if (spec_id := _spec_id(key)) is not None}
    if not keys:
        raise InvalidInputError("the namespace is not partitioned: its __manifest has no partition_spec_v<N>")
    if SCHEMA_KEY not in metadata:
        raise CorruptFileError(f"the partitioned namespace has no {SCHEMA_KEY!r} in the metadata of its __manifest")
    schema = schema_from_json(_parsed(metadata, SCHEMA_KEY))
    specs = tuple(_spec(metadata, keys[spec_id], spec_id) for spec_id in sorted(keys))
    try:
        return PartitionSpecs(schema, specs)
    except InvalidInputError as error:
        raise CorruptFileError(f"the partition specs of the namespace contradict each other: {error}") from error


def _spec(metadata: Mapping[str, str], key: str, spec_id: int) -> PartitionSpec:
    try:
        spec = spec_from_json(_parsed(metadata, key))
    except InvalidInputError as error:
        raise CorruptFileError(f"{key} in the metadata of __manifest: {error}") from error
    if spec.id != spec_id:
        raise CorruptFileError(f"{key} in the metadata of __manifest holds spec {spec.id}")
    return spec


def _spec_id(key: str) -> int | None:
    try:
        return spec_id_of_key(key)
    except InvalidInputError as error:
        raise CorruptFileError(f"in the metadata of __manifest {error}") from error


def _parsed(metadata: Mapping[str, str], key: str) -> Any:
    try:
        members = json.loads(metadata[key])
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{key} in the metadata of __manifest is not JSON: {error}") from error
    _check_json(members, key)
    return members


def _check_json(members: object, key: str) -> None:
    """Nothing, if the values nest as a schema may and their text is text: JSON allows halves of surrogate pairs."""
    level: list[object] = [members]
    for _ in range(_MAX_JSON_DEPTH):
        inner: list[object] = []
        for value in level:
            if isinstance(value, str) and not value.isascii():
                _check_text(value, key)
            inner += [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
        level = inner
    if level:
        raise CorruptFileError(f"{key} in the metadata of __manifest nests deeper than {_MAX_JSON_DEPTH} levels")


def _check_text(value: str, key: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CorruptFileError(
            f"{key} in the metadata of __manifest holds something that is not a text: {error}"
        ) from error


def _text(members: Mapping[str, Any]) -> str:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)
