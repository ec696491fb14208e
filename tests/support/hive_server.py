"""A Hive metastore in memory over Thrift, by the generated classes of its protocol; it fails when it is asked to.

It does what was seen of Hive 2.3.10: names in lower case, ``EXTERNAL=TRUE`` alone makes a table external, files of
managed tables move and are deleted with their names. With ``catalogs`` it takes names of Hive 3.
"""

from __future__ import annotations

import copy
import re
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

_NAME = re.compile(r"[a-z0-9_]+")


class LostConnectionError(BaseException):
    """Ends a connection without a reply; the processor answers all other exceptions."""


class HiveServer:
    """A metastore.

    Args:
        warehouse: the folder of its databases.
        catalogs: names of catalogs beside ``hive``.

    Attributes:
        faults: for each method what happens to its next calls: ``lose`` ends the connection after the call was carried
            out, ``drop`` before; a function takes the arguments and gives the result.
        missing: methods that this release does not have.
        calls: (method, arguments) of all calls.
        compares: whether a change is made only if a parameter has the value that it names, as 2.3.10 and 4 do.
        delay: seconds that each call takes.
        most: the largest number of calls at the same time.
    """

    def __init__(self, warehouse: Path, catalogs: tuple[str, ...] = ()) -> None:
        self.warehouse = warehouse
        self.catalogs = ("hive", *catalogs)
        self.databases: dict[tuple[str, str], Any] = {}
        self.tables: dict[tuple[str, str, str], Any] = {}
        self.faults: dict[str, list[str | Callable[..., Any]]] = {}
        self.missing: set[str] = set() if catalogs else {"get_catalogs", "get_catalog"}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.connections = 0
        self.compares = True
        self.delay = 0.0
        self.most = 0
        self.port = 0
        self._now = 0
        self._lock = threading.RLock()
        self._open: set[socket.socket] = set()
        self.create_database(ttypes.Database(name="default", locationUri=str(warehouse)))

    @property
    def uri(self) -> str:
        """Its address."""
        return f"thrift://127.0.0.1:{self.port}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            raise AttributeError(name)
        raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{name}'")

    def hang_up(self) -> None:
        """Ends all connections, as a metastore that restarts does."""
        for connection in list(self._open):
            connection.shutdown(socket.SHUT_RDWR)
        while self._open:
            time.sleep(0.01)

    def sent(self, method: str) -> int:
        """The number of calls of a method."""
        return sum(name == method for name, _ in self.calls)

    # The protocol.

    def set_ugi(self, user: str, groups: list[str]) -> list[str]:
        return groups

    def get_catalogs(self) -> Any:
        return ttypes.GetCatalogsResponse(names=list(self.catalogs))

    def get_catalog(self, request: Any) -> Any:
        if request.name not in self.catalogs:
            raise ttypes.NoSuchObjectException(request.name)
        found = ttypes.Catalog(name=request.name, locationUri=f"file:{self.warehouse}")
        return ttypes.GetCatalogResponse(catalog=found)

    def get_all_databases(self) -> list[str]:
        return [name for catalog, name in self.databases if catalog == "hive"]

    def get_databases(self, pattern: str) -> list[str]:
        assert (pattern[0], pattern[-1]) == ("@", "#"), pattern
        return [name for catalog, name in self.databases if catalog == pattern[1:-1]]

    def get_database(self, name: str) -> Any:
        key = self._key(name)
        if key not in self.databases:
            raise ttypes.NoSuchObjectException(name)
        return copy.deepcopy(self.databases[key])

    def create_database(self, database: Any) -> None:
        key = ((database.catalogName or "hive"), database.name.lower())
        if key in self.databases:
            raise ttypes.AlreadyExistsException(f"Database {database.name} already exists")
        if not _NAME.fullmatch(key[1]):
            raise ttypes.InvalidObjectException(f"{database.name} is not a valid database name")
        kept = copy.deepcopy(database)
        kept.name, kept.locationUri = key[1], self._folder(database.locationUri or str(self.warehouse / f"{key[1]}.db"))
        self.databases[key] = kept

    def alter_database(self, name: str, database: Any) -> None:
        kept = self.databases[self._key(name)]  # This release changes nothing else.
        kept.parameters, kept.ownerName = database.parameters, database.ownerName

    def drop_database(self, name: str, delete_data: bool, cascade: bool) -> None:
        self.get_database(name)
        held = [key for key in self.tables if key[:2] == self._key(name)]
        if held and not cascade:
            raise ttypes.InvalidOperationException(f"Database {name} is not empty. One or more tables exist.")
        del self.databases[self._key(name)]

    def get_all_tables(self, name: str) -> list[str]:
        return [key[2] for key in self.tables if key[:2] == self._key(name)]

    def get_table(self, database: str, name: str) -> Any:
        key = (*self._key(database), name.lower())
        if key not in self.tables:
            raise ttypes.NoSuchObjectException(f"{database}.{name} table not found")
        return copy.deepcopy(self.tables[key])

    def get_table_req(self, request: Any) -> Any:
        assert request.dbName[0] != "@"
        return ttypes.GetTableResult(table=self.get_table(_wire(request), request.tblName))

    def get_table_objects_by_name(self, database: str, names: list[str]) -> list[Any]:
        return [self.get_table(database, name) for name in names if (*self._key(database), name) in self.tables]

    def get_table_objects_by_name_req(self, request: Any) -> Any:
        return ttypes.GetTablesResult(tables=self.get_table_objects_by_name(_wire(request), request.tblNames))

    def create_table(self, table: Any) -> None:
        key = ((table.catName or "hive"), table.dbName.lower(), table.tableName.lower())
        if key[:2] not in self.databases or not _NAME.fullmatch(key[2]):
            raise ttypes.InvalidObjectException(table.dbName)
        if key in self.tables:
            raise ttypes.AlreadyExistsException(f"Table {table.tableName} already exists")
        kept = copy.deepcopy(table)
        kept.dbName, kept.tableName, kept.catName = key[1], key[2], key[0] if len(self.catalogs) > 1 else None
        kept.parameters = {**(table.parameters or {}), "transient_lastDdlTime": "1"}
        is_view = table.tableType == "VIRTUAL_VIEW"
        _kept_by_database(kept)
        kept.sd.location = None if is_view else self._folder(table.sd.location)
        is_external = kept.parameters.get("EXTERNAL") == "TRUE"
        kept.tableType = table.tableType if is_view else _kind(is_external)
        self.tables[key] = kept

    def alter_table_with_environment_context(self, database: str, name: str, table: Any, context: Any) -> None:
        old = (*self._key(database), name.lower())
        new = (old[0], table.dbName.lower(), table.tableName.lower())
        kept, before = copy.deepcopy(table), self.get_table(database, name)
        if new != old and new in self.tables:
            raise ttypes.InvalidOperationException(f"new table {new[1]}.{new[2]} already exists")
        if new[:2] not in self.databases:
            raise ttypes.InvalidOperationException(f"no database {new[1]}")
        expected = context.properties or {}
        if self.compares and "expected_parameter_key" in expected:
            key = expected["expected_parameter_key"]
            if before.parameters.get(key) != expected["expected_parameter_value"] or not kept.parameters.get(key):
                raise ttypes.MetaException(
                    f"The table has been modified. The parameter value for key '{key}' is different"
                )
        _kept_by_database(kept)
        is_view = before.tableType == kept.tableType == "VIRTUAL_VIEW"
        kept.tableType = kept.tableType if is_view else _kind(kept.parameters.get("EXTERNAL") == "TRUE")
        if "DO_NOT_UPDATE_STATS" not in (context.properties or {}):
            kept.parameters |= {"numFiles": "1", "totalSize": "1"}
        if new != old and before.tableType == "MANAGED_TABLE":
            moved = self.warehouse / f"moved_{new[2]}"
            shutil.move(before.sd.location.removeprefix("file:"), moved)
            kept.sd.location = f"file:{moved}"
        del self.tables[old]
        self.tables[new] = kept

    def drop_table(self, database: str, name: str, delete_data: bool) -> None:
        found = self.get_table(database, name)
        del self.tables[(*self._key(database), name.lower())]
        if delete_data and found.tableType == "MANAGED_TABLE":
            shutil.rmtree(found.sd.location.removeprefix("file:"))

    def _key(self, name: str) -> tuple[str, str]:
        if not name.startswith("@"):
            return "hive", name.lower()
        catalog, _, database = name[1:].partition("#")
        return catalog, database.lower()

    def _folder(self, location: str) -> str:
        """The place as the server spells it; it makes the folder."""
        if location.startswith("/") or location.startswith("file:"):
            path = "/" + location.removeprefix("file:").strip("/")
            Path(path).mkdir(parents=True, exist_ok=True)
            return f"file:{path}"
        return location

    # What stands before it.

    def called(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a call, with what happens to it."""
        with self._lock:
            self.calls.append((name, arguments))
            waiting = self.faults.get(name)
            fault = waiting.pop(0) if waiting else ""
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self.delay)
            if fault == "drop":
                raise LostConnectionError
            if name in self.missing:
                raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{name}'")
            with self._lock:
                result = fault(*arguments) if callable(fault) else getattr(self, name)(*arguments)
            if fault == "lose":
                raise LostConnectionError
            return result
        finally:
            with self._lock:
                self._now -= 1

    def serve(self, connection: socket.socket) -> None:
        """Answers the calls of one connection."""
        with self._lock:
            self.connections += 1
            self._open.add(connection)
        transport = TSocket()
        transport.setHandle(connection)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        processor = ThriftHiveMetastore.Processor(_Handler(self))
        try:
            while True:
                processor.process(protocol, protocol)
        except (TTransportException, LostConnectionError, OSError, EOFError):
            pass
        finally:
            self._open.discard(connection)


class _Handler:
    def __init__(self, server: HiveServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._server.called(name, arguments)


@contextmanager
def hive_server(warehouse: Path, catalogs: tuple[str, ...] = ()) -> Iterator[HiveServer]:
    """A running metastore."""
    found = HiveServer(warehouse, catalogs)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            found.serve(self.request)

    with tcp_server(Connection) as port:
        found.port = port
        yield found


@contextmanager
def tcp_server(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    """A port where a handler answers."""

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()


def metastore_client(port: int) -> Any:
    """Another client, which takes what it gets."""
    transport = TBufferedTransport(TSocket("127.0.0.1", port))
    transport.open()
    return ThriftHiveMetastore.Client(TBinaryProtocol(transport))


def table_of_the_field(database: str, name: str, location: str, **parameters: str) -> Any:
    """A table as the field's implementation for Hive sends it."""
    column = ttypes.FieldSchema(name="__placeholder_id", type="bigint", comment="Placeholder column for empty table")
    storage = ttypes.StorageDescriptor(
        cols=[column],
        location=location,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=ttypes.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
    )
    markers = {"table_type": "lance", "managed_by": "storage", "empty_table": "true"}
    return ttypes.Table(
        tableName=name, dbName=database, sd=storage, parameters={**parameters, **markers}, tableType="EXTERNAL_TABLE"
    )


def _kept_by_database(table: Any) -> None:
    """Refuses what does not fit into a column of the database; names of columns are kept in lower case."""
    for column in table.sd.cols or ():
        column.name = column.name.lower()
    if len((table.viewOriginalText or "").encode()) > 32700:
        raise ttypes.MetaException("A truncation error was encountered trying to shrink LONG VARCHAR to length 32700")
    for name, value in (table.parameters or {}).items():
        if len(value.encode()) > 4000:
            raise ttypes.MetaException(f"value of {name} is longer than 4000")


def _wire(request: Any) -> str:
    return request.dbName if request.catName in (None, "hive") else f"@{request.catName}#{request.dbName}"


def _kind(is_external: bool) -> str:
    return "EXTERNAL_TABLE" if is_external else "MANAGED_TABLE"
