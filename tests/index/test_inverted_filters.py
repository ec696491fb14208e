"""contains_tokens asks INVERTED indexes of either library; the rows are those of a scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.index.comparisons import append, check, write

TEXTS = ["Running red apples", "run Red", "the the", "née red", "NÉE red", "it's 2024-05", "", None, "x_y", "rood"]
WORDS = ["red", "Red", "Running", "running red", "the", "The red", "née", "née red", "2024 05", "x_y", "y x", "s", "q"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def texts(num_rows: int) -> dict[str, pa.Array]:
    """Each text is rare: most rows have one that no condition asks for."""
    return {
        "c": pa.array([TEXTS[row // 7] if row % 7 == 0 and row < 70 else f"filler {row}" for row in range(num_rows)])
    }


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("built_by", ["ours", "reference"])
def test_rows_are_those_of_a_scan(uri: str, stable: bool, built_by: str) -> None:
    write(uri, texts(200), rows_per_file=50, stable_row_ids=stable)
    if built_by == "ours":
        lance_spark.open(uri).create_scalar_index("c", "INVERTED", "words", num_segments=2)
    else:
        lance.dataset(uri).create_scalar_index("c", "INVERTED", name="words")
    for step in range(3):
        for words in WORDS:
            check(uri, f"contains_tokens(c, '{words}')")
        condition = "contains_tokens(c, 'red') AND NOT contains_tokens(c, 'Running') AND id < 150"
        check(uri, condition)
        check(uri, "contains_tokens(c, 'apples') OR contains_tokens(c, 'rood')")
        assert "index: words (INVERTED)" in lance_spark.open(uri).explain("contains_tokens(c, 'red')")
        if step == 0:
            append(uri, texts(80), first_id=200)
            lance_spark.open(uri).delete("id % 3 = 0").update({"c": "'was changed red'"}, "id % 10 = 1")
        elif step == 1:
            lance_spark.open(uri).compact(target_rows_per_fragment=120).optimize_indices()


@pytest.mark.parametrize(
    ("options", "words", "used"),
    [
        ({"stem": False, "lower_case": False, "remove_stop_words": False}, "the", True),
        ({"language": "French"}, "Running", True),
        ({"max_token_length": 3}, "Running", False),
        ({}, "the", False),
        ({}, "née", False),
        ({"base_tokenizer": "whitespace", "stem": False}, "it", False),
        ({"base_tokenizer": "ngram", "min_ngram_length": 2}, "re", False),
        ({"base_tokenizer": "raw", "max_token_length": None}, "red", False),
    ],
    ids=str,
)
def test_analysis_decides_whether_the_index_can_answer(
    uri: str, options: dict[str, Any], words: str, used: bool
) -> None:
    write(uri, texts(200))
    lance_spark.open(uri).create_scalar_index("c", "INVERTED", "words", **options)
    check(uri, f"contains_tokens(c, '{words}')", index="words" if used else None)
    assert ("index: words" in lance_spark.open(uri).explain(f"contains_tokens(c, '{words}')")) is used


def test_damaged_and_deferred(uri: str) -> None:
    write(uri, texts(200), rows_per_file=50)
    dataset = lance_spark.open(uri).create_scalar_index("c", "INVERTED", "words")
    dataset.compact(target_rows_per_fragment=1000, defer_index_remap=True)
    check(uri, "contains_tokens(c, 'red')")
    for file in Path(uri).glob("_indices/*/part_0_docs.lance"):
        file.write_bytes(file.read_bytes()[:-20])
    check(uri, "contains_tokens(c, 'red')", reference="")
