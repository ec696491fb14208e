"""Changes that are staged on a branch named by an id come to main as one version, once."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.publishing.publish import branch_for_writes, publish_changes
from tests.support.harmed_tables import NO_WAIT, PUT, with_faults
from tests.support.table.branches import rows, shown
from tests.table_verbs.kinds import Partitioned

TEN = dict.fromkeys(range(10), 0)


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Ten rows, and an empty branch for what is staged with the id `job-1`."""
    made = lance_spark.write(rows(range(10)), str(tmp_path / "t"), enable_stable_row_ids=request.param)
    branch_for_writes(made.location, "wap-job-1")
    branch_for_writes(made.location, "wap-job-1")
    return made


def staged(table: Dataset) -> Dataset:
    return lance_spark.open(table.uri, branch="wap-job-1")


def test_several_writes_are_published_as_one_version(table: Dataset) -> None:
    staged(table).append(rows([20, 21])).delete("id = 1").update({"v": "5"}, "id in (2, 20)")
    assert shown(table.uri) == TEN
    made = table.publish_changes("job-1")
    last = made.versions()[-1]
    assert (made.version, last.operation, last.properties["lance.wap_id"]) == (2, "fast_forward", "job-1")
    expected = TEN | {2: 5, 20: 5, 21: 0}
    del expected[1]
    assert shown(table.uri) == expected


def test_main_has_gone_on(table: Dataset) -> None:
    staged(table).append(rows([20, 21])).delete("id = 1").update({"v": "5"}, "id in (2, 20)")
    table.append(rows([30])).delete("id = 9")
    made = table.publish_changes("job-1")
    assert (made.version, made.versions()[-1].operation) == (4, "cherrypick")
    expected = TEN | {2: 5, 20: 5, 21: 0, 30: 0}
    del expected[1], expected[9]
    assert shown(table.uri) == expected
    with pytest.raises(InvalidInputError, match="already"):
        made.publish_changes("job-1")
    assert lance.dataset(table.uri).version == 4


def test_rows_that_main_has_changed(table: Dataset) -> None:
    staged(table).delete("id in (1, 2)").append(rows([20]))
    made = table.update({"v": "1"}, "id = 2")
    with pytest.raises(InvalidInputError, match="1 rows that version 3 of branch wap-job-1 deleted or updated"):
        made.publish_changes("job-1")
    assert shown(table.uri) == TEN | {2: 1}


def test_the_branch_goes_where_the_table_has_no_files_of_it(table: Dataset) -> None:
    staged(table).delete("id = 1")
    table.append(rows([30]))
    assert publish_changes(table.location, "job-1").is_branch_removed
    assert table.branches() == {}
    branch_for_writes(table.location, "wap-job-2")
    lance_spark.open(table.uri, branch="wap-job-2").append(rows([40]))
    assert not publish_changes(table.location, "job-2").is_branch_removed
    assert list(table.branches()) == ["wap-job-2"]


def test_nothing_to_publish(table: Dataset) -> None:
    with pytest.raises(NotFoundError, match="are staged with the id 'other'"):
        table.publish_changes("other")
    with pytest.raises(InvalidInputError, match="has no changes to publish"):
        table.publish_changes("job-1")


def test_published_twice_after_a_fast_forward_and_more(table: Dataset) -> None:
    staged(table).append(rows([20]))
    made = table.publish_changes("job-1").append(rows([30]))
    with pytest.raises(InvalidInputError, match="were published already"):
        made.publish_changes("job-1")
    assert shown(table.uri) == TEN | {20: 0, 30: 0}


def test_another_writer_is_faster(table: Dataset) -> None:
    staged(table).append(rows([20]))
    location = with_faults(
        table.uri, Fault(PUT, Harm.NONE, path_part="_versions/", run=lambda: table.append(rows([30])))
    )
    branch_of = location.on_branch

    def on_branch(branch: str | None, *, must_exist: bool = True) -> TableLocation:
        return location if branch is None else branch_of(branch, must_exist=must_exist)

    location.on_branch = on_branch  # type: ignore[method-assign]
    publish_changes(location, "job-1", NO_WAIT)
    assert shown(table.uri) == TEN | {20: 0, 30: 0}


def test_partitioned_tables_have_no_branches() -> None:
    table = Partitioned(stable_row_ids=False).create((1, "a", 1))
    for verb in (
        lambda: table.publish_changes("x"),
        lambda: table.fast_forward("main", "x"),
        lambda: table.cherrypick(1),
        lambda: table.compare_branches("main", "x"),
        lambda: table.update_config({"lance.wap.enabled": "true"}),
    ):
        with pytest.raises(UnsupportedFeatureError, match="branches"):
            verb()
