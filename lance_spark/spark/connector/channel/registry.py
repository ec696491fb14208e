"""The operations that the JVM can request, by name.

An operation is a function of a request (a frozen dataclass) and its call; it returns a dataclass, or a `Reply` with
attachments::

    @operation("table.truncate")
    def truncate(request: TruncateRequest, call: Call) -> Done: ...
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.spark.connector.channel.codec import decode, encode
from lance_spark.spark.connector.channel.conditions import ErrorReply, describe, describe_planner_memory
from lance_spark.spark.connector.channel.table_names import remembering, with_names
from lance_spark.storage.patience import one_statement

PROTOCOL = 2
"""The JVM and Python reject a different number; it changes with the channel's format, not with its operations."""

_MODULES = (
    "catalog.catalog",
    "catalog.ddl",
    "catalog.make_table",
    "catalog.metadata",
    "catalog.missing_tables",
    "catalog.partitions",
    "catalog.table",
    "catalog.views",
    "channel.readiness",
    "procedures.procedures",
    "scan.changelog",
    "scan.scan",
    "search.nearest_join",
    "search.search",
    "search.text_functions",
    "streaming.sink",
    "streaming.source",
    "streaming.tables",
    "write.row_level",
    "write.write",
)
"""The modules of `lance_spark.spark.connector` with operations."""


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of the requesting Spark session.

    Attributes:
        parallelism: tasks that the cluster runs at a time.
        inline_bytes: how small a read is that the planner does by itself, as the user has written it.
        top_n, aggregates, selectivity: whether scans do what the settings of these names say, as the user has written
            it (docs/reference/settings.md); None if it is not set.
        use_scalar_index: whether scans ask indexes, as the user has written it.
        vector_search_approximate: whether vector indexes may answer ORDER BY with LIMIT, as the user has written it.
        vector_search_inline_bytes: bytes of vectors that the planner compares by itself, as the user has written it.
        text_search_inline_bytes: bytes of files that the planner reads for a text search, as the user has written it.
        blob_mark: begins the values that `blob_uri` and `blob_ingest` have made, in base64.
        blob_key: signs where described blobs are, in base64.
        setting_names: the settings under spark.sql.lance. that the session has, without this prefix.
        store_failed: whether the store has failed an earlier request of this statement, which then waits no more.
        txn_app_id, txn_version: the settings spark.sql.lance.txnAppId and spark.sql.lance.txnVersion, which name the
            writes of the session.
        wap_branch, wap_id: the settings spark.wap.branch and spark.wap.id, which choose branches of audited tables.
        txn_planned: when Spark chose the rows of a batch whose writes are named so, in milliseconds since 1970.
    """

    time_zone: str = "UTC"
    case_sensitive: bool = False
    parallelism: int = 1
    inline_bytes: str | None = None
    top_n: str | None = None
    aggregates: str | None = None
    selectivity: str | None = None
    use_scalar_index: str | None = None
    vector_search_approximate: str | None = None
    vector_search_inline_bytes: str | None = None
    text_search_inline_bytes: str | None = None
    setting_names: tuple[str, ...] = ()
    blob_mark: str | None = None
    blob_key: str | None = None
    store_failed: bool = False
    txn_app_id: str | None = None
    txn_version: str | None = None
    txn_planned: int | None = None
    wap_branch: str | None = None
    wap_id: str | None = None

    def with_transaction(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a write, with the transaction that the session's settings name, unless they name one."""
        planned = None if self.txn_planned is None else str(self.txn_planned)
        settings = {"txnAppId": self.txn_app_id, "txnVersion": self.txn_version, "txnPlanned": planned}
        named = {name.lower() for name in options}
        if not named.isdisjoint(name.lower() for name in settings):
            return dict(options)
        return {**options, **{name: value for name, value in settings.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Call:
    """The context of a request."""

    session: Session = field(default_factory=Session)
    attachments: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: a dataclass and binary attachments."""

    body: object
    attachments: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A reply without further content."""

    done: bool = True


@dataclass(frozen=True, slots=True)
class _Envelope:
    protocol: int
    op: str
    session: Session = field(default_factory=Session)


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler and the type of its request."""

    request: type
    handler: Callable[[Any, Call], object]


HandlerT = TypeVar("HandlerT", bound=Callable[..., object])

_operations: dict[str, Operation] = {}


def operation(name: str) -> Callable[[HandlerT], HandlerT]:
    """Registers a function as the operation `name`; the type of its first parameter is that of the request."""

    def register(handler: HandlerT) -> HandlerT:
        if name in _operations:
            raise ValueError(f"there are two operations {name}")
        request = next(kind for key, kind in get_type_hints(handler).items() if key != "return")
        _operations[name] = Operation(request, handler)
        return handler

    return register


def answer(request: bytes, attachments: Sequence[bytes]) -> tuple[bytes, tuple[bytes, ...]]:
    """The reply to a request, both JSON in UTF-8, with attachments.

    A `LanceError` becomes a reply too, and so does a `MemoryError`.
    """
    with remembering():
        try:
            reply = _answered(json.loads(request), tuple(attachments))
        except LanceError as error:
            described = describe(error)
            reply = Reply(ErrorReply(replace(described, message=with_names(described.message))))
        except MemoryError as error:
            reply = Reply(ErrorReply(describe_planner_memory(error)))
    body = json.dumps(encode(reply.body)).encode()
    return body, reply.attachments


def _answered(message: dict[str, object], attachments: tuple[bytes, ...]) -> Reply:
    envelope = decode(_Envelope, message)
    if envelope.protocol != PROTOCOL:
        raise InvalidInputError(
            f"the connector's jar speaks protocol {envelope.protocol}, the Python package {PROTOCOL}; "
            "use the jar that the package carries"
        )
    found = known_operations().get(envelope.op)
    if found is None:
        raise InvalidInputError(f"the connector's jar asks for {envelope.op!r}, which the Python package does not know")
    with one_statement(store_failed=envelope.session.store_failed):
        result = found.handler(decode(found.request, message.get("args", {})), Call(envelope.session, attachments))
    return result if isinstance(result, Reply) else Reply(result)


def known_operations() -> Mapping[str, Operation]:
    """All operations by name."""
    for module in _MODULES:
        import_module(f"lance_spark.spark.connector.{module}")
    return _operations
