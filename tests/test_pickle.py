"""Datasets and partitioned tables as pickles: the same version, opened again where they are unpickled."""

from __future__ import annotations

import copy
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
READ = """
import pickle, sys
dataset = pickle.load(sys.stdin.buffer)
print(dataset.version, dataset.to_table(["a"])["a"].to_pylist())
"""


def read_elsewhere(pickled: bytes, folder: Path) -> str:
    """What another process with another working directory reads."""
    environment = {**os.environ, "PYTHONPATH": str(Path(lance_spark.__file__).parents[1])}
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, input=pickled, capture_output=True, cwd=folder, env=environment, check=True)
    return done.stdout.decode().strip()


def globals_in(pickled: bytes) -> set[str]:
    """The functions and classes that unpickling looks up."""
    strings: list[str] = []
    found = set()
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            strings.append(str(argument))
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(strings[-2:]))
        elif opcode.name == "GLOBAL":
            found.add(str(argument))
    return found


@pytest.mark.slow
def test_dataset_is_the_same_version_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = lance_spark.write(ROWS, "relative")
    pickled = pickle.dumps(dataset)
    lance_spark.write(ROWS, "relative", mode="append")
    (tmp_path / "elsewhere").mkdir()
    assert read_elsewhere(pickled, tmp_path / "elsewhere") == "1 [1, 2, 3]"


def test_dataset_of_a_branch(tmp_path: Path) -> None:
    dataset = lance_spark.write(ROWS, tmp_path / "t").create_branch("side").delete("a = 1")
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.branch, again.version) == ("side", dataset.version)
    assert again.to_table() == dataset.to_table()
    assert again.update({"a": "a + 1"}).to_table(["a"])["a"].to_pylist() == [3, 4]


def test_storage_options_travel_as_given(tmp_path: Path) -> None:
    options = {"aws_secret_access_key": "secret", "base_1.aws_region": "eu-west-1"}
    dataset = lance_spark.write(ROWS, tmp_path / "t", storage_options=options)
    assert pickle.loads(pickle.dumps(dataset)).location.storage_options == options


def test_pickle_has_no_content_of_the_table(tmp_path: Path) -> None:
    secret = pa.table({"a": [1], "column_of_the_table": ["value of the table"]})
    dataset = lance_spark.write(secret, tmp_path / "t").update_config({"key": "config of the table"})
    pickled = pickle.dumps(dataset)
    assert b"of_the_table" not in pickled
    assert b"of the table" not in pickled
    assert globals_in(pickled) == {"lance_spark.table.dataset._reopened"}


def test_version_that_was_cleaned_up_is_named(tmp_path: Path) -> None:
    dataset = lance_spark.write(ROWS, tmp_path / "t")
    pickled = pickle.dumps(dataset)
    (manifest,) = (tmp_path / "t" / "_versions").glob("*.manifest")
    manifest.unlink()
    with pytest.raises(NotFoundError, match="version 1"):
        pickle.loads(pickled)


def test_table_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    pickled = pickle.dumps(lance_spark.write(ROWS, tmp_path / "t"))
    (tmp_path / "t").rename(tmp_path / "old")
    lance_spark.write(ROWS.slice(1), tmp_path / "t")
    with pytest.raises(NotFoundError, match=r"version 1 of .* is another one than was pickled; open the table again"):
        pickle.loads(pickled)


def test_dataset_can_be_copied(tmp_path: Path) -> None:
    dataset = lance_spark.write(ROWS, tmp_path / "t")
    assert copy.copy(dataset).to_table() == copy.deepcopy(dataset).to_table() == ROWS


def partitioned(root: Any) -> PartitionedTable:
    table = create_partitioned(root, ROWS.schema, [PartitionBy("b", ("b",), Identity())])
    return save_rows(table, ROWS)


@pytest.mark.slow
def test_partitioned_table_is_the_same_version_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = partitioned("p")
    pickled = pickle.dumps(table)
    save_rows(table, ROWS)
    assert read_elsewhere(pickled, Path("/")) == f"{table.version} [1, 2, 3]"
    assert globals_in(pickled) == {"lance_spark.partitioned.table._reopened"}


def test_partitioned_table_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    options = {"aws_secret_access_key": "secret"}
    table = open_partitioned(partitioned(tmp_path / "p").root, storage_options=options)
    pickled = pickle.dumps(table)
    assert pickle.loads(pickled).storage_options == options
    (tmp_path / "p").rename(tmp_path / "old")
    partitioned(tmp_path / "p")
    with pytest.raises(NotFoundError, match="is another one than was pickled; open the table again"):
        pickle.loads(pickled)
