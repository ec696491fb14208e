"""Verbs in the reference library's words, beside the verbs of this one and beside the reference library."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import Tags

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.dataset import Dataset
from lance_spark.table.reference_arguments import _REFUSED, _RENAMED, MISSING_VERBS

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": [0, 1] * 3, "text": ["sea", "lake", "the sea"] * 2})


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest) -> Any:
    uri = f"memory://words-{uuid.uuid4().hex}"
    if request.param == "plain":
        return lance_spark.write(ROWS, uri)
    return create_partitioned_dataset(uri, ROWS.schema, [PartitionBy("p", ("p",), Identity())]).append(ROWS)


def new(*keys: int) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64()), "p": [key % 2 for key in keys], "text": ["new"] * len(keys)})


def texts(table: Any) -> dict[int, str]:
    found = table.to_table(["id", "text"])
    return dict(zip(found["id"].to_pylist(), found["text"].to_pylist(), strict=True))


def test_insert(table: Any) -> None:
    longer = table.insert(new(6, 7))
    assert longer.count_rows() == 8
    assert texts(longer.insert(new(9), mode="overwrite")) == {9: "new"}
    with pytest.raises(InvalidInputError, match="mode 'create' is not known"):
        table.insert(new(1), mode="create")


def test_update_by_pylance_names_of_arguments(table: Any) -> None:
    assert texts(table.update(updates={"text": "'x'"}, where="id = 2"))[2] == "x"


def test_merge_insert(table: Any) -> None:
    upserted = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new(5, 6))
    assert texts(upserted) == texts(table) | {5: "new", 6: "new"}
    only_new = table.newest().merge_insert(["id"]).when_not_matched_insert_all().execute(new(0, 7))
    assert texts(only_new) == texts(upserted) | {7: "new"}
    kept = table.newest().merge_insert("id").when_not_matched_by_source_delete().execute(new(0, 1))
    assert set(texts(kept)) == {0, 1}
    assert set(texts(table.newest().merge_insert("id").when_matched_delete().execute(new(0)))) == {1}
    with pytest.raises(InvalidInputError, match="nothing to do"):
        table.merge_insert("id").execute(new(1))
    some = table.newest().merge_insert("id").when_matched_update_all("source.id > 0").execute(new(0, 1))
    assert texts(some)[1] == "new"


def test_tags(table: Any) -> None:
    first = table.version
    later = table.append(new(6))
    later.tags.create("a")
    later.tags.create("b", first)
    assert later.tags.list() == later.tags() == table.tags()
    assert [later.tags.get_version(name) for name in ("a", "b")] == [later.version, first]
    later.tags.update("b", later.version)
    later.tags.delete("a")
    assert {name: tag.version for name, tag in table.tags.list().items()} == {"b": later.version}
    with pytest.raises(NotFoundError, match="no tag 'a'"):
        table.tags.get_version("a")
    with pytest.raises(InvalidInputError, match="'b' is no number of a version"):
        table.tags.create("c", "b")
    words = {name for name in dir(table.tags) if not name.startswith("_")}
    assert words == {name for name in dir(Tags) if not name.startswith("_")} - {
        "list_ordered",
        "replace_metadata",
    }


def test_branches() -> None:
    table = lance_spark.write(ROWS, f"memory://words-{uuid.uuid4().hex}")
    table.create_branch("b")
    assert table.branches.list() == table.branches()
    assert [*table.branches()] == ["b"]
    table.branches.delete("b")
    assert table.branches.list() == {}


def test_indexes_are_optimized_as_without_a_number_of_segments(table: Any) -> None:
    grown = table.create_scalar_index("id", "BTREE").append(new(6))
    optimized = grown.optimize.optimize_indices(num_indices_to_merge=None)
    assert optimized.index_statistics("id_idx")["num_unindexed_rows"] == 0


def test_names_that_are_called_otherwise(table: Any) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'sort_by'; here: to_table\(order_by"):
        table.sort_by("id")
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        table.nonsense()
    assert not hasattr(table, "sql")
    # What is missing here is there in the reference library, and the other way round.
    assert all(hasattr(lance.LanceDataset, name) and not hasattr(table, name) for name in MISSING_VERBS)
    with pytest.raises(InvalidInputError, match="call build_index_segment"):
        table.create_scalar_index("id", "BTREE", fragment_ids=[0])
    with pytest.raises(InvalidInputError, match="leave it out"):
        table.create_index("id", "BTREE", accelerator="cuda")
    indexed = table.create_scalar_index("id", index_type="BITMAP")
    assert {index["type"] for index in indexed.list_indices()} == {"Bitmap"}


RENAMED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "delete": (lambda table: table.delete(predicate="id > 2"), lambda table: table.delete("id > 2")),
    "add_columns": (
        lambda table: table.add_columns(transforms={"m": "id"}),
        lambda table: table.add_columns({"m": "id"}),
    ),
    "update_config": (lambda table: table.update_config(values={"a": "b"}, replace=False), lambda table: table),
}


@pytest.mark.parametrize(("renamed", "own"), RENAMED.values(), ids=RENAMED)
def test_arguments_that_have_another_name(table: Any, renamed: Callable[[Any], Any], own: Callable[[Any], Any]) -> None:
    expected = renamed(table).to_table(order_by=["id"])
    assert (
        expected == own(lance_spark.write(table.to_table(order_by=["id"]), "memory://" + uuid.uuid4().hex)).to_table()
    )


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "delete": (
        lambda table: table.delete("id = 1", conflict_retries=3),
        "conflict_retries is not an argument of delete",
    ),
    "update": (lambda table: table.update({"id": "id"}, retry_timeout=timedelta(1)), "tried again by themselves"),
    "compact": (lambda table: table.optimize.compact_files(num_threads=2), "leave it out: there is nothing to tune"),
    "sample": (lambda table: table.sample(2, randomize_order=True), "give in_order, which is the opposite"),
    "cleanup": (lambda table: table.cleanup_old_versions(versions=[1]), "older_than or retain_versions"),
    "merge": (lambda table: table.merge(data_obj=ROWS, left_on="id"), "add_columns adds columns"),
    "config": (lambda table: table.update_config({"a": "b"}, replace=True), "None for each entry to remove"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_arguments_without_a_counterpart(table: Any, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        call(table)
    assert table.newest().version == table.version


@pytest.mark.slow
def test_arguments_that_are_left_out_or_given_twice(table: Any) -> None:
    assert table.delete("id = 1", conflict_retries=None).count_rows() == 5
    with pytest.raises(InvalidInputError, match="delete gets filter twice"):
        table.delete(filter="id = 1", predicate="id = 2")


def test_the_verbs_know_every_argument_of_pylance() -> None:
    """Those that are taken, or refused with a sentence; searches and reads have a list of their own."""
    reads = {"scanner", "to_batches", "to_pandas", "to_table", "head", "count_rows", "insert"}
    for name in {*dir(Dataset)} & {*dir(lance.LanceDataset)} - reads:
        theirs, ours = getattr(lance.LanceDataset, name), getattr(Dataset, name)
        if name.startswith("_") or not inspect.isfunction(ours) or not callable(theirs):
            continue
        taken = inspect.signature(ours).parameters
        if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            continue
        known = {*taken, *_RENAMED.get(name, ()), *_REFUSED.get(name, ()), "kwargs"}
        assert {*inspect.signature(theirs).parameters} <= known, name


def test_writes_and_opens_in_pylance_s_words(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="data_storage_version is not an option here; write file_format"):
        lance_spark.write(ROWS, tmp_path / "t", data_storage_version="2.1")
    with pytest.raises(TypeError, match="no keyword argument 'nonsense'"):
        lance_spark.write(ROWS, tmp_path / "t", nonsense=1)
    assert not (tmp_path / "t").exists()
    with pytest.raises(UnsupportedFeatureError, match="session is not an option here; leave it out"):
        lance_spark.write(ROWS, tmp_path / "t", session=lance.Session())
    table = lance_spark.write(ROWS, tmp_path / "t", enable_v2_manifest_paths=True, progress=None)
    table.create_tag("first", 1)
    table.append(new(7))
    assert lance_spark.open(tmp_path / "t", 1).count_rows() == 6
    assert lance_spark.open(tmp_path / "t", "first").version == 1
    assert lance_spark.open(tmp_path / "t", asof=datetime.now(timezone.utc)).version == 2
    with pytest.raises(UnsupportedFeatureError, match="block_size is not an argument of open here; leave it out"):
        lance_spark.open(tmp_path / "t", block_size=4096)
    with pytest.raises(InvalidInputError, match="the time '2025-01-01' is not a datetime"):
        lance_spark.open(tmp_path / "t", asof="2025-01-01")
    with pytest.raises(InvalidInputError, match="one of version and tag"):
        lance_spark.open(tmp_path / "t", "first", tag="first")
    assert table.get_fragments()[0].to_pandas(["id"], "id > 3")["id"].tolist() == [4, 5]


def test_alter_columns(table: Any) -> None:
    changed = table.alter_columns({"path": "text", "name": "words"}, {"path": "id", "name": "key", "nullable": True})
    assert changed.version == table.version + 1
    assert changed.schema.names == ["key", "p", "words"]
    wider = changed.alter_columns({"path": "words", "data_type": pa.large_string()})
    assert wider.schema.field("words").type == pa.large_string()
    for wrong, message in [
        ([], "needs a mapping"),
        ([{"name": "b"}], "does not name a column"),
        ([{"path": "key", "typ": 1}], "'typ' of 'key' is not known"),
        ([{"path": "key", "name": "a"}, {"path": "words", "data_type": pa.string()}], "one column at a time"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            wider.alter_columns(*wrong)
    assert table.newest().version == wider.version


def test_versions(table: Any) -> None:
    first = table.version
    later = table.insert(new(6)).delete("id = 0")
    assert table.latest_version == later.version == first + 2
    assert texts(later.checkout_version(first)) == texts(table)
    later.create_tag("two", first + 1)
    assert later.checkout_version("two").count_rows() == 7
    for missing in (99, "none"):
        with pytest.raises(NotFoundError):
            later.checkout_version(missing)
    later.delete_tag("two")
    removed = later.cleanup_old_versions(timedelta(0), retain_versions=1, delete_unverified=True)
    assert removed.versions
    assert texts(table.newest()) == texts(later)


def test_searches_by_to_table_and_scanner(table: Any) -> None:
    found = table.to_table(["id"], full_text_query="sea", limit=3)
    assert found.schema.names == ["id", "_score"]
    assert set(found["id"].to_pylist()) <= {0, 2, 3, 5}
    assert found.num_rows == 3
    named = {"query": "sea", "columns": ["text"]}
    scanner = table.scanner(["id"], "id > 2", full_text_query=named, with_row_id=True)
    assert sorted(scanner.projected_schema.names) == ["_rowid", "_score", "id"]
    assert sorted(pa.table(scanner)["id"].to_pylist()) == [3, 5]
    assert (scanner.count_rows(), sum(batch.num_rows for batch in scanner.to_batches())) == (2, 2)
    for arguments, message in [
        ({"full_text_query": {"query": "sea", "column": "text"}}, "does not know the key 'column'"),
        ({"full_text_query": {}}, "needs the key 'query'"),
        ({"full_text_query": "sea", "nearest": {"column": "v", "q": [1.0]}}, "hybrid_search does both"),
        ({"fast_search": True}, "belongs to nearest or full_text_query"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            table.to_table(**arguments)
    with pytest.raises(TypeError, match="filterr"):
        table.to_table(filterr="id > 2")


@pytest.mark.parametrize("columns", [["text"], ("text",)])
def test_one_column_in_a_list_is_the_column_of_an_index(table: Any, columns: Any) -> None:
    indexed = table.create_scalar_index(columns, "BTREE").create_index(columns, "INVERTED", name="words")
    assert {item["name"]: item["fields"] for item in indexed.list_indices()} == {
        "text_idx": ["text"],
        "words": ["text"],
    }
    with pytest.raises(InvalidInputError, match="an index is on one column"):
        table.create_scalar_index(["id", "text"])


@pytest.mark.parametrize("stable", [False, True])
def test_fragments(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")
    ours, theirs = lance_spark.open(uri), lance.dataset(uri).get_fragments()
    assert isinstance(ours, lance_spark.Dataset)
    assert len(ours.get_fragments()) == len(theirs) == 3
    for mine, other in zip(ours.get_fragments(), theirs, strict=True):
        assert mine.fragment_id == other.fragment_id
        assert (mine.physical_rows, mine.num_deletions) == (other.physical_rows, other.num_deletions)
        assert [file.path for file in mine.data_files()] == [file.path for file in other.data_files()]
        assert (mine.deletion_file() is None) == (other.deletion_file() is None)
        assert mine.to_table() == other.to_table()
        assert mine.schema == other.schema
        assert mine.count_rows("id >= 3") == other.count_rows("id >= 3")
        assert mine.to_table(["text"], "id >= 3") == other.to_table(["text"], "id >= 3")
        assert pa.Table.from_batches(mine.to_batches(["id"])) == other.to_table(["id"])
        assert mine.head(1) == other.head(1)
        assert mine.take([0], ["id"])["id"] == other.take([0], ["id"])["id"]
        assert mine.scanner(["id"]).count_rows() == other.count_rows()
    second = ours.get_fragment(1)
    assert second is not None
    assert second.count_rows() == 1
    assert ours.get_fragment(7) is None
