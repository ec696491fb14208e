"""Errors of pyarrow while a file is decoded say which file is damaged, and where."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import FileErrors
from lance_spark.layouts.v2_0.flat import Flat
from lance_spark.storage import open_store


@pytest.mark.parametrize(
    "error",
    [pa.ArrowInvalid("x"), pa.ArrowTypeError("x"), pa.ArrowKeyError("x"), pa.ArrowNotImplementedError("x")],
    ids=lambda error: type(error).__name__,
)
def test_decoding_error_becomes_damage_of_the_file(error: Exception) -> None:
    store = open_store("memory://foreign-errors")
    with (
        pytest.raises(CorruptFileError, match=r"x \(file data/a.lance in memory://foreign-errors") as caught,
        FileErrors(store, "data/a.lance"),
    ):
        raise error
    assert caught.value.path == "data/a.lance"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("x"), pa.ArrowCancelled("x", 2), KeyboardInterrupt()])
def test_lack_of_memory_and_interrupts_are_no_damage(error: BaseException) -> None:
    with pytest.raises(type(error)), FileErrors(open_store("memory://foreign-errors"), "data/a.lance"):
        raise error


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_column_and_page_are_named(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lance.write_dataset(pa.table({"a": range(9), "b": ["x"] * 9}), str(tmp_path), data_storage_version=version)

    def broken(*arguments: object) -> object:
        raise pa.ArrowTypeError("other members")

    monkeypatch.setattr(Flat, "read", broken)
    monkeypatch.setattr("lance_spark.layouts.page_runs._located", broken)
    with pytest.raises(CorruptFileError, match="other members") as caught:
        lance_spark.open(str(tmp_path)).to_table(["b"])
    assert (caught.value.column, caught.value.page) == (1, 0)
    assert caught.value.path is not None
    assert caught.value.path.startswith("data/")
