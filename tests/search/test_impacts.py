"""Impacts, by which the reference library skips blocks, are those that it writes itself."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text.part import TextPart
from lance_spark.index.text.partition import Partition
from lance_spark.table.search.text_columns import TextColumns
from tests.search.comparisons import TEXT


def impacts(uri: str) -> dict[str, list[bytes]]:
    """Of each term."""
    dataset = lance_spark.open(uri)
    column = TextColumns(dataset.manifest, dataset.lance_schema, dataset.location.bases(dataset.manifest))
    (source,) = column(TEXT, False).indexed
    part: TextPart = source.part
    assert isinstance(part, Partition)
    (cells,) = part.lists_file.columns({"_impacts": pa.list_(pa.large_binary())})
    return dict(zip(part.terms().to_pylist(), cells.to_pylist(), strict=True))


@pytest.mark.slow
def test_impacts_are_those_of_pylance(tmp_path: Path) -> None:
    """With lists of more than 32 blocks, long documents and high frequencies."""
    choose = random.Random(1)
    words = [f"w{number}" for number in range(60)]
    texts = [
        " ".join(choose.choices(words, [1 / (1 + place) ** 2 for place in range(60)], k=int(300 ** choose.random())))
        for _ in range(9000)
    ]
    data = pa.table({"id": range(9000), TEXT: texts})
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    lance.write_dataset(data, theirs).create_scalar_index(TEXT, "INVERTED")
    lance_spark.write(data, ours).create_text_index(TEXT)
    expected, found = impacts(theirs), impacts(ours)
    assert max(map(len, expected.values())) > 64
    assert found == expected
