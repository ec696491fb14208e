"""Plans writes and row changes of Spark: from columns and options to a job on a `WriteTarget`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.spark.constraints import TableConstraint, with_constraints
from lance_spark.spark.jobs.original_values import OriginalValues
from lance_spark.spark.jobs.row_change_job import RowChangeJob
from lance_spark.spark.jobs.updates_in_place import UpdatesInPlace
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import exchanged_schema, is_lossless, table_types, with_comments, written_schema
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.maintenance.after_commit import zoned
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, check_clustering
from lance_spark.table.row_level.column_updates import ColumnUpdate
from lance_spark.table.row_level.plain_target import NEW_COLUMNS, PlainTarget
from lance_spark.table.row_level.update_mode import UPDATE_MODE, RewriteMode
from lance_spark.table.row_level.write_target import AnyTarget, WriteMode
from lance_spark.table.writing.identity import schema_without_identities
from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Definition of a plain table that a statement makes or replaces.

    Attributes:
        config: entries that the table's config gets with the commit.
        like: columns of another table, whose types those of a new table get.
        constraints: of the new table.
    """

    config: Mapping[str, str]
    like: pa.Schema | None = None
    constraints: Sequence[TableConstraint] = ()


def plan_write(
    target: AnyTarget,
    columns: StructType,
    mode: WriteMode,
    options: WriteOptions,
    *,
    definition: TableDefinition | None = None,
    replaced: Expr | None = None,
    from_query: bool = False,
) -> WriteJob:
    """The job that writes rows with `columns` to `target`.

    Args:
        definition: of a plain table that a statement makes or replaces.
        replaced: which rows are replaced, with REPLACE_WHERE.
        from_query: whether `columns` are those of a query; then columns that it makes are nullable, as in Spark.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write to the table, or not such columns, or not with such options.
    """
    target.check_commits()
    is_partitioned = isinstance(target, PartitionedTarget)
    # A new partitioned table has its columns before its rows.
    exists = target.base_version is not None or is_partitioned
    makes_columns = not is_partitioned and (not exists or mode in NEW_COLUMNS)
    if from_query and makes_columns:
        columns = columns.toNullable()
    _check_creation_options(target, options)
    if options.merge_schema and target.base_version is not None and mode is WriteMode.OVERWRITE:
        raise InvalidInputError(
            "option mergeSchema has no effect on an overwrite that replaces the columns of the table; leave it out, or "
            "append the rows"
        )
    like = None if definition is None else definition.like
    types = table_types(
        written_schema(columns),
        to_arrow_schema(target.lance_schema) if exists and mode is not WriteMode.CREATE else like,
        options.column_properties,
        replaces=makes_columns,
        large=options.use_large_var_types,
    )
    if from_query or definition is None:
        types = schema_without_identities(types)
    defined = types
    if makes_columns and mode in NEW_COLUMNS:
        # A statement that defines the table has its properties too; rows by path keep the comments.
        defined = with_comments(types, columns, replaces=definition is not None)
        defined = with_constraints(defined, () if definition is None else definition.constraints)
    planned = target.taking(
        defined,
        options.limits(target.table_properties if definition is None else {}),
        mode=mode,
        merge_schema=options.merge_schema,
        file_format_version=options.file_format_version,
    )
    config = None if definition is None else definition.config
    properties = (config or target.changed_properties) or {}
    check_zone_columns(planned.table_schema, properties.get(AUTO_ZONEMAP))
    check_clustering(planned.table_schema, properties.get(CLUSTERING_COLUMNS))
    commit = replace(_commit_options(options), stable_row_ids=bool(options.enable_stable_row_ids), config=config)
    return WriteJob(_zoned(planned, options), types, commit, mode, replaced)


def column_update(target: AnyTarget, columns: Sequence[str]) -> ColumnUpdate | None:
    """The update of some columns in rows that do not move; None if complete rows are to move.

    Raises:
        UnsupportedFeatureError: the table's property `lance.update.mode` is "columns", and these columns cannot change
            in place.
    """
    update = ColumnUpdate.of(target, columns, RewriteMode.of(target.table_properties))
    if update is None:
        return None
    if update.mode is RewriteMode.AUTO and any(map(has_blobs, target.lance_schema.fields)):
        return None  # Rows that move after all would need the blobs that Spark has not handed over.
    rounded = [field.name for field in to_arrow_schema(update.written) if not is_lossless(field.type)]
    if rounded and update.mode is RewriteMode.COLUMNS:
        raise UnsupportedFeatureError(
            f"Spark rounds values of column {rounded[0]!r}, so its rows have to move; set {UPDATE_MODE} to 'auto'",
            feature=f"{UPDATE_MODE} = columns",
        )
    return None if rounded else update


def plan_changes(
    target: AnyTarget, columns: StructType, options: WriteOptions, changed: Sequence[str] = ()
) -> RowChangeJob:
    """The statement that changes rows of `target` and writes rows with `columns`, none if it only deletes.

    Args:
        changed: the columns that updated rows come with; none if these are all.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write to the table, or not such columns.
    """
    target.check_commits()
    shown = exchanged_schema(columns)
    types = table_types(shown, to_arrow_schema(target.lance_schema))
    if columns.fields:
        target = target.taking(types, options.limits(target.table_properties))
    originals = OriginalValues.of(shown, types)
    in_place = None
    if changed:
        update = column_update(target, changed)
        assert update is not None, "the statement was planned for this version"
        in_place = UpdatesInPlace(update, types)
    return RowChangeJob(_zoned(target, options), types, _commit_options(options), originals, in_place=in_place)


def _commit_options(options: WriteOptions) -> CommitOptions:
    return CommitOptions(message=options.commit_message, mark=options.mark(), zone_maps=options.auto_zonemap)


def _zoned(target: AnyTarget, options: WriteOptions) -> AnyTarget:
    """The target whose commit builds zone maps of the columns that the options name."""
    schema = target.lance_schema if target.job is None else target.table_schema
    check_zone_columns(schema, options.auto_zonemap)
    if isinstance(target, PlainTarget):
        return replace(target, location=zoned(target.location, options.auto_zonemap))
    return target


def _check_creation_options(target: AnyTarget, options: WriteOptions) -> None:
    """Refuses options that apply when a table is made, where they contradict the existing table.

    Raises:
        InvalidInputError, UnsupportedFeatureError: there is such an option.
    """
    if target.base_version is None:
        return
    stable, version = options.enable_stable_row_ids, options.file_format_version
    has_stable = target.has_stable_row_ids
    if not isinstance(target, PartitionedTarget):
        if stable not in (None, has_stable):
            raise InvalidInputError(
                "option enable_stable_row_ids: stable row ids are chosen when a table is created, and this one "
                f"{'has them' if has_stable else 'has none'}; leave the option out, or DROP the table first"
            )
        return
    hint = "it is decided when the table is made; leave the option out, or DROP the table first"
    if stable not in (None, has_stable):
        raise UnsupportedFeatureError(f"option enable_stable_row_ids is {stable}: {hint}", feature="stable row ids")
    current = target.version.file_version.value
    if version not in (None, current):
        raise UnsupportedFeatureError(
            f"option file_format_version is {version}, the partitioned table has {current}: {hint}",
            feature="file format version of a partitioned table",
        )
