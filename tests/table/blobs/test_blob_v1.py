"""Blob columns of files of 2.0 and 2.1, written and read by this library and by the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import blob_field
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.storage.meter import READS
from lance_spark.table.reading.blobs import binary_scan

VALUES = [b"first", None, b"", b"x" * 100_000, b"y" * (5 << 20), b"last"]
VERSIONS = pytest.mark.parametrize("version", ["2.0", "2.1"])

Rows = dict[int, bytes | None]


def rows(values: list[bytes | None], first_id: int = 0) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("img")])
    return pa.table({"id": range(first_id, first_id + len(values)), "img": values}, schema=schema)


def content(uri: str) -> Rows:
    """The values by id, as both libraries read them."""
    ours = lance_spark.open(uri).to_table(blob_handling="all_binary")
    theirs = lance.dataset(uri).scanner(blob_handling="all_binary").to_table()
    found = dict(zip(ours["id"].to_pylist(), ours["img"].to_pylist(), strict=True))
    assert found == dict(zip(theirs["id"].to_pylist(), theirs["img"].to_pylist(), strict=True))
    taken = lance_spark.open(uri).take(range(ours.num_rows), ["img"], blob_handling="all_binary")
    assert taken["img"].to_pylist() == ours["img"].to_pylist()
    assert len(found) == ours.num_rows
    return found


@VERSIONS
def test_positions_and_sizes_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    table = rows([*VALUES * 3, None])
    lance_spark.write(table, ours, file_format_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)
    found, expected = (lance.dataset(uri).to_table()["img"].to_pylist() for uri in (ours, theirs))
    assert found == expected
    assert content(ours) == dict(enumerate(table["img"].to_pylist()))
    assert lance.dataset(ours).schema == lance.dataset(theirs).schema


@VERSIONS
@pytest.mark.parametrize("count", [1, 3000], ids=str)
def test_pages_of_many_values_and_of_nulls(tmp_path: Path, version: str, count: int) -> None:
    uri = str(tmp_path / "t")
    random = np.random.default_rng(count)
    values: list[bytes | None] = [None if random.random() < 0.3 else bytes(random.integers(0, 9)) for _ in range(count)]
    batches = [*rows([None] * count).to_batches(), *rows(values, count).to_batches(max_chunksize=700)]
    lance_spark.write(batches, uri, file_format_version=version, max_rows_per_file=2 * count - 1)
    assert content(uri) == dict(enumerate([*[None] * count, *values]))
    wanted = [0, count, 2 * count - 1]
    found = lance.dataset(uri).take_blobs("img", indices=wanted)
    expected = [[*[None] * count, *values][place] for place in wanted]
    assert [item and item.readall() for item in found if item is not None] == [v for v in expected if v is not None]
    assert [value for _, value in lance_spark.open(uri).read_blobs("img", indices=wanted)] == expected


@VERSIONS
@pytest.mark.parametrize("by_reference", [False, True], ids=["ours", "reference"])
def test_rows_keep_their_blobs_through_all_operations(tmp_path: Path, version: str, by_reference: bool) -> None:
    uri = str(tmp_path / "t")
    if by_reference:
        lance.write_dataset(rows(VALUES), uri, data_storage_version=version)
    else:
        lance_spark.write(rows(VALUES), uri, file_format_version=version)
    expected: Rows = dict(enumerate(VALUES))
    lance_spark.write(rows([b"appended", None], 100), uri, mode="append")
    lance.write_dataset(rows([b"theirs"], 200), uri, mode="append")
    expected |= {100: b"appended", 101: None, 200: b"theirs"}
    lance_spark.open(uri).update({"id": "id + 1000"}, "id % 3 = 0")
    expected = {number + 1000 if number % 3 == 0 else number: value for number, value in expected.items()}
    assert content(uri) == expected
    lance_spark.open(uri).update({"img": b"new"}, "id = 1")
    lance_spark.open(uri).update({"img": None}, "id = 4")
    expected |= {1: b"new", 4: None}
    source = pa.table({"id": [2, 77], "img": pa.array([b"m" * 900, b"n"], pa.binary())})
    lance_spark.open(uri).merge(source, "id")
    lance_spark.open(uri).merge(pa.table({"id": [5, 78]}), "id")
    expected |= {2: b"m" * 900, 77: b"n", 78: None}
    assert content(uri) == expected
    lance_spark.open(uri).delete("id = 101")
    del expected[101]
    lance_spark.open(uri).compact()
    assert len(lance_spark.open(uri).fragments) == 1
    assert content(uri) == expected
    assert not list(Path(uri).rglob("*.blob"))
    for newer in {"2.0": ["2.1", "2.2"], "2.1": ["2.2"]}[version]:
        lance_spark.open(uri).upgrade_files(newer)
        assert lance_spark.open(uri).file_version.value == newer  # type: ignore[union-attr]
        found = lance_spark.open(uri).to_table(blob_handling="all_binary")
        assert dict(zip(found["id"].to_pylist(), found["img"].to_pylist(), strict=True)) == expected
        theirs = lance.dataset(uri).scanner(blob_handling="all_binary").to_table()
        assert dict(zip(theirs["id"].to_pylist(), theirs["img"].to_pylist(), strict=True)) == expected


@VERSIONS
def test_values_are_files_and_move_in_pieces(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(VALUES), uri, file_format_version=version)
    dataset = lance_spark.open(uri)
    before = READS.counts
    files = dataset.take_blobs("img", indices=[3, 1, 4, 2])
    assert [file and file.size for file in files] == [100_000, None, 5 << 20, 0]
    assert files[2] is not None
    assert files[2].read_range((5 << 20) - 3, 10) == b"yyy"
    # The end of the file and the places of the values, but none of the values.
    assert (READS.counts - before).num_bytes < 200_000
    monkeypatch.setattr(binary_scan, "BATCH_BYTES", 1 << 20)
    assert [batch.num_rows for batch in dataset.scan(blob_handling="all_binary")] == [4, 1, 1]


def test_blobs_inside_of_structs(tmp_path: Path) -> None:
    for version in ("2.0", "2.1"):
        uri = str(tmp_path / version)
        member = pa.struct([pa.field("n", pa.int64()), blob_field("img")])
        values: list[Any] = [{"n": 1, "img": b"a" * 700}, {"n": 2, "img": None}, {"n": 4, "img": b"small"}]
        if version == "2.1":
            values.append(None)
        schema = pa.schema([pa.field("s", member)])
        lance_spark.write(pa.table({"s": pa.array(values, member)}, schema=schema), uri, file_format_version=version)
        assert lance.dataset(uri).scanner(blob_handling="all_binary").to_table()["s"].to_pylist() == values
        lance_spark.open(uri).update({"s.n": "s.n + 1"}, "s.n < 4")
        expected = sorted(({**value, "n": value["n"] + (value["n"] < 4)} for value in values if value), key=str)
        dataset = lance_spark.open(uri)
        for found in (
            lance.dataset(uri).scanner(blob_handling="all_binary").to_table(),
            dataset.to_table(blob_handling="all_binary"),
            dataset.take(range(len(values)), blob_handling="all_binary"),
        ):
            assert sorted((value for value in found["s"].to_pylist() if value), key=str) == expected
            assert found.num_rows == len(values)
        places = lance.dataset(uri).to_table()
        assert_same_places(dataset.to_table(), places)
        assert_same_places(dataset.take(range(len(values))), places)
        assert_same_places(dataset.to_table(["s.img"]), lance.dataset(uri).to_table(["s.img"]))


@VERSIONS
def test_what_old_files_do_not_hold(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows([b"a"]), uri, file_format_version=version)
    refers = pa.array([{"data": None, "uri": "s3://b/c"}], pa.struct([("data", pa.binary()), ("uri", pa.string())]))
    with pytest.raises(UnsupportedFeatureError, match=r"references to objects.*2\.2"):
        lance_spark.write(pa.table({"id": [1], "img": refers}), uri, mode="append")
    narrow = pa.schema([pa.field("img", pa.binary(), metadata={"lance-encoding:blob": "true"})])
    with pytest.raises(UnsupportedFeatureError, match="large binary"):
        lance_spark.write(pa.table({"img": [b"a"]}, schema=narrow), str(tmp_path / "n"), file_format_version=version)
    in_list = pa.field("l", pa.list_(blob_field("item")))
    lists = pa.table({"l": pa.array([[b"a"]], in_list.type)}, schema=pa.schema([in_list]))
    with pytest.raises(UnsupportedFeatureError, match="in lists"):
        lance_spark.write(lists, str(tmp_path / "l"), file_format_version=version)
    required = pa.schema([blob_field("img", nullable=False)])
    lance_spark.write(pa.table({"img": [b"a"]}, schema=required), str(tmp_path / "r"), file_format_version=version)
    with pytest.raises(InvalidInputError, match="not nullable"):
        lance_spark.write(pa.table({"img": pa.array([None], pa.binary())}), str(tmp_path / "r"), mode="append")
    assert content(uri) == {0: b"a"}


def without_nulls_of_2_0(value: Any) -> Any:
    """A value of the reference in which the number that stands for null in files of 2.0 is null."""
    if value == {"position": 1, "size": 0}:
        return None
    return {name: without_nulls_of_2_0(child) for name, child in value.items()} if isinstance(value, dict) else value


def assert_same_places(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_pylist() == [without_nulls_of_2_0(row) for row in theirs.to_pylist()]


@VERSIONS
def test_descriptions_are_the_places_in_the_file(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows([*VALUES, None]), uri, data_storage_version=version, max_rows_per_file=4)
    theirs, dataset = lance.dataset(uri), lance_spark.open(uri)
    for handling in (None, "blobs_descriptions", "all_descriptions"):
        expected = theirs.to_table(blob_handling=handling)
        assert_same_places(dataset.to_table(blob_handling=handling), expected)
        assert_same_places(dataset.scanner(blob_handling=handling).to_table(), expected)
        assert_same_places(dataset.take([6, 0, 1], ["img"], handling), theirs.take([6, 0, 1], ["img"]))
        for batches in (dataset.scan(blob_handling=handling), dataset.to_batches(blob_handling=handling, batch_size=2)):
            assert_same_places(pa.Table.from_batches(list(batches)), expected)
        few = dataset.to_table(["img"], "id > 3", limit=2, blob_handling=handling)
        assert_same_places(few, theirs.to_table(["img"], "id > 3", limit=2))
        shaped = dataset.to_table({"i": "id + 1", "img": "img"}, order_by=["id"], blob_handling=handling)
        assert_same_places(shaped, theirs.to_table({"i": "id + 1", "img": "img"}))
    assert dataset.schema.equals(theirs.schema, check_metadata=True)
    assert dataset.scanner().projected_schema.equals(theirs.scanner().projected_schema, check_metadata=True)
    assert_same_places(dataset.head(2), theirs.head(2))
    assert_same_places(dataset.sample(7, in_order=True), theirs.to_table())
    assert_same_places(dataset.to_arrow_dataset().to_table(), theirs.to_table())
    assert_same_places(pa.table(dataset), theirs.to_table())
    ours, fragment = dataset.get_fragments()[0], theirs.get_fragments()[0]
    assert_same_places(ours.to_table(), fragment.to_table())
    # Fragments of the reference take bytes.
    assert ours.take([0, 1]).to_pylist() == fragment.take([0, 1]).to_pylist()


@VERSIONS
def test_conditions_and_orders_by_values(tmp_path: Path, version: str) -> None:
    dataset = lance_spark.write(rows(VALUES[:4]), str(tmp_path / "t"), file_format_version=version)
    assert dataset.count_rows("octet_length(img) > 3") == 2
    assert dataset.to_table(["id"], "octet_length(img) > 3")["id"].to_pylist() == [0, 3]
    assert dataset.to_table(filter="img = X'6669727374'", blob_handling="all_binary")["img"].to_pylist() == [b"first"]
    assert dataset.to_table(filter="img IS NULL").to_pylist() == [{"id": 1, "img": None}]
    computed = dataset.to_table({"n": "octet_length(img)"}, blob_handling="all_binary")
    assert computed["n"].to_pylist() == [5, None, 0, 100_000]
    for refused in ({"columns": {"n": "octet_length(img)"}}, {"filter": "octet_length(img) > 3"}):
        with pytest.raises(InvalidInputError, match="octet_length is not defined for struct"):
            dataset.to_table(**refused)
    with pytest.raises(InvalidInputError, match="no order"):
        dataset.to_table(order_by=["img"])


@VERSIONS
def test_searches_return_places_or_bytes(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float32)), 2)
    texts = pa.array(["one word", "two", "one", "three", "four", "five"])
    table = rows(VALUES).append_column("v", vectors).append_column("t", texts)
    lance.write_dataset(table, uri, data_storage_version=version)
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    dataset, theirs = lance_spark.open(uri), lance.dataset(uri)
    nearest = {"column": "v", "q": np.zeros(2, np.float32), "k": 3}
    for search in ({"nearest": nearest}, {"full_text_query": "one"}):
        assert_same_places(dataset.to_table(**search), theirs.to_table(**search))
        ours = dataset.to_table(["img"], blob_handling="all_binary", **search)
        assert (
            ours["img"].to_pylist() == theirs.to_table(["img"], blob_handling="all_binary", **search)["img"].to_pylist()
        )
    places = theirs.take([0, 1, 2], ["img"])["img"].to_pylist()
    expected = [without_nulls_of_2_0(place) for place in places]
    assert dataset.nearest("v", nearest["q"], 3)["img"].to_pylist() == expected
    assert dataset.search("one", ["img"])["img"].to_pylist() == [expected[2], expected[0]]
    hybrid = dataset.hybrid_search("v", nearest["q"], "one", 3, columns=["id", "img"])
    assert {row["id"]: row["img"] for row in hybrid.to_pylist()} == dict(enumerate(expected))


@VERSIONS
@pytest.mark.parametrize("target", ["2.0", "2.2"])
def test_table_is_written_to_another_with_its_values(tmp_path: Path, version: str, target: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_spark.write(rows(VALUES), uri, file_format_version=version)
    sources = (dataset, dataset.scanner(), dataset.get_fragments()[0], dataset.to_arrow_dataset())
    for number, source in enumerate(sources):
        copy = lance_spark.write(source, str(tmp_path / str(number)), file_format_version=target)
        assert copy.to_table(blob_handling="all_binary")["img"].to_pylist() == VALUES
    for places in (dataset.to_table(), dataset.scanner(blob_handling="blobs_descriptions")):
        with pytest.raises(UnsupportedFeatureError, match="mean nothing in another table"):
            lance_spark.write(places, str(tmp_path / "new"), file_format_version=target)
        with pytest.raises(InvalidInputError, match="mean nothing in another table"):
            lance_spark.write(places, str(tmp_path / "0"), mode="append")
