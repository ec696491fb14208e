"""Requests as the Java side sends them, and a count of those that it has sent."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from lance_spark.spark.connector.channel.registry import PROTOCOL, answer


def answered(operation: str, session: dict[str, str] | None = None, **args: object) -> tuple[dict[str, Any], int]:
    """The reply to a request, and how many attachments follow the first."""
    message = {"protocol": PROTOCOL, "op": operation, "session": session or {}, "args": args}
    body, attachments = answer(json.dumps(message).encode(), ())
    return json.loads(body), len(attachments) - 1


def loaded(uri: str) -> dict[str, Any]:
    """The reply to `table.load`."""
    options = {"path": uri}
    catalog = {"name": "lance_path", "settings": {}}
    place = {"namespace": [], "name": uri, "options": options, "by_path": True, "privileges": []}
    table: dict[str, Any] = answered("table.load", catalog=catalog, **place)[0]["table"]
    return table


def ask(
    op: str, uri: str, session: dict[str, str] | None = None, columns: list[str] | None = None, **more: object
) -> tuple[dict[str, Any], int]:
    """The reply to a request about a table, of which no read is inline, and how many attachments follow the first.

    Args:
        columns: those to read; all if it is None.
    """
    table = loaded(uri)
    names = columns or [field["name"] for field in table["schema"]["fields"]]
    wanted = {"type": "struct", "fields": [field for field in table["schema"]["fields"] if field["name"] in names]}
    return answered(op, {"inline_bytes": "0", **(session or {})}, handle=table["handle"], columns=wanted, **more)


def planned(
    uri: str, predicates: list[dict[str, Any]], session: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """The plan of a scan with pushed filters."""
    pushed = ask("scan.push", uri, predicates=predicates)[0]
    assert set(pushed["answers"]) == {2}
    return ask("scan.plan", uri, session, filter=pushed["filter"], **more)[0]


def aggregated(uri: str, aggregates: list[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """The reply about aggregates of a scan without filters."""
    scan = {"handle": loaded(uri)["handle"]}
    return answered("scan.aggregate", {"inline_bytes": "0"}, scan=scan, aggregates=aggregates)


def compare(name: str, column: str, value: int, kind: str = "long") -> dict[str, Any]:
    return {"name": name, "children": [{"column": [column]}, {"literal": str(value), "type": kind}]}


def sent(spark: SparkSession) -> Counter[str]:
    """How often Java has sent each request so far."""
    jvm: Any = spark._jvm
    return Counter({str(op): int(count) for op, count in jvm.io.lancespark.python.PythonChannel.requests().items()})
