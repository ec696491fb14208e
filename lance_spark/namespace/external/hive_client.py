"""Connections to a Hive metastore over Thrift, and what its errors mean. The client needs the extra ``hive``."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.server_errors import LostReplyError

Reply = TypeVar("Reply")

_PORT = 9083
_CONNECT_SECONDS, _REPLY_SECONDS, _WHOLE_REPLY_SECONDS = 10.0, 180.0, 600.0
_LARGEST_TEXT, _LONGEST_LIST, _LARGEST_REPLY = 1 << 24, 1 << 20, 1 << 28
_MAX_SHOWN = 500
_NEEDS_EXTRA = "impl = hive needs the extra: pip install lance-spark[hive]"


class RefusedError(InvalidInputError):
    """An operation that the metastore refuses in the state that it is in."""


class UnknownMethodError(UnsupportedFeatureError):
    """A call that this release of the metastore does not have."""


_KINDS: Mapping[str, type[LanceError]] = {
    "NoSuchObjectException": NotFoundError,
    "UnknownDBException": NotFoundError,
    "UnknownTableException": NotFoundError,
    "AlreadyExistsException": AlreadyExistsError,
    "InvalidObjectException": InvalidInputError,
    "InvalidInputException": InvalidInputError,
    "InvalidOperationException": RefusedError,
}


@dataclass(frozen=True, slots=True)
class MetastoreAddress:
    """The address of a metastore."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_addresses(uris: str) -> tuple[MetastoreAddress, ...]:
    """The addresses in ``thrift://host:port``, several with commas.

    >>> [str(address) for address in parse_addresses("thrift://one:9083, thrift://two")]
    ['one:9083', 'two:9083']

    Raises:
        InvalidInputError: another scheme, or no host.
    """
    addresses = []
    for uri in uris.split(","):
        try:
            parts = urlsplit(uri.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or parts.scheme != "thrift" or parts.path not in ("", "/") or parts.query or "@" in parts.netloc:
            raise InvalidInputError("uri of a Hive metastore is thrift://host:port, or several of them with commas")
        addresses.append(MetastoreAddress(host, _PORT if port is None else port))
    return tuple(addresses)


class MetastoreClient:
    """Calls of a metastore over a pool of connections, for all threads.

    A connection that failed is closed. Processes that are forked make their own.

    Args:
        addresses: tried in turn until one answers.
        user: in whose name to ask, and the groups of that user; None for nobody's.
        size: how many connections there are at most.

    Raises:
        StorageError: pymetastore is not installed.
    """

    def __init__(
        self, addresses: tuple[MetastoreAddress, ...], user: tuple[str, tuple[str, ...]] | None, size: int
    ) -> None:
        self._addresses = addresses
        self._user = user
        self._size = size
        self._types = metastore_types()
        self._broken = _broken_errors()
        self._start()

    def ask(self, about: str, call: Callable[[Any], Reply], *, repeats: bool = True) -> Reply:
        """The reply to a call.

        Args:
            about: the object, for messages.
            call: takes the generated client.
            repeats: whether to repeat the call on a new connection if the first one fails; False for changes.

        Raises:
            LostReplyError: there is no proper reply to a call that is not repeated.
            LanceError: of the class that fits the exception of the metastore.
        """
        if self._process != os.getpid():
            self._start()  # Sockets of the parent process are its own.
        with self._free:
            connection = self._idle_or_new()
            try:
                return self._called(connection, about, call)
            except LostReplyError:
                if not repeats:
                    raise
            return self._called(self._connected(), about, call)

    def _start(self) -> None:
        self._process = os.getpid()
        self._free = threading.BoundedSemaphore(self._size)
        self._idle: list[_Connection] = []
        self._first = 0

    def _called(self, connection: _Connection, about: str, call: Callable[[Any], Reply]) -> Reply:
        is_sound = False
        try:
            with self._translated(about, connection.address):
                connection.begin()
                reply = call(connection.client)
                is_sound = True
                return reply
        except LanceError as error:
            # An exception that the call declares; after others the metastore closes the connection.
            is_sound = not isinstance(error, LostReplyError)
            raise
        finally:
            if is_sound:
                self._idle.append(connection)
            else:
                connection.close()

    def _idle_or_new(self) -> _Connection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # Another thread was first.
            if connection.is_open():
                return connection
            connection.close()
        return self._connected()

    def _connected(self) -> _Connection:
        reasons = []
        for turn in range(len(self._addresses)):
            at = (self._first + turn) % len(self._addresses)
            address = self._addresses[at]
            try:
                connection = _Connection(address)
            except (OSError, UnicodeError) as error:
                reasons.append(f"{address}: {error}")
                continue
            try:
                if self._user is not None:
                    user, groups = self._user
                    with self._translated(f"the user {user}", address):
                        connection.begin()
                        connection.client.set_ugi(user, list(groups))
            except LanceError as error:
                connection.close()
                reasons.append(str(error))
                continue
            except BaseException:
                connection.close()
                raise
            self._first = at
            return connection
        raise StorageError(f"no Hive metastore answers: {'; '.join(reasons)}")

    @contextmanager
    def _translated(self, about: str, address: MetastoreAddress) -> Iterator[None]:
        from thrift.Thrift import TApplicationException, TException

        who = f"the Hive metastore at {address}"
        try:
            yield
        except TApplicationException as error:
            if error.type == TApplicationException.UNKNOWN_METHOD:
                raise UnknownMethodError(f"{who} does not know the call: {error}", feature="Hive metastore") from error
            raise LostReplyError(f"{who} failed at {about}: {str(error)[:_MAX_SHOWN]}") from error
        except self._broken as error:
            reason = str(error)[:_MAX_SHOWN] or type(error).__name__
            raise LostReplyError(
                f"{who} gives no proper answer about {about}: {reason}. Connections with Kerberos or TLS are not "
                "supported"
            ) from error
        except TException as error:
            text = str(getattr(error, "message", None) or error)[:_MAX_SHOWN]
            kind = _KINDS.get(type(error).__name__, StorageError)
            raise kind(f"{who} says of {about}: {text}") from error


class _Connection:
    """A connection, with bounds on the size of replies and the time that they take."""

    def __init__(self, address: MetastoreAddress) -> None:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        self.address = address
        opened = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
        opened.settimeout(_REPLY_SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = TSocket()
        self._socket.setHandle(opened)
        # What follows: the methods that the buffer above calls.
        self.write, self.flush = self._socket.write, self._socket.flush
        self.begin()
        protocol = TBinaryProtocol(
            TBufferedTransport(self, rbuf_size=1 << 16),
            strictRead=True,
            string_length_limit=_LARGEST_TEXT,
            container_length_limit=_LONGEST_LIST,
        )
        self.client = import_module("pymetastore.hive_metastore.ThriftHiveMetastore").Client(protocol)

    def begin(self) -> None:
        """Starts to count the bytes of a reply."""
        self._left, self._until = _LARGEST_REPLY, time.monotonic() + _WHOLE_REPLY_SECONDS

    def read(self, size: int) -> bytes:
        """Some bytes of a reply."""
        data: bytes = self._socket.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"the reply has more than {_LARGEST_REPLY} bytes")
        if time.monotonic() > self._until:
            raise OSError(f"the reply is not complete after {_WHOLE_REPLY_SECONDS:.0f} s")
        return data

    def is_open(self) -> bool:
        """Whether the other end has not closed it."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        """Closes it."""
        self._socket.close()


def metastore_types() -> Any:
    """The generated classes of the metastore's structures.

    Raises:
        StorageError: they are not installed.
    """
    try:
        return import_module("pymetastore.hive_metastore.ttypes")
    except ImportError as error:
        raise StorageError(_NEEDS_EXTRA) from error


def _broken_errors() -> tuple[type[Exception], ...]:
    """Everything that an incomplete reply, or one that is not of the protocol, raises."""
    from thrift.protocol.TProtocol import TProtocolException
    from thrift.transport.TTransport import TTransportException

    broken = (OSError, EOFError, UnicodeError, struct.error, RecursionError, MemoryError)
    return (TTransportException, TProtocolException, *broken)
