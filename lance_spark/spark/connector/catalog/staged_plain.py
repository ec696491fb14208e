"""Plain tables that a statement makes or replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.spark.connector.catalog.resolve import ResolvedTable, open_namespace
from lance_spark.spark.connector.catalog.staged import StagedTable, delete_staged, stable_row_ids
from lance_spark.spark.connector.catalog.table import READS, WRITES, TableDescription, describe
from lance_spark.spark.jobs.plain_target import plan_plain_write
from lance_spark.spark.jobs.target import Version, WriteMode
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.manifest import Manifest


class StagedPlainTable(StagedTable):
    """A plain table: only its name is reserved, or it is to be replaced."""

    def job(
        self,
        columns: StructType,
        options: Mapping[str, str],
        *,
        like: pa.Schema | None = None,
        from_query: bool = False,
    ) -> WriteJob:
        handle, staged = self.handle, self.staged
        parsed = TableProperties.parse(staged.properties, handle.uri, options)
        parsed.options.check_makes_table(handle.branch)
        parsed.options.check_without_partitions()
        base = None if handle.version is None else handle.open()[1]
        mode = WriteMode.CREATE if base is None else WriteMode.OVERWRITE
        write_options = parsed.options
        if base is None:
            write_options = replace(write_options, enable_stable_row_ids=stable_row_ids(write_options, staged.catalog))
        return plan_plain_write(
            handle.location(),
            base,
            columns,
            mode,
            write_options,
            config=parsed.config,
            like=like,
            from_query=from_query,
            constraints=staged.constraints,
        )

    def give_up(self) -> None:
        staged = self.staged
        if not staged.declared or staged.catalog is None or staged.identifier is None:
            return
        if self.handle.location().latest() is None:
            # The job has removed its files. A directory that the statement has named may hold others.
            open_namespace(staged.catalog).drop_table(staged.identifier, purge="location" not in staged.properties)

    def describe(self, place: ResolvedTable, made: Version | None) -> TableDescription:
        assert isinstance(made, Manifest), "a table that is made has a version"
        return describe(place, Dataset(place.location(), made), READS + WRITES)

    def _delete_unnamed(self, made: Version | None) -> None:
        delete_staged(self.handle, self.staged)
