"""Builds of vector indexes whose process dies, and whose store fails: there is the whole index afterwards, or none.

Calls are chosen at random; LANCE_FAULT_CALLS and LANCE_KILLS say how many of each kind of index.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitStateUnknownError, LanceError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.storage.faults import Harm
from tests.support.forked import fork, kill_self
from tests.support.index.vector_builds import clustered, table_of
from tests.support.partitioned.faults import CALLS, KILLS, Plan, forks, harmed

pytestmark = [pytest.mark.filterwarnings("ignore:lance is not fork-safe")]

# Each half is enough to train the 256 codes of a product quantizer.
VALUES = clustered(640, dimension=16)
QUERIES = clustered(10, seed=2, dimension=16)
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_HNSW_SQ": {},
}
LEAST = {"IVF_FLAT": 1.0, "IVF_PQ": 0.7, "IVF_HNSW_SQ": 0.9}
"""The least recall of a build that nothing has disturbed, with all partitions of the index."""


def build(path: Path, kind: str) -> None:
    lance_spark.open(path).create_index(
        "v", kind, name="by_v", metric="l2", num_partitions=2, replace=True, **KINDS[kind]
    )


def made(path: Path, is_partitioned: bool) -> Path:
    rows = table_of(VALUES)
    rows = rows.append_column("p", pa.array([number % 2 for number in range(len(VALUES))], pa.int32()))
    if is_partitioned:
        create_partitioned_dataset(path, rows.schema, [PartitionBy("p", ("p",), Identity())]).append(rows)
    else:
        lance_spark.write(rows, path, max_rows_per_file=150)
    return path


def index_names(path: Path) -> set[str]:
    return {entry["name"] for entry in lance_spark.open(path).list_indices()}


def index_folders(path: Path) -> set[Path]:
    """The folders of segments that have files, of all partitions."""
    return {file.parent for file in path.rglob("_indices/*/*") if file.is_file()}


def recall(path: Path) -> float:
    """The share of the nearest ten rows, as numpy finds them, that a search of all partitions of the index finds."""
    dataset, hits = lance_spark.open(path), 0
    for query in QUERIES:
        exact = np.argsort(((VALUES - query) ** 2).sum(axis=1), kind="stable")[:10]
        found = dataset.nearest("v", query, 10, columns=["id"], nprobes=100)["id"].to_pylist()
        assert len(found) == len(set(found)) == 10
        hits += len({int(number) for number in exact} & set(found))
    return hits / (10 * len(QUERIES))


def check_goes_on(path: Path, kind: str, is_partitioned: bool, told: str) -> None:
    """What is left of a build is invisible, goes with the next clean-up, and does no harm to the next build."""
    dataset = lance_spark.open(path)
    names = index_names(path)
    assert names in (set(), {"by_v"}), told
    assert dataset.count_rows() == len(VALUES), told
    assert recall(path) >= (LEAST[kind] if names else 1.0), told
    dataset.cleanup(older_than=timedelta(0), delete_unverified=True)
    if not names:
        # The highest version of a partition's table stays: its number must not come again.
        assert is_partitioned or not index_folders(path), told
        assert recall(path) == 1.0, told
    build(path, kind)
    assert recall(path) >= LEAST[kind], told
    lance_spark.open(path).cleanup(older_than=timedelta(0), delete_unverified=True)
    assert recall(path) >= LEAST[kind], told
    assert len(index_folders(path)) == (2 if is_partitioned else 1), told


def count_calls(path: Path, kind: str) -> int:
    counted = Plan()
    with harmed(counted):
        build(path, kind)
    assert recall(path) >= LEAST[kind]
    return counted.num_calls


Case = tuple[Path, Callable[[str], Path], int]


@pytest.fixture
def case(tmp_path: Path, kind: str, is_partitioned: bool) -> Case:
    """A table, what makes a copy of it, and the number of calls that a build makes."""
    whole = made(tmp_path / "whole", is_partitioned)

    def copied(name: str) -> Path:
        return Path(shutil.copytree(whole, tmp_path / name))

    return whole, copied, count_calls(copied("good"), kind)


@pytest.mark.slow
@forks
@pytest.mark.parametrize("is_partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_build_that_is_killed_before_a_call(case: Case, kind: str, is_partitioned: bool, rng: random.Random) -> None:
    _, copied, num_calls = case
    for nth in sorted(rng.sample(range(1, num_calls + 1), min(KILLS, num_calls))):
        path = copied(str(nth))

        def act(report: object, path: Path = path, nth: int = nth) -> None:
            with harmed(Plan(nth, run=kill_self)):
                build(path, kind)

        # Threads take calls in another order in each run, so that the last ones may not come.
        assert fork(act).join() in (-9, 0)
        check_goes_on(path, kind, is_partitioned, f"killed before call {nth} of {num_calls}")


@pytest.mark.slow
@pytest.mark.parametrize("is_partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_build_whose_store_fails(case: Case, kind: str, is_partitioned: bool, rng: random.Random) -> None:
    _, copied, num_calls = case
    for nth in sorted(rng.sample(range(1, num_calls + 1), min(CALLS, num_calls))):
        for harm in (Harm.FAILS, Harm.FAILS_AFTERWARDS, Harm.ANSWER_LOST):
            path, error = copied(f"{nth}-{harm.name}"), None
            with harmed(Plan(nth, harm)):
                try:
                    build(path, kind)
                except LanceError as raised:
                    error = raised
            told = f"call {nth} of {num_calls} {harm}: {error!r}"
            if not isinstance(error, CommitStateUnknownError):
                assert index_names(path) == ({"by_v"} if error is None else set()), told
            check_goes_on(path, kind, is_partitioned, told)


@forks
def test_reference_reads_what_a_killed_build_has_left(tmp_path: Path) -> None:
    path = made(tmp_path / "t", False)
    counted = count_calls(Path(shutil.copytree(path, tmp_path / "good")), "IVF_PQ")

    def act(report: object) -> None:
        with harmed(Plan(counted - 1, run=kill_self)):
            build(path, "IVF_PQ")

    assert fork(act).join() == -9
    assert index_folders(path)
    assert lance.dataset(str(path)).list_indices() == []
    build(path, "IVF_PQ")
    nearest = {"column": "v", "q": QUERIES[0], "k": 10, "nprobes": 100}
    assert lance.dataset(str(path)).to_table(columns=["id"], nearest=nearest).num_rows == 10
