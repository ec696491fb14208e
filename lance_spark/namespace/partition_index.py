"""The partitions that a version of `__manifest` names (partitioning specification, Manifest Table Schema).

A partition is a table ``v<N>$<name>$...$dataset``, one name a level. Its row has the values of all levels and says what
to read of it: a version of its main branch, a version of another branch, a tag, or else the newest version.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError
from lance_spark.namespace.catalog_entry import NAMESPACE, TABLE
from lance_spark.namespace.catalog_rows import LOCATION, OBJECT_ID, OBJECT_TYPE
from lance_spark.namespace.locations import checked_location
from lance_spark.namespace.object_id import DELIMITER
from lance_spark.namespace.partition_names import TABLE_NAME, spec_id_of_object
from lance_spark.namespace.partition_spec import PartitionSpec, PartitionSpecs
from lance_spark.namespace.partition_values import PartitionKey, keys_of

READ_VERSION, READ_BRANCH, READ_TAG = "read_version", "read_branch", "read_tag"
READ_FIELDS = (pa.field(READ_VERSION, pa.uint64()), pa.field(READ_BRANCH, pa.string()), pa.field(READ_TAG, pa.string()))
"""The columns of `__manifest` that say what to read of a partition."""

_NAME_BYTES = 10


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a partitioned table.

    Attributes:
        spec: the spec version that it was written by.
        values: one row with its values, a column a field of the spec.
        object_id: its place in the hierarchy.
        location: its table's directory, relative to the root.
        version, branch, tag: what to read; None for what is not told.
        known_key: the key of `values`, if it is at hand.
    """

    spec: PartitionSpec
    values: pa.RecordBatch
    object_id: str
    location: str
    version: int | None = None
    branch: str | None = None
    tag: str | None = None
    known_key: PartitionKey | None = field(default=None, compare=False, repr=False)

    @property
    def place(self) -> PartitionPlace:
        """What tells it from all others."""
        return self.spec.id, keys_of(self.values)[0] if self.known_key is None else self.known_key


PartitionPlace = tuple[int, PartitionKey]
"""The id of a spec and values of its fields: one partition, if all fields have one."""


def partitions_of(rows: pa.Table, specs: PartitionSpecs) -> list[Partition]:
    """The partitions among rows of `__manifest`, in the order of the rows.

    Raises:
        CorruptFileError: a row contradicts the specification.
    """
    by_id = {spec.id: spec for spec in specs.specs}
    rows = rows.filter(pc.equal(rows[OBJECT_TYPE], TABLE))
    listed = {
        name: rows[name].to_pylist() if name in rows.column_names else [None] * rows.num_rows
        for name in (OBJECT_ID, LOCATION, READ_VERSION, READ_BRANCH, READ_TAG)
    }
    values = {spec.id: _values(rows, spec) for spec in specs.specs}
    keys = {spec_id: keys_of(of_spec) for spec_id, of_spec in values.items()}
    found = []
    for at, object_id in enumerate(listed[OBJECT_ID]):
        spec_id = spec_id_of_object(object_id or "")
        spec = by_id.get(spec_id or 0)
        if spec is None:
            if spec_id is not None:
                raise CorruptFileError(f"{object_id!r} in __manifest belongs to a partition spec that is not there")
            continue  # Other tables are none of the namespace's.
        if object_id.count(DELIMITER) != len(spec.fields) + 1 or not object_id.endswith(DELIMITER + TABLE_NAME):
            raise CorruptFileError(f"{object_id!r} in __manifest is no partition of spec {spec.id}")
        found.append(
            Partition(
                spec,
                values[spec.id].slice(at, 1),
                object_id,
                checked_location(listed[LOCATION][at]),
                listed[READ_VERSION][at],
                listed[READ_BRANCH][at],
                listed[READ_TAG][at],
                keys[spec.id][at],
            )
        )
    return found


def _values(rows: pa.Table, spec: PartitionSpec) -> pa.RecordBatch:
    columns = []
    for level in spec.fields:
        if level.column_name not in rows.column_names:
            raise CorruptFileError(f"__manifest has no column {level.column_name!r}, a field of spec {spec.id}")
        columns.append(rows[level.column_name].combine_chunks().cast(level.result_type))
    if not columns:
        # The one way to a batch of rows without columns.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    arrays = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([level.arrow_field for level in spec.fields]))


class PartitionIndex:
    """All partitions of one version of `__manifest`, by their values, and the names on the way to them.

    Raises:
        CorruptFileError: two partitions have the same values, or a row contradicts the specification.
    """

    def __init__(self, rows: pa.Table, specs: PartitionSpecs) -> None:
        self._partitions: dict[PartitionPlace, Partition] = {}
        for partition in partitions_of(rows, specs):
            known = self._partitions.setdefault(partition.place, partition)
            if known is not partition:
                raise CorruptFileError(
                    f"{known.object_id!r} and {partition.object_id!r} in __manifest are partitions of the same values"
                )
        self._names = _namespaces(rows, specs)

    @property
    def partitions(self) -> list[Partition]:
        """In the order of the rows."""
        return list(self._partitions.values())

    def find(self, place: PartitionPlace) -> Partition | None:
        """The partition of these values, None if there is none."""
        return self._partitions.get(place)

    @cached_property
    def by_id(self) -> dict[str, Partition]:
        """The partitions by object id."""
        return {partition.object_id: partition for partition in self._partitions.values()}

    def new_partition(self, spec: PartitionSpec, values: pa.RecordBatch, secret: str) -> Partition:
        """A partition that is to be: the same one wherever it is asked for with the same secret of one write.

        Its directory follows from the secret and the values alone; its id reuses the levels that are there.
        """
        (key,) = keys_of(values)
        names = [_derived_name(secret, spec.id, key[:depth]) for depth in range(1, len(key) + 1)]
        own = DELIMITER.join([spec.namespace, *names, TABLE_NAME])
        prefix = hashlib.sha256(f"{secret}/{own}".encode()).hexdigest()[:8]
        return self.below_known_levels(Partition(spec, values, own, f"{prefix}_{own}"))

    def below_known_levels(self, new: Partition) -> Partition:
        """A new partition, its levels named as those that are there."""
        first, *names, last = new.object_id.split(DELIMITER)
        spec_id, key = new.place
        known = [self._names.get((spec_id, key[: depth + 1]), name) for depth, name in enumerate(names)]
        return replace(new, object_id=DELIMITER.join([first, *known, last]))


def _namespaces(rows: pa.Table, specs: PartitionSpecs) -> dict[PartitionPlace, str]:
    """Names of the namespaces between spec and partition, by the values down to them."""
    chosen = rows.filter(pc.equal(rows[OBJECT_TYPE], NAMESPACE))
    ids = chosen[OBJECT_ID].to_pylist()
    names: dict[PartitionPlace, str] = {}
    for spec in specs.specs:
        keys = keys_of(_values(chosen, spec))
        for object_id, key in zip(ids, keys, strict=True):
            levels = object_id.split(DELIMITER)
            if levels[0] == spec.namespace and 1 < len(levels) <= len(spec.fields) + 1:
                names.setdefault((spec.id, key[: len(levels) - 1]), levels[-1])
    return names


def _derived_name(secret: str, spec_id: int, key: Sequence[object]) -> str:
    """16 characters of a-z and 2-7, as good as random to who does not know the secret."""
    digest = hashlib.sha256(f"{secret}/{spec_id}/{tuple(key)!r}".encode()).digest()
    return base64.b32encode(digest[:_NAME_BYTES]).decode().lower()


def rows_of(partition: Partition, known_ids: Mapping[str, object], schema: pa.Schema) -> list[dict[str, object]]:
    """The rows of `__manifest` for a new partition: of its levels, but those in `known_ids`, and of its table."""
    levels = partition.object_id.split(DELIMITER)
    values = {name: partition.values.column(name)[0] for name in partition.values.schema.names}
    fields = [level.column_name for level in partition.spec.fields]
    rows: list[dict[str, object]] = []
    for depth in range(1, len(levels)):
        object_id = DELIMITER.join(levels[:depth])
        if object_id not in known_ids:
            own = {name: values[name] for name in fields[: depth - 1]}
            rows.append({OBJECT_ID: object_id, OBJECT_TYPE: NAMESPACE, **own})
    rows.append(
        {
            OBJECT_ID: partition.object_id,
            OBJECT_TYPE: TABLE,
            LOCATION: partition.location,
            READ_VERSION: partition.version,
            READ_BRANCH: partition.branch,
            **values,
        }
    )
    return [{name: row.get(name) for name in schema.names} for row in rows]
