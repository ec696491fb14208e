"""Texts of many binary JSON documents: those of the careful decoder, which is asked where compiled code is in doubt."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import json_document, json_part, json_text, json_texts, written_texts
from lance_spark.kernels.documents.json_text import DEPTH
from tests.support.table.json_texts import random_texts

TEXTS = [*random_texts(500), '{"a":{"b":{"c":[[],{},[{}]]}}}', "[" * 60 + "]" * 60]


def careful(documents: pa.Array) -> list[str | None]:
    return [None if data is None else json_text(data) for data in documents.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pa.binary(), pa.large_binary()], ids=str)
def test_texts_are_those_of_the_careful_decoder(dtype: pa.DataType) -> None:
    documents = pa.array([item for text in TEXTS for item in (json_document(text), None)], dtype)
    for some in (documents, documents[1:], documents[7:300], documents[:0], documents[1:2]):
        found = written_texts(some)
        assert found is not None
        assert found.type == pa.string()
        found.validate(full=True)
        assert found.to_pylist() == careful(some)
    assert json_texts(documents).to_pylist() == careful(documents)


def test_bytes_of_nulls_are_not_read() -> None:
    documents = pa.array([b"\xff" * 9, json_document("1")])
    masked = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *documents.buffers()[1:]])
    found = written_texts(masked)
    assert found is not None
    assert found.to_pylist() == [None, "1"]


def arrays_in_each_other(depth: int) -> bytes:
    data = bytes.fromhex("80000000")
    for _ in range(depth - 1):
        data = struct.pack(">II", 0x80000001, 5 << 28 | len(data)) + data
    return data


@pytest.mark.parametrize("depth", [300, 999, 3000, DEPTH])
def test_texts_of_deep_documents_need_no_stack(depth: int) -> None:
    # The reference library (14.0.2) writes documents like these.
    data, text = arrays_in_each_other(depth), "[" * depth + "]" * depth
    assert json_text(data) == text
    assert json_texts(pa.array([data])).to_pylist() == json_texts(pa.array([data] * 200)).to_pylist()[:1] == [text]
    if depth < 900:
        assert json_document(text) == data


def test_what_is_too_deep_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        json_text(arrays_in_each_other(DEPTH + 1))
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        json_document("[" * 5000 + "]" * 5000)
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        json_part(arrays_in_each_other(3000), (0,))


ODD_BYTES = (0, 1, 0x10, 0x20, 0x40, 0x50, 0x80, 0xFF)

DOUBTFUL = {
    "keys that do not ascend": bytes.fromhex("40000002 10000001 10000001 00000000 00000000 62 61"),
    "a key twice": bytes.fromhex("40000002 10000001 10000001 00000000 00000000 61 61"),
    "an integer of three bytes": bytes.fromhex("20000000 20000004 50 010203"),
}


@pytest.mark.parametrize("document", DOUBTFUL.values(), ids=DOUBTFUL)
def test_odd_documents_are_left_to_the_careful_decoder(document: bytes) -> None:
    documents = pa.array([json_document("1"), document])
    assert written_texts(documents) is None
    many = pa.array([document] * 200)
    assert json_texts(many).to_pylist() == [json_text(document)] * 200


def test_damage_is_found() -> None:
    rng = random.Random(3)
    whole = [json_document(text) for text in TEXTS if len(text) < 500]
    refused = 0
    for _ in range(4000):
        data = bytearray(rng.choice(whole))
        if rng.random() < 0.3:
            del data[rng.randrange(len(data) + 1) :]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice(
                    [0, 1, 0x10, 0x20, 0x40, 0x50, 0x80, 0xFF, rng.randrange(256)]
                )
        found = written_texts(pa.array([bytes(data)]))
        try:
            expected = json_text(bytes(data))
        except InvalidInputError:
            assert found is None
            refused += 1
        else:
            assert found is None or found.to_pylist() == [expected]
    assert refused > 500
    with pytest.raises(InvalidInputError, match="no binary JSON"):
        json_texts(pa.array([*whole, whole[0][:3]]))
