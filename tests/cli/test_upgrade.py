"""`python -m lance_spark upgrade`."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.cli.main import main
from lance_spark.partitioned.dataset import open_partitioned_dataset
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import FILE_VERSION
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows


@pytest.mark.parametrize("old", ["legacy", "2.0", "2.1"])
def test_upgrade_rewrites_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"a": range(100)})
    lance.write_dataset(table, uri, data_storage_version=old, max_rows_per_file=50)

    assert main(["upgrade", uri]) == 0

    shown = capsys.readouterr()
    assert shown.out == "version 2: 2 fragments rewritten in file version 2.2\n"
    assert shown.err == "", "no progress in a pipe"
    assert lance.dataset(uri).data_storage_version == "2.2"
    assert lance.dataset(uri).to_table() == table
    assert main(["verify", uri]) == 0
    capsys.readouterr()
    assert main(["upgrade", uri, "--to", "2.2"]) == 0
    assert capsys.readouterr().out == "version 2: all files are of version 2.2 or newer\n"


def test_upgrade_of_a_partitioned_table_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "t")
    made = create_partitioned(root, SCHEMA, BY_COUNTRY, properties={FILE_VERSION: "2.0"})
    save_rows(made, rows(20))
    before = open_partitioned_dataset(root)

    assert main(["upgrade", root, "--to", "2.1", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    after = open_partitioned_dataset(root)
    assert (found["version"], found["file_version"], found["changed"]) == (before.version + 1, "2.1", True)
    assert after.file_version.value == "2.1"
    key = SCHEMA.names[0]
    assert after.to_table().sort_by(key) == before.to_table().sort_by(key)


def test_refused_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": [1]}), uri)
    assert main(["upgrade", uri, "--to", "2.0"]) == 2
    assert "newer than 2.0" in capsys.readouterr().err
