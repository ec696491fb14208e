"""The planner worker, which handles requests of the JVM; Spark's daemon starts it as `pyspark_lance.planner`."""

from __future__ import annotations

import os
import socket
import struct
from io import BufferedReader
from typing import IO

from lance_spark.spark.compat.worker import worker_run
from lance_spark.spark.connector.channel.registry import answer
from lance_spark.spark.connector.channel.warm_worker import keep_imports

_INT = struct.Struct("!i")
_BEGUN = 1


def main(infile: BufferedReader, outfile: IO[bytes]) -> None:
    """Handles one request; Spark calls it again for the next."""
    if not _has_request(infile):
        # The application ends. Spark's own shutdown of a worker prints the traceback of a BrokenPipeError.
        os._exit(0)
    worker_run(_serve, infile, outfile)


def _serve(infile: BufferedReader, outfile: IO[bytes]) -> None:
    _send_at_once(outfile)
    request = _read(infile)
    attachments = [_read(infile) for _ in range(_read_int(infile))]
    _say_begun(infile, outfile)
    # Nothing is written before the reply is complete: other errors are reported differently, as a traceback.
    body, replied = answer(request, attachments)
    _write(body, outfile)
    outfile.write(_INT.pack(len(replied)))
    for attachment in replied:
        _write(attachment, outfile)
    keep_imports()


def _has_request(infile: BufferedReader) -> bool:
    """Waits for a request; False if the JVM has closed the channel instead."""
    try:
        return bool(infile.peek(1))
    except OSError:
        return False


def _say_begun(infile: BufferedReader, outfile: IO[bytes]) -> None:
    """Tells the JVM that the request begins: until then it can be sent to another worker if this one ends."""
    # The JVM sends a mark behind the request. While it still writes, it would not read what is sent here.
    infile.peek(_INT.size)
    outfile.write(_INT.pack(_BEGUN))
    outfile.flush()


def _send_at_once(outfile: IO[bytes]) -> None:
    """Disables Nagle's algorithm: otherwise parts of a reply wait for acknowledgements, 40 ms per request over TCP."""
    with socket.socket(fileno=os.dup(outfile.fileno())) as channel:
        if channel.family in (socket.AF_INET, socket.AF_INET6):
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _read(infile: IO[bytes]) -> bytes:
    return _exactly(_read_int(infile), infile)


def _read_int(infile: IO[bytes]) -> int:
    (number,) = _INT.unpack(_exactly(_INT.size, infile))
    return int(number)


def _exactly(length: int, infile: IO[bytes]) -> bytes:
    data = infile.read(length)
    if len(data) < length:
        raise EOFError("the JVM closed the channel in the middle of a request")
    return data


def _write(data: bytes, outfile: IO[bytes]) -> None:
    if len(data) >= 1 << 31:
        raise ValueError(f"a part of a reply has {len(data)} bytes, more than the channel can tell")
    outfile.write(_INT.pack(len(data)))
    outfile.write(data)
