"""Updating by filter, against the reference library and against other writers."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.expr.nodes import Column
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.operations.update import Update
from tests.support.harmed_tables import PUT, QUIET, assert_nothing_left_over, files, with_faults
from tests.support.keyed_rows import read_by_both, rows
from tests.support.row_verbs import update_rows
from tests.support.threads import all_at_once


def content(uri: str) -> list[tuple[int, str]]:
    return sorted((row["a"], row["b"]) for row in read_by_both(uri, ["a", "b"]))


def update(location: TableLocation, values: dict[str, Any], filter: str | None = None) -> int:
    base = location.latest()
    assert base is not None
    return update_rows(location, base, values, filter, QUIET).version


def changed(*updates: tuple[Callable[[int], bool], str]) -> list[tuple[int, str]]:
    """Rows 0..19 after texts have been set one after the other."""
    found = {value: f"row {value}" for value in range(20)}
    for condition, text in updates:
        found.update((value, text) for value in found if condition(value))
    return sorted(found.items())


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_interleaved_writes_match_pylance(tmp_path: Path, version: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(30)), uri, data_storage_version=version, enable_stable_row_ids=stable)
    lance.write_dataset(rows(*range(30, 60)), uri, mode="append")
    system = ["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"] if stable else ["a"]
    lineage = {row["a"]: row for row in lance.dataset(uri).scanner(columns=system).to_table().to_pylist()}
    expected = {value: f"row {value}" for value in range(60)}
    for turn, (who, modulus) in enumerate([("us", 7), ("them", 5), ("us", 4), ("us", 3), ("them", 2), ("us", 1)]):
        condition, text = f"a % {modulus} = 0", f"turn {turn}"
        if who == "us":
            assert lance_spark.open(uri).update({"b": f"'{text}'"}, condition).version == turn + 3
        else:
            lance.dataset(uri).update({"b": f"'{text}'"}, where=condition)
        for value in expected:
            if value % modulus == 0:
                expected[value] = text
                lineage[value]["_row_last_updated_at_version"] = turn + 3
        assert content(uri) == sorted(expected.items())
    if stable:
        found = lance.dataset(uri).scanner(columns=system).to_table().to_pylist()
        assert {row["a"]: row for row in found} == lineage
        assert {row["a"]: row for row in lance_spark.open(uri).to_table(columns=system).to_pylist()} == lineage
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    lance_spark.open(uri).update({"a": "a + 100"}, "a >= 50")
    assert [row[0] for row in content(uri)] == [*range(50), *range(150, 160)]


def test_what_is_written(uri: str) -> None:
    dataset = lance_spark.open(uri).update(
        {"b": "'x'"}, "a < 3 or a >= 10", commit_message="why", transaction_properties={"k": "v"}
    )
    assert dataset.version == 3
    manifest = dataset.manifest
    assert [fragment.id for fragment in manifest.fragments] == [0, 2]
    assert manifest.max_fragment_id == 2
    found = dataset.location.history.transaction(dataset.location.at(3))
    assert found is not None
    assert isinstance(found.operation, Update)
    assert found.operation.removed_fragment_ids == (1,)
    assert [fragment.id for fragment in found.operation.updated_fragments] == [0]
    assert found.operation.changed_fields == (1,)
    assert found.properties == {"__lance_commit_message": "why", "k": "v"}
    reference = lance.dataset(uri).read_transaction(3)
    assert type(reference.operation).__name__ == "Update"
    assert (reference.read_version, reference.operation.removed_fragment_ids) == (2, [1])
    assert lance_spark.open(uri, version=2).count_rows() == 20
    assert_nothing_left_over(uri)


def test_an_update_of_nothing_makes_no_version(uri: str) -> None:
    assert lance_spark.open(uri).update({"b": "'x'"}, "a > 100").version == 2
    assert lance_spark.open(uri).update({"b": "'x'"}, "a > null").version == 2
    assert len(files(uri, "_transactions")) == 2
    assert_nothing_left_over(uri)


def test_all_rows_and_values_from_before(uri: str) -> None:
    dataset = lance_spark.open(uri).update({"a": "a * 2", "b": "upper(b)"})
    assert len(dataset.fragments) == 1
    assert content(uri) == sorted((2 * value, f"ROW {value}") for value in range(20))
    lance_spark.write(pa.table({"x": [1, 2], "y": [10, 20]}), uri, mode="overwrite")
    lance_spark.open(uri).update({"x": "y", "y": "x"})
    assert lance.dataset(uri).to_table().to_pylist() == [{"x": 10, "y": 1}, {"x": 20, "y": 2}]


DECIMAL = pa.decimal128(6, 2)
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int8(), "a + 1", 8),
    (pa.int8(), 5, 5),
    (pa.uint16(), np.int64(65535), 65535),
    (pa.int32(), "a * 1.0", 7),
    (pa.float32(), "0.5", 0.5),
    (pa.float64(), 0.1, 0.1),
    (pa.float64(), "a / 2", 3.5),
    (DECIMAL, "a * 1.005", decimal.Decimal("7.04")),
    (DECIMAL, decimal.Decimal("1.25"), decimal.Decimal("1.25")),
    (pa.string(), "'it\\'s'", "it's"),
    (pa.string(), "cast(a as string)", "7"),
    (pa.large_string(), pa.scalar("text"), "text"),
    (pa.binary(), b"ab", b"ab"),
    (pa.binary(2), "X'6162'", b"ab"),
    (pa.bool_(), "a > 5", True),
    (pa.bool_(), False, False),
    (pa.date32(), "'2024-02-29'", datetime.date(2024, 2, 29)),
    (pa.date32(), datetime.date(2024, 2, 29), datetime.date(2024, 2, 29)),
    (pa.timestamp("us"), "DATE '2024-02-29'", datetime.datetime(2024, 2, 29)),
    (pa.timestamp("ms", "UTC"), "'2024-02-29T12:00:00Z'", NOON),
    (pa.time64("us"), datetime.time(12, 30), datetime.time(12, 30)),
    (pa.duration("us"), datetime.timedelta(seconds=3), datetime.timedelta(seconds=3)),
    (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
    (pa.list_(pa.int32()), [], []),
    (pa.list_(pa.float32(), 2), np.array([1.5, 2.5]), [1.5, 2.5]),
    (pa.list_(pa.float32(), 2), "array(1.5, -a)", [1.5, -7.0]),
    (pa.list_(pa.int32()), "array(1, NULL, a + 1)", [1, None, 8]),
    (pa.large_list(pa.string()), "array('x', cast(a as string))", ["x", "7"]),
    (pa.list_(pa.int32()), "array()", []),
    (pa.list_(pa.list_(pa.int8())), "array(array(1), array())", [[1], []]),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1}, {"x": 1, "y": None}),
    (pa.int64(), None, None),
    (pa.list_(pa.string()), None, None),
    (pa.list_(pa.string()), pa.scalar(None, pa.list_(pa.string())), None),
    (pa.struct([("x", pa.int32())]), pa.scalar(None, pa.struct([("x", pa.int32())])), None),
    (pa.large_list(pa.string()), pa.scalar(["a", None], pa.list_(pa.string())), ["a", None]),
    (pa.string(), "NULL", None),
    (pa.float16(), 1.5, 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "expected"), VALUES, ids=lambda value: str(value)[:30])
def test_values(tmp_path: Path, type_: pa.DataType, value: Any, expected: Any) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": pa.array([7, 8], pa.int64()), "v": pa.nulls(2, type_)}), uri)
    lance_spark.open(uri).update({"v": value}, "a = 7")
    found = lance_spark.open(uri).to_table()
    assert found.schema.field("v").type == type_
    assert found.sort_by("a")["v"].to_pylist() == [expected, None]
    reference = lance.dataset(uri).to_table()
    assert reference.sort_by("a")["v"].to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"nope": "1"}, NotFoundError),
        ({"a": "nope"}, NotFoundError),
        ({"a": "a +"}, InvalidInputError),
        ({"a": "'x'"}, InvalidInputError),
        ({"a": "b"}, InvalidInputError),
        ({"a": 1.5}, InvalidInputError),
        ({"a": "a / 2"}, InvalidInputError),
        ({"a": "a / 0"}, InvalidInputError),
        ({"a": "array(1)"}, InvalidInputError),
        ({"l": "array('x')"}, InvalidInputError),
        ({"v": "array(1.5)"}, InvalidInputError),
        ({"v": [1.5, 2.5, 3.5]}, InvalidInputError),
        ({"a": 1 << 70}, InvalidInputError),
        ({"a": object()}, InvalidInputError),
        ({"b": "1"}, InvalidInputError),
        ({"b": 5}, InvalidInputError),
        ({"n": None}, InvalidInputError),
        ({"n": "nullable"}, InvalidInputError),
        ({"a.x": "1"}, NotFoundError),
        ({"s": {"x": 1}, "s.x": "1"}, InvalidInputError),
        ({"s.x": "1", "`s`.x": "2"}, InvalidInputError),
        ({"l.item": "1"}, InvalidInputError),
        ({}, InvalidInputError),
        (None, InvalidInputError),
        ({1: "1"}, InvalidInputError),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, values: Any, error: type[LanceError]) -> None:
    uri = str(tmp_path / "t")
    fields = [
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("nullable", pa.int64()),
        pa.field("s", pa.struct([("x", pa.int64())])),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("v", pa.list_(pa.float32(), 2)),
    ]
    row = {"a": 1, "b": "x", "n": 1, "nullable": None, "s": {"x": 1}, "l": [1], "v": [1.0, 2.0]}
    lance_spark.write(pa.Table.from_pylist([row], schema=pa.schema(fields)), uri)
    with pytest.raises(error):
        lance_spark.open(uri).update(values)
    assert lance_spark.open(uri).version == 1
    assert_nothing_left_over(uri)


def test_text_that_does_not_fit_is_an_error_even_without_rows(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        lance_spark.open(uri).update({"a": "b"}, "a > 1000")
    with pytest.raises(InvalidInputError):
        lance_spark.open(uri).update({"b": "'x'"}, 5)  # type: ignore[arg-type]


def test_fields_of_structs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    inner = pa.struct([("x", pa.int64()), ("y", pa.string())])
    outer = pa.struct([("inner", inner), ("d.t", pa.int32())])
    values = [
        {"inner": {"x": 1, "y": "one"}, "d.t": 10},
        {"inner": None, "d.t": 20},
        None,
        {"inner": {"x": None, "y": "four"}, "d.t": None},
    ]
    lance_spark.write(pa.table({"k": pa.array(range(4)), "s": pa.array(values, outer)}), uri)
    lance_spark.open(uri).update({"s.inner.x": "coalesce(s.inner.x, 0) + k", "s.`d.t`": 5}, "k <> 0")
    expected = [
        {"inner": {"x": 1, "y": "one"}, "d.t": 10},
        {"inner": {"x": 1, "y": None}, "d.t": 5},
        {"inner": {"x": 2, "y": None}, "d.t": 5},
        {"inner": {"x": 3, "y": "four"}, "d.t": 5},
    ]
    assert lance_spark.open(uri).to_table()["s"].to_pylist() == expected
    assert lance.dataset(uri).to_table()["s"].to_pylist() == expected
    dataset = lance_spark.open(uri).update({"s.inner": None}, "k = 1")
    operation = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert operation is not None
    assert isinstance(operation.operation, Update)
    assert sorted(operation.operation.changed_fields) == [1, 2, 3, 4]
    lance_spark.open(uri).update({"s": Column(("s",))}, "k = 2")
    expected[1] = {"inner": None, "d.t": 5}
    assert lance.dataset(uri).to_table().sort_by("k")["s"].to_pylist() == expected


def test_tables_of_a_version_that_is_not_written(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1, 2), uri, data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
        lance_spark.open(uri).update({"b": "'x'"})
    assert_nothing_left_over(uri)


def test_indices_of_pylance_stay_right(uri: str) -> None:
    def check() -> None:
        reference = lance.dataset(uri)
        for condition in (
            "a = 3",
            "a in (2, 3, 4, 15)",
            "b = 'row 3'",
            "b = 'new'",
            "b = 'newer'",
            "a >= 14 and a < 17",
        ):
            scanner = reference.scanner(filter=condition)
            assert "ScalarIndexQuery" in scanner.explain_plan()
            plain = reference.scanner(filter=condition, use_scalar_index=False).to_table()
            assert sorted(scanner.to_table()["a"].to_pylist()) == sorted(plain["a"].to_pylist())
            assert sorted(lance_spark.open(uri).to_table(filter=condition)["a"].to_pylist()) == sorted(
                plain["a"].to_pylist()
            )

    lance_spark.open(uri).update({"b": "'first'"}, "a = 15")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).create_scalar_index("b", "BTREE")
    check()
    lance_spark.open(uri).update({"b": "'new'"}, "a in (3, 15)")
    check()
    lance.dataset(uri).update({"b": "'newer'"}, where="a in (3, 4)")
    check()
    lance_spark.open(uri).update({"a": "a + 1"}, "a in (3, 15)")
    check()


# Other writers.


def stale(uri: str, filter: str, *, meanwhile: Callable[[lance.LanceDataset], object]) -> Dataset:
    """What an update makes of the table if another writer comes between our reading and our commit."""
    dataset = lance_spark.open(uri)
    meanwhile(lance.dataset(uri))
    return dataset.update({"b": "'ours'"}, filter)


def is_ours(value: int) -> bool:
    return value < 4


DISJOINT: dict[str, tuple[Callable[[lance.LanceDataset], object], list[tuple[int, str]]]] = {
    "append": (
        lambda dataset: lance.write_dataset(rows(50), dataset.uri, mode="append"),
        [*changed((is_ours, "ours")), (50, "row 50")],
    ),
    "delete": (lambda dataset: dataset.delete("a = 7"), [row for row in changed((is_ours, "ours")) if row[0] != 7]),
    "update": (
        lambda dataset: dataset.update({"b": "'theirs'"}, where="a = 8 or a = 12"),
        changed((is_ours, "ours"), (lambda value: value in (8, 12), "theirs")),
    ),
    "update of ours": (
        lambda dataset: lance_spark.open(dataset.uri).update({"b": "'theirs'"}, "a = 8 or a = 12"),
        changed((is_ours, "ours"), (lambda value: value in (8, 12), "theirs")),
    ),
    "the rest of the fragment": (
        lambda dataset: dataset.delete("a >= 4 and a < 10"),
        [row for row in changed((is_ours, "ours")) if not 4 <= row[0] < 10],
    ),
    "index": (lambda dataset: dataset.create_scalar_index("a", "BTREE"), changed((is_ours, "ours"))),
    "config": (lambda dataset: dataset.update_config({"k": "v"}), changed((is_ours, "ours"))),
}


@pytest.mark.parametrize("case", list(DISJOINT))
def test_other_writers_that_leave_our_rows_alone(uri: str, case: str) -> None:
    meanwhile, expected = DISJOINT[case]
    old = lance_spark.open(uri)
    dataset = stale(uri, "a < 4", meanwhile=meanwhile)
    assert content(uri) == expected
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    assert transaction.read_version == old.version, "it was not run again"
    stored = dataset.location.store.read(f"_transactions/{dataset.manifest.transaction_file}")
    assert stored.to_pybytes() == transaction.to_bytes()
    assert_nothing_left_over(uri)
    if dataset.manifest.has_stable_row_ids:
        ids = lance.dataset(uri).to_table(with_row_id=True)
        assert len(set(ids["_rowid"].to_pylist())) == len(expected)
        assert {a: i for a, i in zip(ids["a"].to_pylist(), ids["_rowid"].to_pylist(), strict=True) if a < 20} == {
            a: a for a, _ in expected if a < 20
        }
    lance.dataset(uri).update({"b": "'after'"}, where="a = 1")
    assert dict(content(uri))[1] == "after"


RUN_AGAIN: dict[str, tuple[Callable[[lance.LanceDataset], object], list[tuple[int, str]]]] = {
    "same row deleted": (
        lambda dataset: dataset.delete("a = 2"),
        [row for row in changed((is_ours, "ours")) if row[0] != 2],
    ),
    "same row updated": (lambda dataset: dataset.update({"b": "'theirs'"}, where="a = 2"), changed((is_ours, "ours"))),
    "no longer in the filter": (
        lambda dataset: dataset.update({"a": "a + 100"}, where="a = 2"),
        [row for row in changed((is_ours, "ours")) if row[0] != 2] + [(102, "row 2")],
    ),
    "now in the filter too": (
        lambda dataset: dataset.update({"a": "a - 10"}, where="a = 2 or a = 13"),
        sorted([*((v, t) for v, t in changed((is_ours, "ours")) if v not in (2, 13)), (-8, "ours"), (3, "ours")]),
    ),
    "compaction": (lambda dataset: dataset.optimize.compact_files(), changed((is_ours, "ours"))),
    "new column": (lambda dataset: dataset.add_columns({"c": "a + 1"}), changed((is_ours, "ours"))),
    "new column without files": (
        lambda dataset: dataset.add_columns(pa.field("c", pa.int8())),
        changed((is_ours, "ours")),
    ),
}


@pytest.mark.parametrize("case", list(RUN_AGAIN))
def test_other_writers_that_have_our_rows(uri: str, case: str) -> None:
    meanwhile, expected = RUN_AGAIN[case]
    stale(uri, "a < 4", meanwhile=meanwhile)
    assert content(uri) == expected
    assert_nothing_left_over(uri)


def test_no_update_is_lost(uri: str) -> None:
    stale_dataset = lance_spark.open(uri)
    lance.dataset(uri).update({"a": "a + 100"}, where="a = 3")
    stale_dataset.update({"a": "a + 1000"}, "a % 100 = 3")
    assert sorted(row[0] for row in content(uri)) == sorted([*range(3), *range(4, 20), 1103])


def test_columns_that_others_drop(uri: str) -> None:
    dataset = lance_spark.open(uri)
    lance.dataset(uri).drop_columns(["a"])
    with pytest.raises(NotFoundError):
        dataset.update({"b": "'ours'"}, "a < 4")
    assert lance.dataset(uri).count_rows() == 20
    assert_nothing_left_over(uri)


def test_what_ours_was_made_for_is_gone(uri: str) -> None:
    with pytest.raises(IncompatibleConflictError):
        stale(
            uri,
            "a < 4",
            meanwhile=lambda dataset: lance.write_dataset(rows(1).select(["a"]), dataset.uri, mode="overwrite"),
        )
    assert lance.dataset(uri).to_table().to_pylist() == [{"a": 1}]
    assert_nothing_left_over(uri)


def test_pylance_follows_us_with_an_old_version(uri: str) -> None:
    old = lance.dataset(uri)
    lance_spark.open(uri).update({"b": "'ours'"}, "a = 3 or a >= 15")
    old.update({"b": "'theirs'"}, where="a = 4 or a = 3")
    expected = changed((lambda value: value == 3 or value >= 15, "ours"), (lambda value: value in (3, 4), "theirs"))
    assert content(uri) == expected


def test_threads_of_ours_and_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(100)), uri, max_rows_per_file=50, enable_stable_row_ids=True)

    def work(worker: int) -> None:
        for number in range(3):
            # Each round of a worker adds 1000 to rows that no other worker has, and to one that all have.
            condition = f"a % 10 = {worker} and a % 1000 < {10 + number * 30} or a % 1000 = 99"
            if worker % 3:
                lance_spark.open(uri).update({"a": "a + 1000"}, condition)
            else:
                lance.dataset(uri).update({"a": "a + 1000"}, where=condition)

    all_at_once(work, 4)
    found = lance.dataset(uri).to_table(with_row_id=True)
    by_id = dict(zip(found["_rowid"].to_pylist(), found["a"].to_pylist(), strict=True))
    assert sorted(by_id) == list(range(100))
    for value, now in by_id.items():
        times = 12 if value == 99 else sum(value < 10 + number * 30 for number in range(3)) if value % 10 < 4 else 0
        assert now == value + 1000 * times
    assert lance_spark.open(uri).to_table(with_row_id=True).to_pylist() == found.to_pylist()


# Stores that fail.


@pytest.fixture
def memory() -> str:
    uri = f"memory://update-{uuid.uuid4().hex}"
    lance_spark.write(rows(*range(10)), uri, enable_stable_row_ids=True)
    return uri


OURS = [(value, "ours" if value < 3 else f"row {value}") for value in range(10)]


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_gives_exactly_one_version(memory: str, harm: Harm) -> None:
    assert update(with_faults(memory, Fault(PUT, harm, times=3)), {"b": "'ours'"}, "a < 3") == 2
    assert [entry.version for entry in lance_spark.open(memory).versions()] == [1, 2]
    assert content(memory) == OURS
    assert_nothing_left_over(memory)


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_after_a_rebase(memory: str, harm: Harm) -> None:
    rival = Fault(PUT, harm, run=lambda: lance_spark.open(memory).delete("a = 9") and None)
    assert update(with_faults(memory, rival, Fault(PUT, harm, nth=2)), {"b": "'ours'"}, "a < 3") == 3
    assert content(memory) == OURS[:-1]
    assert_nothing_left_over(memory)


def test_a_store_that_never_answers_keeps_the_files(memory: str) -> None:
    with pytest.raises(CommitStateUnknownError):
        update(with_faults(memory, Fault(PUT, Harm.NOT_SENT, times=1000)), {"b": "'ours'"}, "a < 3")
    assert (len(files(memory, "data")), len(files(memory, "_deletions"))) == (2, 1)
    assert len(content(memory)) == 10


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put", path_part="_deletions/"),
        Fault("put", Harm.FAILS_AFTERWARDS, path_part="_deletions/"),
        Fault("put", path_part="_transactions/"),
        Fault("list", path_part="_versions", nth=2),
        Fault(PUT),
    ],
    ids=lambda fault: f"{fault.operation}-{fault.harm.value}-{fault.path_part.strip('_/')}",
)
def test_a_failure_before_the_commit_leaves_nothing_behind(memory: str, fault: Fault) -> None:
    with pytest.raises(StorageError):
        update(with_faults(memory, fault), {"b": "'ours'"}, "a < 3")
    assert_nothing_left_over(memory)
    assert len(files(memory, "_versions")) == 1
    assert content(memory) == [(value, f"row {value}") for value in range(10)]


def test_it_gives_up_when_rivals_have_our_rows_again_and_again(memory: str) -> None:
    def rival() -> None:
        lance_spark.open(memory).update({"b": "'theirs'"}, "a < 3")

    with pytest.raises(RetryableConflictError):
        update(with_faults(memory, Fault(PUT, Harm.NONE, times=100, run=rival)), {"b": "'ours'"}, "a < 3")
    assert {text for value, text in content(memory) if value < 3} == {"theirs"}
    assert_nothing_left_over(memory)
