"""A damaged text index costs a warning, wherever the damage is: also in what is read only when a query needs it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.index.text.queries import MatchQuery, PhraseQuery
from lance_spark.storage.cache import shared
from tests.search.comparisons import TEXT, scores, table
from tests.support.index_warnings import index_warnings

QUERIES = (
    MatchQuery("w3 w40"),
    MatchQuery("w2 w5", operator="AND"),
    MatchQuery("w90", fuzziness=1),
    PhraseQuery("w1 w2"),
)
PHRASE = 3
"""Its place."""


@pytest.fixture(params=["ours", "reference"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The folder of a text index with positions."""
    uri = str(tmp_path / "t")
    lance.write_dataset(table(500), uri, max_rows_per_file=200)
    if request.param == "ours":
        lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words", with_position=True)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", with_position=True)
    (found,) = (tmp_path / "t" / "_indices").iterdir()
    return found


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What was logged about indexes."""
    with index_warnings() as messages:
        yield messages


def answers(folder: Path, *, use_index: bool = True) -> list[set[int]]:
    """The rows of each query, of the best ones, and of a filter."""
    shared.clear()
    dataset = lance_spark.open(folder.parent.parent)
    found = [set(scores(dataset.search(query, columns=["id"], use_index=use_index))) for query in QUERIES]
    if use_index:
        assert dataset.search("w3 w40", columns=["id"], limit=5).num_rows == 5
        kept = dataset.to_table(["id"], f"lance_match({TEXT}, 'w3 w40')")["id"].to_pylist()
    else:
        kept = dataset.search("w3 w40", columns=["id"], use_index=False)["id"].to_pylist()
    return [*found, set(kept)]


@pytest.mark.slow
def test_overwritten_bytes_never_raise(folder: Path) -> None:
    """Files have no checksums: a changed value can go unnoticed, but nothing fails."""
    draw = random.Random(3)
    for file in list(folder.iterdir()):
        data = file.read_bytes()
        for position in [*range(0, len(data), max(1, len(data) // 30)), *range(len(data) - 40, len(data), 5)]:
            changed = bytearray(data)
            changed[position] ^= 1 << draw.randrange(8)
            file.write_bytes(bytes(changed))
            answers(folder)
        file.write_bytes(data)


@pytest.mark.slow
def test_zeroed_stretches_give_the_rows_of_a_scan(folder: Path, warnings: list[str]) -> None:
    """Zeros go unnoticed only in positions of words, where any number is as good as another: phrases are not found."""
    expected = answers(folder, use_index=False)
    for file in list(folder.iterdir()):
        data = file.read_bytes()
        for start in range(0, len(data), max(64, len(data) // 12)):
            file.write_bytes(data[:start] + bytes(min(64, len(data) - start)) + data[start + 64 :])
            warnings.clear()
            found = answers(folder)
            if found[PHRASE] != expected[PHRASE] and not warnings:
                assert file.name.endswith("_invert.lance")
                found[PHRASE] = expected[PHRASE]
            assert found == expected or warnings, (file.name, start)
        file.write_bytes(data)
    warnings.clear()
    assert answers(folder) == expected
    assert warnings == []


def test_damage_that_a_query_meets_costs_one_warning_and_its_rows_are_read(folder: Path, warnings: list[str]) -> None:
    expected = answers(folder, use_index=False)
    (file,) = folder.glob("part_*_invert.lance")
    data = file.read_bytes()
    file.write_bytes(bytes(len(data) // 2) + data[len(data) // 2 :])
    shared.clear()
    dataset = lance_spark.open(folder.parent.parent)
    assert set(scores(dataset.search(QUERIES[0], columns=["id"]))) == expected[0]
    assert len(warnings) == 1
    assert folder.name in warnings[0]
    assert answers(folder) == expected


def test_damaged_data_file_is_an_error(folder: Path) -> None:
    (file, *_) = sorted((folder.parent.parent / "data").iterdir())
    file.write_bytes(bytes(100) + file.read_bytes()[100:])
    shared.clear()
    dataset = lance_spark.open(folder.parent.parent)
    with pytest.raises(CorruptFileError):
        dataset.search("w3", columns=["id"], use_index=False)
