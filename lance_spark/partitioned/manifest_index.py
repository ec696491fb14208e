"""The partitions that a version of `__manifest` names (partitioning specification, Manifest Table Schema).

A partition is a table ``v<N>$<name>$...$dataset``, one name a level. Its row has the values of all levels and says what
to read of it: a version of its main branch, a version of another branch, a tag, or else the newest version.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.namespace.directory.catalog_rows import LOCATION, NAMESPACE, OBJECT_ID, OBJECT_TYPE, TABLE
from lance_spark.namespace.locations import check_locations
from lance_spark.namespace.object_id import DELIMITER
from lance_spark.partitioned.names import TABLE_NAME, spec_id_of_object
from lance_spark.partitioned.spec import PartitionSpec, PartitionSpecs
from lance_spark.partitioned.values.row_values import KeyValues, keys_of
from lance_spark.text import shown_values

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
        version, branch, tag: what to read; None if not set.
        known_key: the key of `values`, if it is at hand.
    """

    spec: PartitionSpec
    values: pa.RecordBatch
    object_id: str
    location: str
    version: int | None = None
    branch: str | None = None
    tag: str | None = None
    known_key: KeyValues | None = field(default=None, compare=False, repr=False)

    def named_values(self) -> dict[str, object]:
        """Its values as they are shown, by the names of their columns in `__manifest`."""
        names = self.values.schema.names if self.spec.fields else []
        return dict(zip(names, shown_values(self.values.column(name)[0] for name in names), strict=True))

    @property
    def key(self) -> PartitionKey:
        """The identity of the partition: its spec and values."""
        if not self.spec.fields:
            # A batch without columns forgets on its way to another process that it has a row.
            return self.spec.id, ()
        return self.spec.id, keys_of(self.values)[0] if self.known_key is None else self.known_key

    @property
    def named_version(self) -> NamedVersion:
        """Location, version, branch and tag to read."""
        return self.location, self.version, self.branch, self.tag


NamedVersion = tuple[str, int | None, str | None, str | None]
"""A location and a version, branch and tag there, None for what is not named."""

PartitionKey = tuple[int, KeyValues]
"""The id of a spec and values of its fields: one partition, if all fields have one."""


class _PartitionRows:
    """The rows of `__manifest` that are partitions, all of them checked; a `Partition` is made when it is asked for.

    Raises:
        CorruptFileError: a row contradicts the specification.
    """

    def __init__(self, rows: pa.Table, specs: PartitionSpecs) -> None:
        tables = rows.filter(pc.equal(rows[OBJECT_TYPE], TABLE)).combine_chunks()
        self._specs = {spec.id: spec for spec in specs.specs}
        self._spec_ids = _spec_ids(tables[OBJECT_ID], specs)
        # Other tables do not belong to the namespace.
        chosen = self._spec_ids > 0
        self._spec_ids = self._spec_ids[chosen]
        self._rows = tables.filter(pa.array(chosen))
        check_locations(self._rows[LOCATION])
        self.values = {spec.id: _values(self._rows, spec) for spec in specs.specs}

    def __len__(self) -> int:
        return len(self._spec_ids)

    def keys(self) -> list[PartitionKey]:
        """The key of each row."""
        keys = {spec_id: keys_of(of_spec) for spec_id, of_spec in self.values.items()}
        return [(spec_id, keys[spec_id][at]) for at, spec_id in enumerate(self._spec_ids.tolist())]

    def object_ids(self) -> list[str]:
        """The object id of each row."""
        ids: list[str] = self._rows[OBJECT_ID].to_pylist()
        return ids

    def partition(self, at: int, key: KeyValues) -> Partition:
        """The partition of one row, whose key is known."""
        values = [self._rows[name][at].as_py() if name in self._rows.column_names else None for name in _NAMED]
        return self._made(at, key, values)

    def partitions(self, places: Sequence[PartitionKey]) -> list[Partition]:
        """The partitions of all rows, whose places are known."""
        count = len(self)
        columns = [
            self._rows[name].to_pylist() if name in self._rows.column_names else [None] * count for name in _NAMED
        ]
        rows = zip(places, zip(*columns, strict=True), strict=True)
        return [self._made(at, key, values) for at, ((_, key), values) in enumerate(rows)]

    def _made(self, at: int, key: KeyValues, values: Sequence[Any]) -> Partition:
        spec_id = int(self._spec_ids[at])
        object_id, location, version, branch, tag = values
        values = self.values[spec_id].slice(at, 1)
        return Partition(self._specs[spec_id], values, object_id, location, version, branch, tag, key)


_NAMED = (OBJECT_ID, LOCATION, READ_VERSION, READ_BRANCH, READ_TAG)


def _spec_ids(object_ids: pa.ChunkedArray, specs: PartitionSpecs) -> Int64Array:
    """The id of the spec that each table is a partition of, 0 for tables that are not partitions: int64."""
    spec_ids = np.zeros(len(object_ids), np.int64)
    for spec in specs.specs:
        mine = pc.fill_null(pc.starts_with(object_ids, f"{spec.namespace}{DELIMITER}"), False)
        has_levels = pc.equal(pc.count_substring(object_ids, DELIMITER), len(spec.fields) + 1)
        is_whole = pc.and_(has_levels, pc.ends_with(object_ids, DELIMITER + TABLE_NAME))
        wrong = object_ids.filter(pc.and_not(mine, is_whole))
        if len(wrong):
            raise CorruptFileError(f"{wrong[0].as_py()!r} in __manifest is not a partition of spec {spec.id}")
        spec_ids[mine.to_numpy()] = spec.id
    for object_id in object_ids.filter(pa.array(spec_ids == 0)).to_pylist():
        if spec_id_of_object(object_id or "") is not None:
            raise CorruptFileError(f"{object_id!r} in __manifest belongs to a partition spec that is not there")
    return spec_ids


def partitions_of(rows: pa.Table, specs: PartitionSpecs) -> list[Partition]:
    """The partitions among rows of `__manifest`, in the order of the rows.

    Raises:
        CorruptFileError: a row contradicts the specification.
    """
    partition_rows = _PartitionRows(rows, specs)
    return partition_rows.partitions(partition_rows.keys())


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
        self._manifest_rows = rows
        self._specs = specs
        self._rows = _PartitionRows(rows, specs)
        places = self._rows.keys()
        # Of rows with one place the last stays.
        self._at = {place: at for at, place in enumerate(places)}
        if len(self._at) < len(places):
            ids = self._rows.object_ids()
            one, other = next((at, self._at[place]) for at, place in enumerate(places) if self._at[place] != at)
            raise CorruptFileError(f"{ids[one]!r} and {ids[other]!r} in __manifest are partitions of the same values")

    def __len__(self) -> int:
        return len(self._at)

    @cached_property
    def partitions(self) -> list[Partition]:
        """In the order of the rows."""
        return self._rows.partitions(list(self._at))

    def find(self, place: PartitionKey) -> Partition | None:
        """The partition of these values, None if there is none."""
        at = self._at.get(place)
        return None if at is None else self._rows.partition(at, place[1])

    @cached_property
    def by_id(self) -> Mapping[str, Partition]:
        """The partitions by object id."""
        return _ById(self, dict(zip(self._rows.object_ids(), self._at, strict=True)))

    @cached_property
    def _names(self) -> dict[PartitionKey, str]:
        return _namespaces(self._manifest_rows, self._specs)

    def new_partition(self, spec: PartitionSpec, values: pa.RecordBatch, secret: str) -> Partition:
        """A new partition. All tasks of a write get the same one for the same values, by the secret of the write.

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
        spec_id, key = new.key
        levels = [self._names.get((spec_id, key[: depth + 1]), name) for depth, name in enumerate(names)]
        return replace(new, object_id=DELIMITER.join([first, *levels, last]))


class _ById(Mapping[str, Partition]):
    """Partitions by object id, each made when it is asked for."""

    def __init__(self, index: PartitionIndex, places: Mapping[str, PartitionKey]) -> None:
        self._index = index
        self._places = places

    def __getitem__(self, object_id: str) -> Partition:
        partition = self._index.find(self._places[object_id])
        assert partition is not None, "the index has the places of its partitions"
        return partition

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _namespaces(rows: pa.Table, specs: PartitionSpecs) -> dict[PartitionKey, str]:
    """Names of the namespaces between spec and partition, by the values down to them."""
    chosen = rows.filter(pc.equal(rows[OBJECT_TYPE], NAMESPACE))
    depths = pc.count_substring(chosen[OBJECT_ID], DELIMITER)
    names: dict[PartitionKey, str] = {}
    for spec in specs.specs:
        mine = pc.starts_with(chosen[OBJECT_ID], f"{spec.namespace}{DELIMITER}")
        for depth in range(1, len(spec.fields) + 1):
            level = chosen.filter(pc.and_(mine, pc.equal(depths, depth)))
            keys = keys_of(_values(level, spec))
            ids = level[OBJECT_ID].to_pylist()
            for key, object_id in zip(keys, ids, strict=True):
                names.setdefault((spec.id, key[:depth]), object_id.rpartition(DELIMITER)[2])
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
