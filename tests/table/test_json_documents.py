"""JSON columns: the documents that are written are those of the reference library, whichever verb writes them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import json_document, json_item, json_text
from tests.support.table.json_texts import random_texts


def test_documents_are_those_of_pylance(tmp_path: Path) -> None:
    texts = random_texts(1000)
    lance.write_dataset(pa.table({"j": pa.array(texts, pa.json_())}), str(tmp_path))
    _, batches = lance_spark.open(str(tmp_path)).stored_rows(["j"])
    stored = pa.Table.from_batches(batches)["j"].to_pylist()
    shown = lance.dataset(str(tmp_path)).to_table()["j"].to_pylist()
    assert [json_document(text) for text in texts] == stored
    assert [json.loads(json_text(data)) for data in stored] == [json.loads(text) for text in shown]


def test_numbers_that_text_cannot_have_are_null() -> None:
    # As the reference library writes [1e999, NaN].
    data = bytes.fromhex("80000002 20000001 20000001 20 10")
    assert json_text(data) == "[null,null]"


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', "[1", "NaN", "-Infinity", "1e999", "", "[" * 5000 + "]" * 5000, '"\\ud800"', "01", "[1,]", "'a'"],
)
def test_texts_that_are_no_documents(text: str) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        json_document(text)


def test_damaged_documents_are_refused() -> None:
    rng = random.Random(1)
    whole = json_document('{"a":[1,2.5,null,"text",true,{"x":"y"}],"b":-300,"c":{}}')
    for _ in range(3000):
        data = bytearray(whole[: rng.randrange(len(whole) + 1)] if rng.random() < 0.5 else whole)
        for _ in range(rng.randrange(3)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            json_item(bytes(data))
        except InvalidInputError:
            continue
    deep = b"\x80\x00\x00\x01\x50\x00\x00\x00" * 2000
    with pytest.raises(InvalidInputError):
        json_item(deep)


def test_verbs_take_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    documents = pa.array(['{"b":1}', None], pa.json_())
    lance_spark.write(pa.table({"id": [1, 2], "j": documents}), uri)
    lance_spark.write(pa.table({"id": [3], "j": ["[true]"]}), uri, mode="append")
    lance_spark.write(pa.table({"id": [4], "j": pa.array(["4"], pa.large_string())}), uri, mode="append")
    dataset = lance_spark.open(uri)
    dataset.merge(pa.table({"id": [3, 5], "j": pa.array(["[3]", "5"], pa.json_())}), "id")
    # What was read can be written again.
    lance_spark.write(lance_spark.open(uri).to_table(filter="id = 1"), str(tmp_path / "copy"))
    lance.write_dataset(pa.table({"id": [6], "j": pa.array(["6"], pa.json_())}), uri, mode="append")
    lance_spark.open(uri).compact()
    table = lance.dataset(uri).to_table().sort_by("id")
    assert table["j"].to_pylist() == ['{"b":1}', None, "[3]", "4", "5", "6"]
    assert lance.dataset(str(tmp_path / "copy")).to_table()["j"].to_pylist() == ['{"b":1}']
    with pytest.raises(InvalidInputError, match="'no' is no JSON"):
        lance_spark.write(pa.table({"id": [7], "j": ["no"]}), uri, mode="append")
    assert lance_spark.open(uri).count_rows() == 6


def test_added_and_nested_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    items = pa.array(['{"a":1}', "2"], pa.json_())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), items)
    structs = pa.StructArray.from_arrays([items], fields=[pa.field("j", pa.json_())])
    lance_spark.write(pa.table({"id": [1, 2], "l": lists, "s": structs}), uri)
    added = pa.table({"id": [1, 2], "j": pa.array(["[1]", None], pa.json_())})
    lance_spark.open(uri).add_columns((added, ["id"])).add_columns(pa.field("empty", pa.json_()))
    dataset = lance.dataset(uri)
    assert dataset.schema.field("j").type == pa.json_()
    assert dataset.to_table(["j"])["j"].to_pylist() == ["[1]", None]
    assert dataset.schema.field("empty").type == pa.json_()
    found = lance_spark.open(uri).to_table()
    assert found["l"].to_pylist()[0] == ['{"a":1}', "2"]
    assert [row["j"] for row in found["s"].to_pylist()] == ['{"a":1}', "2"]
