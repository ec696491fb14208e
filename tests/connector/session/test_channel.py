"""The Python end of the channel, without a Spark: requests, replies, errors, and what filters are taken."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from lance_spark.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
)
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.connector.channel.codec import decode, encode
from lance_spark.spark.connector.channel.conditions import TaskError, describe
from lance_spark.spark.connector.channel.registry import PROTOCOL, answer
from lance_spark.spark.connector.channel.tasks import _InWarmWorker
from lance_spark.spark.predicates import SparkExpression, to_filter


@dataclass(frozen=True)
class Inner:
    name: str
    children: tuple[Inner, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner
    schema: StructType
    count: int | None = None
    texts: dict[str, str | None] = field(default_factory=dict)


SCHEMA = StructType().add("id", LongType(), False).add("n", IntegerType())


def test_requests_become_dataclasses_and_back() -> None:
    value = Outer(Inner("a", (Inner("b"),)), SCHEMA, 3, {"k": "v", "gone": None})
    assert decode(Outer, json.loads(json.dumps(encode(value)))) == value


@pytest.mark.parametrize(
    "change",
    [
        {"inner": None},
        {"inner": {"name": 3}},
        {"inner": {}},
        {"count": "3"},
        {"count": True},
        {"schema": "integer"},
        {"texts": {"k": 3}},
        {"inner": {"name": "a", "children": {"name": "b"}}},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object]) -> None:
    good = encode(Outer(Inner("a"), SCHEMA))
    with pytest.raises(InvalidInputError):
        decode(Outer, {**good, **change})


def ask(**message: object) -> dict[str, object]:
    body, _ = answer(json.dumps(message).encode(), ())
    reply = json.loads(body)
    assert isinstance(reply, dict)
    return reply


def test_another_protocol_or_an_unknown_operation_is_an_error_reply() -> None:
    assert "protocol" in str(ask(protocol=PROTOCOL + 1, op="table.load", args={})["error"])
    assert "does not know" in str(ask(protocol=PROTOCOL, op="table.nope", args={})["error"])
    assert "has no LoadRequest.catalog" in str(ask(protocol=PROTOCOL, op="table.load", args={})["error"])


@pytest.mark.parametrize(
    ("error", "condition", "state"),
    [
        (NotFoundError("x"), "LANCE_NOT_FOUND", "42704"),
        (InvalidInputError("x"), "LANCE_INVALID_INPUT", "22023"),
        (CorruptFileError("x", path="p"), "LANCE_CORRUPT_FILE", "XXKD0"),
        (IncompatibleConflictError("x"), "LANCE_COMMIT_CONFLICT", "40001"),
        (CommitStateUnknownError("x"), "LANCE_COMMIT_STATE_UNKNOWN", "40003"),
        (LanceError("x\ny"), "LANCE_ERROR", "XX000"),
    ],
)
def test_errors_have_a_condition_and_one_line(error: LanceError, condition: str, state: str) -> None:
    described = describe(error)
    assert (described.condition, described.sql_state) == (condition, state)
    assert described.kind == type(error).__name__
    assert "\n" not in described.message


COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("big", pa.uint64()),
        ("f", pa.float32()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("ns", pa.timestamp("ns")),
        ("p", pa.struct([("x", pa.int64()), ("y.z", pa.int64())])),
        ("l", pa.list_(pa.int64())),
    ]
)


def column(*path: str) -> dict[str, object]:
    return {"column": list(path)}


def value(text: str | None, kind: str) -> dict[str, object]:
    return {"literal": text, "type": kind}


def call(name: str, *children: object) -> dict[str, object]:
    return {"name": name, "children": list(children)}


def filter_of(tree: dict[str, object]) -> object:
    return to_filter(decode(SparkExpression, tree), COLUMNS)


@pytest.mark.parametrize(
    ("tree", "sql"),
    [
        (call("=", column("id"), value("5", "integer")), "id = 5"),
        (call("<", value("5", "long"), column("id")), "id > 5"),
        (call("<>", column("p", "x"), value("5", "long")), "NOT p.x = 5"),
        (call(">", column("p", "y.z"), value("5", "long")), "p.`y.z` > 5"),
        (call("=", column("big"), value("18446744073709551615", "decimal(20,0)")), "big = 18446744073709551615"),
        (call("IN", column("id"), value("1", "long"), value(None, "long")), "id IN (1, NULL)"),
        (call("STARTS_WITH", column("name"), value("a%", "string")), "startswith(name, 'a%')"),
        (call("AND", call("IS_NULL", column("f")), call("NOT", column("ok"))), "f IS NULL AND NOT ok"),
        (call("OR", column("ok"), call("IS_NOT_NULL", column("name"))), "ok OR name IS NOT NULL"),
        (call("ALWAYS_TRUE"), "true"),
    ],
)
def test_filters_that_are_taken(tree: dict[str, object], sql: str) -> None:
    assert filter_of(tree) == parse(sql)


@pytest.mark.parametrize(
    "tree",
    [
        call("=", call("+", column("id"), value("1", "long")), value("5", "long")),
        call("=", {"cast": column("id"), "type": "string"}, value("5", "string")),
        call("=", column("id"), value(None, "long")),
        call("=", column("missing"), value("5", "long")),
        call("=", column("l"), value("5", "long")),
        call("=", column("id"), column("f")),
        call("OR", column("ok"), call("?")),
        call("IN", column("ns"), value("1", "timestamp_ntz"), value(None, "timestamp_ntz")),
        call("STARTS_WITH", column("name"), column("name")),
        call("?"),
    ],
)
def test_filters_that_stay_with_spark(tree: dict[str, object]) -> None:
    assert filter_of(tree) is None


def test_nanoseconds_are_compared_as_spark_sees_them() -> None:
    taken = filter_of(call("=", column("ns"), value("5", "timestamp_ntz")))
    assert "ns >=" in str(taken)
    assert "ns <" in str(taken)


def test_lack_of_memory_has_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> object:
        raise MemoryError("malloc of size 7 failed")

    with pytest.raises(TaskError) as raised:
        list(_InWarmWorker(fails)([]))
    in_task = json.loads(str(raised.value))
    monkeypatch.setattr("lance_spark.spark.connector.channel.registry._answered", fails)
    in_planner = json.loads(answer(b"{}", ())[0])["error"]
    for error, setting in ((in_task, "spark.executor.pyspark.memory"), (in_planner, "pythonExecution.memory")):
        assert (error["condition"], error["sql_state"]) == ("LANCE_OUT_OF_MEMORY", "53200")
        assert "malloc of size 7 failed" in error["message"]
        assert setting in error["message"]
