"""Types of procedures: their parameters, and the jobs that they can request from the JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, StringType, StructType

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.catalog.resolve import TableName, find
from lance_spark.spark.connector.catalog.views import view_name
from lance_spark.spark.connector.channel.handles import CatalogSettings, TableHandle
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.scan.local_rows import LocalRows
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.table.dataset import Dataset

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

TEXT, WHOLE, FLAG, NUMBER, TEXTS = StringType(), LongType(), BooleanType(), DoubleType(), ArrayType(StringType())


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter; an optional one is null if omitted."""

    name: str
    type: DataType
    comment: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, each as a list of strings."""

    values: Mapping[str, tuple[str | None, ...] | None]

    def text(self, name: str) -> str | None:
        """A string, None if omitted."""
        given = self.values.get(name)
        return None if given is None else given[0]

    def required(self, name: str) -> str:
        """A string.

        Raises:
            InvalidInputError: it is null or empty.
        """
        given = self.text(name)
        if not given:
            raise InvalidInputError(f"parameter {name} is empty")
        return given

    def integer(self, name: str) -> int | None:
        """A whole number."""
        given = self.text(name)
        return None if given is None else int(given)

    def number(self, name: str) -> float | None:
        """A number."""
        given = self.text(name)
        return None if given is None else float(given)

    def age(self, name: str) -> timedelta | None:
        """A number of days before now.

        Raises:
            InvalidInputError: the result is out of the calendar's range.
        """
        days = self.number(name)
        if days is None:
            return None
        try:
            age = timedelta(days=days)
            datetime.now(timezone.utc) - age
            return age
        except (OverflowError, ValueError) as error:
            raise InvalidInputError(f"parameter {name}: the calendar does not go back {days} days") from error

    def moment(self, name: str) -> datetime | None:
        """Milliseconds since 1970.

        Raises:
            InvalidInputError: a moment before the year 1 or after the year 9999.
        """
        millis = self.integer(name)
        try:
            return None if millis is None else _EPOCH + timedelta(milliseconds=millis)
        except OverflowError as error:
            raise InvalidInputError(
                f"parameter {name} is {millis}, which is not a valid time; give milliseconds since 1970"
            ) from error

    def flag(self, name: str) -> bool | None:
        """True or false."""
        given = self.text(name)
        return None if given is None else given == "true"

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty if omitted.

        Raises:
            InvalidInputError: it contains a null.
        """
        given = self.values.get(name) or ()
        known = tuple(text for text in given if text is not None)
        if len(known) != len(given):
            raise InvalidInputError(f"parameter {name} has a null in it; leave it out")
        return known


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a procedure, and the settings of the session."""

    catalog: CatalogSettings
    arguments: Arguments
    session: Session = field(default_factory=Session)
    namespace_of_names: tuple[str, ...] = ()

    def identifier(self) -> tuple[str, ...]:
        """The name in the parameter `table`, without the catalog."""
        return self.table_name(self.arguments.required("table")).identifier

    def remember_table(self) -> None:
        """Looks up the table in the parameter `table` for the messages of errors, which then have its name."""
        name = self.arguments.text("table")
        with suppress(LanceError):
            if name is not None:
                find(self.table_name(name))

    def table(self) -> AnyDataset:
        """The newest version of the table in the parameter `table`.

        Raises:
            NotFoundError: there is none.
            InvalidInputError: it is a view.
        """
        name = self.arguments.required("table")
        place = find(self.table_name(name))
        newest = None if place is None else find_table(place.location())
        if newest is None:
            view = view_name(self.table_name(name))
            if view is not None:
                raise InvalidInputError(f"{view} is a view; name a table that it reads")
            raise NotFoundError(f"there is no table {name} in catalog {self.catalog.name}")
        return newest

    def partitioned_table(self) -> PartitionedDataset:
        """The newest version of the partitioned table in the parameter `table`.

        Raises:
            NotFoundError: there is none.
            UnsupportedFeatureError: it is not partitioned.
        """
        table = self.table()
        if isinstance(table, Dataset):
            raise UnsupportedFeatureError(
                f"{self.arguments.required('table')} has no partitions; CREATE TABLE ... PARTITIONED BY makes such",
                feature="partition fields of a plain table",
            )
        return table

    def spelled_as_in(self, table: AnyDataset, name: str) -> str:
        """A column's name as the table spells it; `name` if Spark would not match any."""
        known = table.lance_schema.names()
        alike = (
            []
            if name in known or self.session.case_sensitive
            else [item for item in known if item.lower() == name.lower()]
        )
        return alike[0] if len(alike) == 1 else name

    def namespace(self, text: str) -> tuple[str, ...]:
        """The path of a namespace from a statement, without the catalog."""
        parts = tuple(parse_path(text))
        return parts[1:] if parts[:1] == (self.catalog.name,) else parts

    def table_name(self, text: str) -> TableName:
        """A table name from a statement, with or without the catalog; or a path."""
        if "/" in text and "`" not in text:
            return TableName(self.catalog, (), text)
        parts = parse_path(text)
        if len(parts) > 1 and parts[0] == self.catalog.name:
            parts = parts[1:]
        return TableName(self.catalog, parts[:-1] or self.namespace_of_names, parts[-1])


@dataclass(frozen=True, slots=True)
class Tasks:
    """A Spark job: `function` is called with each item of `work`.

    Attributes:
        state: the input of `Procedure.finish` besides the results.
    """

    function: Callable[..., object]
    work: Sequence[bytes]
    state: bytes


@dataclass(frozen=True, slots=True)
class Query:
    """A Spark job over the rows of a query; its function is planned once the columns are known."""

    text: str


@dataclass(frozen=True, slots=True)
class ColumnStatisticsQuery:
    """A Spark job that computes statistics of the columns of a query.

    `Procedure.finish` gets one result: a JSON object with the number of rows, and for each column by name the map of
    Spark's `CatalogColumnStat`.
    """

    text: str
    state: bytes


@dataclass(frozen=True, slots=True)
class SourceToDescribe:
    """A table, view or folder of files whose description Spark is asked for.

    Attributes:
        name: in SQL.
        format: of files at a path; empty for a name of a catalog.
    """

    name: str
    format: str = ""


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements that the JVM runs in order, in the session of the call; none of them may be the call itself.

    `Procedure.finish` gets the rows of the last one as a JSON array of arrays of texts, then the description of the
    source after them as a JSON object if one is named.
    """

    texts: tuple[str, ...]
    state: bytes
    source: SourceToDescribe | None = None


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan for the rows of a query: `function` processes those of one Spark partition."""

    function: Callable[..., object]
    state: bytes


@dataclass(frozen=True, slots=True)
class AnalyzedQuery:
    """The analysed query of a procedure.

    Attributes:
        columns: of its rows.
        tables: the versions of Lance tables that it reads.
    """

    columns: StructType
    tables: tuple[TableHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure. It returns its result directly, or by a job whose results, in any order, are passed to `finish`.

    `finish` returns the result, or another job: of tasks where other writers were first, of statements for a next step.

    Attributes:
        plan: for procedures that return a `Query`.
        abort: removes the files of the tasks of a failed job.
        changes_table: whether the procedure changes the table in the parameter `table`, so that what Spark has cached
            of it is refreshed.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: Callable[[Invocation], LocalRows | Tasks | Query | ColumnStatisticsQuery | Statements]
    plan: Callable[[Invocation, AnalyzedQuery], QueryPlan] | None = None
    finish: Callable[[bytes, Sequence[bytes]], LocalRows | Tasks | Statements] | None = None
    abort: Callable[[bytes], None] | None = None
    changes_table: bool = False


TABLE = Parameter("table", TEXT, "name of the table in this catalog, or its path", required=True)
