"""Copies a table of another format; CONVERT TO LANCE calls it.

The rows come by statements that Spark runs in the session of the call, and each of their answers is followed by the
next decision here: the source is described, the table is made at a place without a name, the files come in steps, both
sides are compared, and the table gets its name.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType

from lance_spark.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lance_spark.expr.nodes import quote_string
from lance_spark.schema.projection import quoted
from lance_spark.spark.connector.catalog.resolve import display_name, find, new_identifier, open_namespace
from lance_spark.spark.connector.catalog.views import view_name
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.imports.checksums import Checksum
from lance_spark.spark.connector.imports.checksums import query as checksum_query
from lance_spark.spark.connector.imports.source import Source, SourceName, changes
from lance_spark.spark.connector.imports.staging import ImportState, Staging
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    TEXT,
    WHOLE,
    Invocation,
    Parameter,
    Procedure,
    SourceToDescribe,
    Statements,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type

_MAX_FILES, _MAX_BYTES = 1000, 10 << 30
_IMPORTED = row_type(
    rows_imported=LongType(),
    files_read=LongType(),
    bytes_read=LongType(),
    bytes_written=LongType(),
    checksum=StringType(),
    definition=StringType(),
    not_imported=ArrayType(StringType()),
    dry_run=BooleanType(),
)


@dataclass(frozen=True, slots=True)
class _Import:
    """A call between two of its steps.

    Attributes:
        after: the step whose answer comes next: "describe", "count", "copy" or "compare".
        state: of the import, once it has begun.
        done: steps that this call has finished or did not need; one without rows makes no version.
        version: that is compared.
    """

    catalog: CatalogSettings
    source: SourceName
    identifier: tuple[str, ...]
    staging: Staging
    max_files: int
    max_bytes: int
    dry_run: bool
    restart: bool
    after: str = "describe"
    described: Source | None = None
    state: ImportState | None = None
    done: int = 0
    version: int = 0

    @property
    def table(self) -> str:
        """The table at its place, as SQL writes it."""
        return quoted([self.catalog.name, self.staging.uri])

    @property
    def name(self) -> str:
        """The name that the table is to get."""
        return display_name(self.catalog, self.identifier)

    def known_source(self) -> Source:
        """The description of the source, which every step but the first has."""
        assert self.described is not None, "the source is described first"
        return self.described

    def begun(self) -> ImportState:
        """The state, which every step that copies has."""
        assert self.state is not None, "the import has begun"
        return self.state

    def run(self, after: str, *texts: str, describes: bool = True) -> Statements:
        """Statements of one step; then Spark lists the source again."""
        source = SourceToDescribe(self.source.sql, self.source.format) if describes else None
        refresh = (self.source.refresh,) if describes and not texts else ()
        return Statements((*refresh, *texts), pickle.dumps(replace(self, after=after)), source)


def _import(call: Invocation) -> Statements:
    given = call.arguments
    table = call.table_name(given.required("table"))
    if table.path is not None:
        raise InvalidInputError(f"{table.path!r} is a path; give the name that the table is to get, and location")
    if find(table) is not None or view_name(table) is not None:
        raise AlreadyExistsError(f"{display_name(call.catalog, table.identifier)} exists; import makes new tables only")
    identifier = new_identifier(call.catalog, table.identifier)
    if identifier is None:
        raise NotFoundError(f"there is no namespace {display_name(call.catalog, table.namespace)}")
    names = open_namespace(call.catalog)
    copy = _Import(
        call.catalog,
        SourceName.parse(given.required("source")),
        identifier,
        Staging.of(names, identifier, table.storage_options(), given.text("location")),
        _positive(call, "max_files_per_step", _MAX_FILES),
        _positive(call, "max_bytes_per_step", _MAX_BYTES),
        bool(given.flag("dry_run")),
        bool(given.flag("restart")),
    )
    return copy.run("describe")


def _positive(call: Invocation, name: str, otherwise: int) -> int:
    value = call.arguments.integer(name)
    if value is not None and value < 1:
        raise InvalidInputError(f"parameter {name} is {value}; give 1 or more")
    return otherwise if value is None else value


def _next(state: bytes, results: Sequence[bytes]) -> LocalRows | Statements:
    copy: _Import = pickle.loads(state)  # Pickled by this package, on this driver.
    rows: list[list[str]] = json.loads(results[0])
    if copy.after == "count":
        return _planned(copy, int(rows[0][0]))
    described = Source.parse(copy.source, results[1])
    if copy.after == "describe":
        if copy.dry_run:
            count = f"SELECT CAST(count(*) AS STRING) FROM {copy.source.sql}"
            return replace(copy, described=described).run("count", count, describes=False)
        return _copied(_begun(copy, described))
    _check_unchanged(copy, described)
    return _copied(copy) if copy.after == "copy" else _published(copy, rows)


def _planned(copy: _Import, rows: int) -> LocalRows:
    source = copy.known_source()
    num_files = None if source.files is None else len(source.files)
    row = (rows, num_files, source.num_bytes, None, None, source.definition(copy.name), source.dropped, True)
    return LocalRows.of(_IMPORTED, [row])


def _begun(copy: _Import, described: Source) -> _Import:
    """The import that goes on, or a new one."""
    if copy.restart and copy.staging.is_begun():
        copy.staging.remove()
    reads_whole = described.files is None or "_metadata" in (field.name.lower() for field in described.columns.fields)
    steps = (None,) if reads_whole else described.steps(copy.max_files, copy.max_bytes)
    new = ImportState.begin(copy.source.sql, described.definition(copy.table), described.files, steps)
    begun = copy.staging.state() or copy.staging.begin(new)
    if begun.source != copy.source.sql:
        raise InvalidInputError(
            f"an import of {begun.source} to {copy.name} has begun; go on with it, or give restart => true"
        )
    begun_copy = replace(copy, described=described, state=begun)
    _check_unchanged(begun_copy, described)
    return begun_copy


def _check_unchanged(copy: _Import, now: Source) -> None:
    begun = copy.begun()
    difference = changes(begun.files or (), now.files or ())
    if difference is None and now.definition(copy.table) != begun.definition:
        difference = "its columns or properties are others"
    if difference is not None:
        raise InvalidInputError(
            f"{copy.source.sql} has changed since its import to {copy.name} began: {difference}; import it with "
            "restart => true once nobody writes to it"
        )


def _copied(copy: _Import) -> Statements:
    """The next step, or the comparison after the last one."""
    begun = copy.begun()
    copy.staging.check_begun(begun)
    table = copy.staging.table()
    refresh = copy.source.refresh
    if table is None:
        if copy.done:
            raise RetryableConflictError(f"somebody has deleted the table at {copy.staging.uri}; run the import again")
        return copy.run("copy", begun.definition.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1), refresh)
    done = max(copy.done, copy.staging.steps_done(begun))
    if done < len(begun.steps):
        return replace(copy, done=done + 1).run("copy", _insert(copy, begun, done), refresh)
    columns = copy.known_source().columns
    there = checksum_query(columns, copy.source.sql)
    here = checksum_query(columns, f"{copy.table} VERSION AS OF {table.version}")
    compared = replace(copy, version=table.version)
    both = f"SELECT * FROM (SELECT 0, * FROM ({there}) UNION ALL SELECT 1, * FROM ({here})) ORDER BY 1"
    return compared.run("compare", refresh, both)


def _insert(copy: _Import, begun: ImportState, number: int) -> str:
    names = ", ".join(quoted([field.name]) for field in copy.known_source().columns.fields)
    mark = f"'txnAppId' = {quote_string(begun.app)}, 'txnVersion' = '{number}'"
    text = f"INSERT INTO {copy.table} WITH ({mark}) BY NAME SELECT {names} FROM {copy.source.sql}"
    paths = begun.steps[number]
    if paths is None or len(begun.steps) == 1:
        return text
    return f"{text} WHERE _metadata.file_path IN ({', '.join(map(quote_string, paths))})"


def _published(copy: _Import, rows: Sequence[Sequence[str]]) -> LocalRows:
    source, begun = copy.known_source(), copy.begun()
    there, here = (Checksum.parse(row[1:]) for row in rows)
    difference = there.difference(here, source.columns.names)
    if difference is not None:
        copy.staging.check_begun(begun)  # Another call may have given the table its name.
        copy.staging.remove()
        raise CorruptFileError(
            f"the copy of {copy.source.sql} for {copy.name} was wrong and is deleted, because {difference}; import it "
            "again",
            root=copy.staging.uri,
        )
    num_bytes = copy.staging.num_bytes()
    copy.staging.publish(open_namespace(copy.catalog), copy.identifier, begun, copy.version)
    num_files = None if source.files is None else len(source.files)
    figures = (there.rows, num_files, source.num_bytes, num_bytes, there.of_rows)
    return LocalRows.of(_IMPORTED, [(*figures, source.definition(copy.name), source.dropped, False)])


PROCEDURES = (
    Procedure(
        "import_table",
        "Copies a table, a view or a folder of files that Spark reads to a new table, in steps that go on after a "
        "failure, and compares both before the table gets its name.",
        (
            Parameter(
                "source", TEXT, "a name of any catalog, or a format and a path: parquet.`/data/events`", required=True
            ),
            Parameter("table", TEXT, "the name of the new table in this catalog", required=True),
            Parameter("dry_run", FLAG, "only shows what would be made; false if it is left out"),
            Parameter(
                "location",
                TEXT,
                "where the table is to be: a path below the catalog's root, or a URI; a catalog in a folder chooses it "
                "if it is left out",
            ),
            Parameter("max_files_per_step", WHOLE, f"files that one version brings; {_MAX_FILES} if it is left out"),
            Parameter(
                "max_bytes_per_step", WHOLE, f"bytes of files that one version brings; {_MAX_BYTES} if it is left out"
            ),
            Parameter(
                "restart",
                FLAG,
                "deletes what an import to this name that did not end has copied, and begins again; false if it is "
                "left out",
            ),
        ),
        _import,
        finish=_next,
        changes_table=True,
    ),
)
