"""Trigrams of texts against their definition, whatever the batches."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.index.builders import trigrams
from lance_spark.index.ngram import _CHARACTERS
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.trigrams import group_trigrams

ALPHABET = "ab019 -ZÄßжΣİ\u0301æ"


def number_of(trigram: str) -> int:
    first, second, third = (_CHARACTERS.index(character) + 1 for character in trigram)
    return (first * 37 + second) * 37 + third


def expected(texts: list[str | None]) -> dict[int, list[int]]:
    found: dict[int, set[int]] = {}
    for place, text in enumerate(texts):
        folded = trigrams.fold(text or "").lower()
        for start in range(len(folded) - 2):
            piece = folded[start : start + 3]
            if all(character in _CHARACTERS for character in piece):
                found.setdefault(number_of(piece), set()).add(place)
    return {token: sorted(places) for token, places in found.items()}


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("batch_bytes", [1, 20, 1 << 20])
def test_texts_are_grouped_by_their_trigrams(
    dtype: pa.DataType, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigrams, "_BATCH_BYTES", batch_bytes)
    draw = random.Random(batch_bytes)
    texts = [None if draw.random() < 0.1 else "".join(draw.choices(ALPHABET, k=draw.randrange(12))) for _ in range(300)]
    found: dict[int, list[int]] = {}
    for first, starts, places in trigrams.grouped_by_trigram(pa.array(["abc", *texts], dtype).slice(1)):
        for token in np.flatnonzero(np.diff(starts)).tolist():
            found.setdefault(token, []).extend((places[starts[token] : starts[token + 1]] + first).tolist())
    assert found == expected(texts)
    assert len(found) > 100


def test_texts_without_bytes_have_no_trigrams() -> None:
    for texts in (pa.array([], pa.string()), pa.array([None, None], pa.string()), pa.array(["", "ab"])):
        assert all(not len(places) for _, _, places in trigrams.grouped_by_trigram(texts))


@pytest.mark.parametrize(
    ("offsets", "capacity", "result"), [([0, 3, 5], 4, 1), ([0, 6], 4, -1), ([3, 1], 4, -1), ([0, 5], 2, -2)]
)
def test_the_kernel_stays_inside_its_buffers(offsets: list[int], capacity: int, result: int) -> None:
    data = np.frombuffer(b"abcab", np.uint8)
    bounds = np.array(offsets, np.int64)
    last, starts, out = np.empty(37**3, np.uint32), np.empty(37**3 + 1, np.int64), np.empty(capacity, np.uint32)
    codes = trigrams._CODES
    found = group_trigrams(
        address_of(data),
        len(data),
        address_of(bounds),
        len(bounds) - 1,
        address_of(codes),
        37,
        37**3,
        address_of(last),
        address_of(starts),
        address_of(out),
        capacity,
    )
    assert found == result
