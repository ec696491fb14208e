"""The count of used values of identity columns: one atomic step with the rows, whatever the store and others do."""

from __future__ import annotations

import contextlib
import random
import uuid

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitStateUnknownError, LanceError, RetryableConflictError
from lance_spark.schema.generated import IDENTITY, Identity
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.marks import used_values
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.harmed_tables import NO_WAIT, files, with_faults
from tests.support.row_verbs import save
from tests.support.table.epoch_marks import HARMS, PUT_HARMS

IDENTITY_COLUMN = Identity(0, 1, False, "k")


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def write(location: TableLocation, table: pa.Table) -> int:
    return save(location, RowSource.of(table), mode="append", options=CommitOptions(policy=NO_WAIT)).version


def ids(uri: str) -> list[int]:
    return sorted(lance_spark.open(uri).to_table()["id"].to_pylist())


@pytest.fixture
def uri() -> str:
    uri = f"memory://identity-{uuid.uuid4().hex}"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])
    made = lance_spark.write(schema.empty_table(), uri)
    made.update_field_metadata({"id": {IDENTITY: IDENTITY_COLUMN.to_bytes().decode()}}).append(rows(0))
    return uri


def test_values_of_a_rival_are_not_used_again(uri: str) -> None:
    """The other writer commits between the plan of this one and its manifest."""
    rival = Fault("put_if_absent", Harm.NONE, run=lambda: write(TableLocation(uri), rows(1, 2)))
    before = len(files(uri))
    with pytest.raises(RetryableConflictError, match="identity column 'id'"):
        write(with_faults(uri, rival), rows(3))
    assert ids(uri) == [0, 1, 2]
    assert len(files(uri)) == before + 1


def test_a_rival_without_new_rows_is_no_conflict(uri: str) -> None:
    rival = Fault("put_if_absent", Harm.NONE, run=lambda: lance_spark.open(uri).delete("id = 0"))
    write(with_faults(uri, rival), rows(3))
    assert ids(uri) == [1]


@pytest.mark.parametrize("harm", PUT_HARMS)
def test_a_lost_reply_is_no_conflict_with_oneself(uri: str, harm: Harm) -> None:
    try:
        write(with_faults(uri, Fault("put_if_absent", harm)), rows(3))
    except LanceError:
        assert ids(uri) in ([0], [0, 1])
    write(TableLocation(uri), rows(4))
    assert ids(uri) in ([0, 1], [0, 1, 2])


@pytest.mark.parametrize("seed", range(5))
def test_random_faults(uri: str, seed: int) -> None:
    random_source = random.Random(seed)
    for number in range(12):
        operation = random_source.choice(["put", "put_if_absent", "write", "close", "open_output", "read", "list"])
        harm = random_source.choice(PUT_HARMS if operation == "put_if_absent" else HARMS)
        fault = Fault(operation, harm, nth=random_source.randint(1, 4), times=random_source.choice([1, 2]))
        # The rows are there or not; the values below say that no two have one value.
        with contextlib.suppress(CommitStateUnknownError, LanceError):
            write(with_faults(uri, fault), rows(*[number] * random_source.randint(1, 3)))
        if random_source.random() < 0.2:
            lance_spark.open(uri).compact()
    found = ids(uri)
    assert found == list(range(len(found)))
    assert used_values(TableLocation(uri).newest().config, "k") == len(found)
