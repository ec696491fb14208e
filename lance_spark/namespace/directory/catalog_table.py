"""`__manifest`, the catalog of tables and namespaces of a root (Lance directory namespace specification, V2).

=============  =============  ========  ==============================================
column         type           nullable
=============  =============  ========  ==============================================
object_id      string         no        the names joined by ``$``; unique
object_type    string         no        ``namespace``, ``table``, or an unknown type
location       string         yes       directory of a table, relative to the root
metadata       string         yes       properties as a JSON object
base_objects   list<string>   yes       not used here
=============  =============  ========  ==============================================

Properties of the root namespace are the table's metadata. Unknown columns and rows are preserved.

The format has no unique keys, so a change of the rows is compare-and-swap: it is computed from the newest version, and
committed only as its direct successor. It is an Overwrite: other writers' operations under other rules, such as the
merges by which older releases of the reference library insert rows, are compatible with an Append but conflict with an
Overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import CommitConflictError, CorruptFileError, RetryableConflictError, UnsupportedFeatureError
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, Expr, StringMatch, StringMatchOp
from lance_spark.namespace.directory.catalog_rows import (
    ENTRY_COLUMNS,
    LOCATION,
    METADATA,
    OBJECT_ID,
    OBJECT_TYPE,
    CatalogEntry,
    CatalogRows,
)
from lance_spark.namespace.locations import CATALOG_DIRECTORY
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.cache import cached_part, has_free_etags
from lance_spark.storage.paths import below
from lance_spark.table.cleanup.auto_cleanup import clean_up_after
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.commits.field_ids import largest_field_id
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.marks import CommitMark
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.versions.changes import update_metadata
from lance_spark.table.writing.modes import OVERWRITE
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import plan_write
from lance_spark.table.writing.write import remove_fragments, write_fragments

CATALOG_SCHEMA = pa.schema(
    [
        pa.field(
            OBJECT_ID, pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
        ),
        pa.field(OBJECT_TYPE, pa.string(), nullable=False),
        pa.field(LOCATION, pa.string()),
        pa.field(METADATA, pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
"""The columns of a new `__manifest`."""

RESERVED_PROPERTIES = "lance.namespace.manifest."
"""The prefix of properties that readers and writers of the catalog must understand."""

MANAGED_VERSIONS = "table_version_management"
"""The property for catalogs whose rows include the versions of tables."""

PARTITION_SPEC = "partition_spec_v"
"""The prefix of properties that only the catalog of the partitions of one table has."""

_ENTRIES_BYTES = 4096
"""About what entries take in memory beside their values, the version they are kept with included."""

_READER_FLAGS = f"{RESERVED_PROPERTIES}reader_feature_flags"
_WRITER_FLAGS = f"{RESERVED_PROPERTIES}writer_feature_flags"


@dataclass(frozen=True, slots=True)
class CatalogOverwrite(Overwrite):
    """An Overwrite of `__manifest` that changes rows, columns and properties atomically.

    No operation of the transaction message covers all of them, but a manifest can contain all of them, and readers only
    use the manifest. The message is an Overwrite, which conflicts with every other change of rows. Writers of the
    properties that a partitioned namespace depends on publish only the direct successor of the version they read, so
    none is lost.

    Attributes:
        properties: changed properties of the root namespace; None removes one.
    """

    properties: Mapping[str, str | None] | None = None

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        manifest = Overwrite.next_manifest(self, previous, settings)
        if not self.properties:
            return manifest
        return replace(manifest, table_metadata=UpdateMap(self.properties).applied(manifest.table_metadata))


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """One version of the catalog; without a dataset it does not exist yet and is empty."""

    dataset: Dataset | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the root namespace."""
        return {} if self.dataset is None else self.dataset.metadata

    def rows(self, filter: Expr | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows for which `filter` is true, in one scan; all columns by default."""
        if self.dataset is None:
            empty = CATALOG_SCHEMA.empty_table()
            return empty if columns is None else empty.select(list(columns))
        return self.dataset.to_table(columns=columns, filter=filter)

    def entries(self, filter: Expr) -> Sequence[CatalogEntry]:
        """The objects for which `filter` is true; kept with the version, because each query asks for its tables again.

        Raises:
            CorruptFileError: a row violates the format.
        """

        def read() -> tuple[tuple[CatalogEntry, ...], int]:
            rows = self.rows(filter, ENTRY_COLUMNS)
            return tuple(map(CatalogEntry.from_row, rows.to_pylist())), rows.nbytes + _ENTRIES_BYTES

        # Where versions have no stamp to be known again by, each is read again, and would fill the cache.
        if self.dataset is None or not has_free_etags(self.dataset.location.store):
            return read()[0]
        return cached_part(self.dataset.manifest, ("catalog entries", filter), read)


Edit = Callable[[CatalogRows], "CatalogRows | None"]
"""Maps all rows of a version to the new rows; None leaves them unchanged. Called again after a lost race."""


class CatalogTable:
    """The `__manifest` of a root. Each call sees the newest version; entries are kept with their version only.

    Args:
        root: URI of the namespace's root.
        policy: the retry policy for conflicts.
    """

    def __init__(
        self, root: str, storage_options: Mapping[str, str] | None = None, policy: RetryPolicy | None = None
    ) -> None:
        self._table = TableLocation(below(root, CATALOG_DIRECTORY), storage_options, after_commit=clean_up_after)
        self._policy = policy or RetryPolicy()

    @property
    def uri(self) -> str:
        return self._table.uri

    @property
    def table(self) -> TableLocation:
        """The location of `__manifest`."""
        return self._table

    def load(self) -> CatalogVersion:
        """The newest version.

        Raises:
            CorruptFileError: the table is not a catalog.
            UnsupportedFeatureError: it needs a feature that this release does not support.
        """
        manifest = self._table.latest()
        return CatalogVersion() if manifest is None else self.at(manifest)

    def at(self, manifest: Manifest) -> CatalogVersion:
        """The catalog in a version of its table. Raises as `load`."""
        _refuse_flags(manifest.table_metadata, _READER_FLAGS, "read")
        dataset = Dataset(self._table, manifest)
        _check_columns(dataset.stored_schema)
        return CatalogVersion(dataset)

    def change(self, edit: Edit) -> CatalogVersion:
        """Applies `edit` to the rows of the newest version; returns the new version.

        Raises:
            CommitConflictError: all attempts lost against other writers. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the catalog needs a feature that this release does not write.
        """

        def attempt() -> CatalogVersion:
            base = self.load()
            _refuse_flags(base.properties, _WRITER_FLAGS, "write to")
            refuse_managed_versions(base.properties)
            rows = edit(CatalogRows(base.rows()))
            return base if rows is None else CatalogVersion(Dataset(self._table, self.replace_rows(base, rows.table)))

        return self._repeated(attempt)

    def change_properties(self, updates: Mapping[str, str | None]) -> CatalogVersion:
        """Changes properties of the root namespace; None removes one. Returns the new version. Raises as `change`."""

        def attempt() -> CatalogVersion:
            base = self.load()
            _refuse_flags(base.properties, _WRITER_FLAGS, "write to")
            if base.dataset is None:
                self.replace_rows(base, base.rows())
                base = self.load()
            if base.dataset is None or not updates:
                return base
            manifest = update_metadata(self._table, base.dataset.manifest, updates, self._policy)
            return CatalogVersion(Dataset(self._table, manifest))

        return self._repeated(attempt)

    def _repeated(self, attempt: Callable[[], CatalogVersion]) -> CatalogVersion:
        for _ in range(self._policy.max_attempts - 1):
            try:
                return attempt()
            except CommitConflictError:
                continue
        return attempt()

    def replace_rows(
        self,
        base: CatalogVersion,
        rows: pa.Table,
        properties: Mapping[str, str] | None = None,
        *,
        changed_properties: Mapping[str, str | None] | None = None,
        marks: Sequence[CommitMark] = (),
    ) -> Manifest:
        """The direct successor of `base` with exactly `rows`, which have the same columns and possibly new ones.

        Args:
            properties: stored with the version.
            changed_properties: of the root namespace, changed in the same version; None removes one.
            marks: entries of the config that are committed with the version.

        Raises:
            CommitConflictError: `base` is no longer the newest version. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
        """
        before = None if base.dataset is None else base.dataset.manifest
        source = RowSource.of(rows)
        plan = plan_write(before, rows.schema, mode=OVERWRITE)
        if before is not None:
            # The ids of the columns are kept, so that references by id stay valid.
            plan = replace(plan, schema=_with_new_columns(before, rows.schema))
        fragments = write_fragments(source.batches, self._table.store, plan.schema, file_version=plan.file_version)
        with cleanup_on_failure(lambda: remove_fragments(self._table.store, fragments)):
            operation = CatalogOverwrite(tuple(fragments), plan.schema, properties=changed_properties)
            transaction = Transaction.new(0 if before is None else before.version, operation, properties)
            new_table = NewTable(plan.file_version)
            history = self._table.history
            return Commit(history, before, transaction, new_table, self._policy, _no_rebase, marks=marks).run()


def _with_new_columns(before: Manifest, wanted: pa.Schema) -> LanceSchema:
    names = set(before.schema.names())
    new = pa.schema([column for column in wanted if column.name not in names])
    return with_added(before.schema, new, largest_field_id(before) + 1).schema if len(new) else before.schema


def equals(column: str, value: str) -> Expr:
    """The condition that a column has this value."""
    return Comparison(ComparisonOp.EQ, Column((column,)), literal(value))


def starts_with(column: str, text: str) -> Expr:
    """The condition that a column begins with `text`."""
    return StringMatch(StringMatchOp.STARTS_WITH, Column((column,)), text)


def has_table(uri: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Whether a Lance table lies at `uri`, with partitions or without."""
    if TableLocation(uri, storage_options).history.latest_location() is not None:
        return True
    return any(key.startswith(PARTITION_SPEC) for key in CatalogTable(uri, storage_options).load().properties)


def refuse_managed_versions(properties: Mapping[str, str]) -> None:
    """Rejects a catalog that stores the versions of its tables.

    Raises:
        UnsupportedFeatureError: it does; a version committed by this release would be missing there.
    """
    if properties.get(MANAGED_VERSIONS, "").lower() == "true":
        raise UnsupportedFeatureError(
            "the catalog keeps the versions of its tables, which this release does not serve", feature=MANAGED_VERSIONS
        )


def _no_rebase(current: Manifest) -> CommittableOperation:
    """A concurrent change may invalidate the new rows."""
    raise RetryableConflictError(
        f"the catalog has got version {current.version} meanwhile",
        own=OperationKind.OVERWRITE.value,
        table_version=current.version,
    )


def _check_columns(schema: pa.Schema) -> None:
    for name in ENTRY_COLUMNS:
        number = schema.get_field_index(name)
        if number < 0 or not (pt.is_string(schema.field(number).type) or pt.is_large_string(schema.field(number).type)):
            raise CorruptFileError(f"__manifest has no text column {name!r}", path=CATALOG_DIRECTORY)


def _refuse_flags(properties: Mapping[str, str], key: str, verb: str) -> None:
    if properties.get(key, "") not in ("", "0"):
        raise UnsupportedFeatureError(
            f"the catalog has features {properties[key]!r} that this release does not {verb}", feature=key
        )
