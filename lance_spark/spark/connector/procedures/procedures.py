"""``CALL <catalog>.system.<procedure>(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import DataType, StructType

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.spark.connector.channel.handles import CatalogSettings, TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, Session, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.procedures import (
    analyze_procedure,
    branch_procedures,
    catalog_procedures,
    column_procedures,
    import_procedure,
    index_optimization,
    index_procedures,
    maintenance_procedures,
    partition_procedures,
    search_procedures,
    stream_procedures,
    version_procedures,
)
from lance_spark.spark.connector.procedures.procedure_types import (
    AnalyzedQuery,
    Arguments,
    ColumnStatisticsQuery,
    Invocation,
    Procedure,
    Query,
    SourceToDescribe,
    Statements,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows
from lance_spark.spark.connector.scan.settings import check_settings

_MODULES = (
    analyze_procedure,
    maintenance_procedures,
    version_procedures,
    branch_procedures,
    column_procedures,
    partition_procedures,
    catalog_procedures,
    import_procedure,
    index_procedures,
    index_optimization,
    search_procedures,
    stream_procedures,
)
_PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure for module in _MODULES for procedure in module.PROCEDURES
}


@dataclass(frozen=True, slots=True)
class ProcedureRequest:
    """A procedure by name; an empty name requests all names."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class ParameterDescription:
    """A parameter; an optional one has the default NULL."""

    name: str
    type: DataType
    comment: str
    required: bool


@dataclass(frozen=True, slots=True)
class ProcedureDescription:
    """A procedure, if there is one of this name."""

    found: bool
    description: str = ""
    parameters: tuple[ParameterDescription, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call, or a later step of one.

    Attributes:
        namespace: the namespace of table names without one.
        columns: of the rows of the query that the procedure has requested.
        tables: the Lance tables that this query reads.
    """

    catalog: CatalogSettings
    name: str
    namespace: tuple[str, ...] = ()
    arguments: Mapping[str, tuple[str | None, ...] | None] = field(default_factory=dict)
    columns: StructType | None = None
    tables: tuple[TableHandle, ...] = ()

    def invocation(self, session: Session) -> Invocation:
        """The call in the form for procedures."""
        return Invocation(self.catalog, Arguments(self.arguments), session, self.namespace)


@dataclass(frozen=True, slots=True)
class CallReply:
    """The result, or the job to run first.

    Attributes:
        step: "done"; "tasks": the attachments are the function, the state and the work; "query"; or "statistics": of
            the columns of the query, the attachment is the state; "statements": the attachment is the state.
        source: described after the statements.
        changed: name of the table that has changed.
    """

    step: str
    result: LocalRows | None = None
    query: str | None = None
    statements: tuple[str, ...] = ()
    source: SourceToDescribe | None = None
    changed: tuple[str, ...] | None = None


@operation("procedure.describe")
def describe(request: ProcedureRequest, _call: Call) -> ProcedureDescription:
    """The procedure's parameters."""
    found = _PROCEDURES.get(request.name)
    if found is None:
        return ProcedureDescription(False, names=tuple(sorted(_PROCEDURES)))
    parameters = [ParameterDescription(item.name, item.type, item.comment, item.required) for item in found.parameters]
    return ProcedureDescription(True, found.description, tuple(parameters))


@operation("procedure.call")
def call(request: CallRequest, call: Call) -> Reply:
    """The result of a procedure, or its job."""
    check_settings(call.session)
    procedure, invocation = _procedure(request), request.invocation(call.session)
    result = procedure.call(invocation)
    changed = invocation.identifier() if procedure.changes_table else None
    if isinstance(result, Query):
        return Reply(CallReply("query", query=result.text, changed=changed))
    if isinstance(result, ColumnStatisticsQuery):
        return Reply(CallReply("statistics", query=result.text, changed=changed), (result.state,))
    return _answer(result, changed)


def _answer(result: LocalRows | Tasks | Statements, changed: tuple[str, ...] | None = None) -> Reply:
    if isinstance(result, Tasks):
        return _tasks(result, changed)
    if isinstance(result, Statements):
        body = CallReply("statements", statements=result.texts, source=result.source, changed=changed)
        return Reply(body, (result.state,))
    return Reply(CallReply("done", result, changed=changed))


def _tasks(job: Tasks, changed: tuple[str, ...] | None = None) -> Reply:
    attachments = (command(job.function, MESSAGE_TYPE), job.state, *job.work)  # type: ignore[arg-type]
    return Reply(CallReply("tasks", changed=changed), attachments)


@operation("procedure.plan")
def plan(request: CallRequest, call: Call) -> Reply:
    """The function for the rows of a query, and the state."""
    procedure = _procedure(request)
    assert procedure.plan is not None, "the procedure has asked for a query"
    assert request.columns is not None, "its columns are known"
    planned = procedure.plan(request.invocation(call.session), AnalyzedQuery(request.columns, request.tables))
    return Reply(Done(), (command(planned.function, MESSAGE_TYPE), planned.state))  # type: ignore[arg-type]


@operation("procedure.finish")
def finish(request: CallRequest, call: Call) -> Reply:
    """The result of a procedure after its job, or its next job; attached are its state and the results of its tasks."""
    procedure = _procedure(request)
    assert procedure.finish is not None, "the procedure has had a job"
    try:
        result = procedure.finish(call.attachments[0], call.attachments[1:])
    except LanceError:
        request.invocation(call.session).remember_table()
        raise
    return _answer(result)


@operation("procedure.abort")
def abort(request: CallRequest, call: Call) -> Done:
    """Cleans up after a failed job."""
    procedure = _procedure(request)
    if procedure.abort is not None:
        procedure.abort(call.attachments[0])
    return Done()


def _procedure(request: CallRequest) -> Procedure:
    found = _PROCEDURES.get(request.name)
    if found is None:
        raise InvalidInputError(
            f"there is no procedure {request.name}; the procedures are {', '.join(sorted(_PROCEDURES))}"
        )
    return found
