"""The commands on tables of the reference library, golden tables, and damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark.cli.main import main
from lance_spark.cli.output import escaped
from lance_spark.partitioned.save import create_partitioned
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows

GOLDEN = Path(__file__).parents[1] / "golden" / "v0_1"
GOLDEN_READABLE = ["0.5.9-no_fragments", "0.7.5-with_deletions", "0.8.0-migrated_from_v0.7.5"]


def _table(path: Path, version: str = "2.1", **options: object) -> lance.LanceDataset:
    data = pa.table({"a": range(100), "s": [f"x{i}" for i in range(100)], "l": [[i, i + 1] for i in range(100)]})
    return lance.write_dataset(data, str(path), data_storage_version=version, max_rows_per_file=50, **options)


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_inspect_pages_agree_with_pylance(tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str) -> None:
    table = _table(tmp_path / "t", version)
    table.delete("a < 3")
    table.create_scalar_index("a", "BTREE")
    table.tags.create("first", 1)
    table.create_branch("side")
    found = _json(capsys, "inspect", str(tmp_path / "t"), "--pages")
    assert found["version"] == table.version
    assert found["summary"]["rows"] == table.count_rows() == 97
    assert [tag["name"] for tag in found["tags"]] == ["first"]
    assert [branch["name"] for branch in found["branches"]] == ["side"]
    assert [index["name"] for index in found["indexes"]] == ["a_idx"]
    assert [fragment["id"] for fragment in found["fragments"]] == [f.fragment_id for f in table.get_fragments()]
    assert found["fragments"][0]["deletion_file"]["deleted_rows"] == 3
    column = found["fragments"][0]["files"][0]["columns"][0]
    assert column["name"] == "a"
    assert sum(page["rows"] for page in column["pages"]) == 50
    assert all(page["encodings"] for page in column["pages"])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_verify_accepts_sound_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, stable: bool
) -> None:
    table = _table(tmp_path / "t", version, enable_stable_row_ids=stable)
    table.delete("a < 3")
    table.update({"s": "'new'"}, where="a = 7")
    table.create_scalar_index("a", "BTREE")
    assert main(["verify", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", GOLDEN_READABLE)
def test_verify_accepts_golden_tables(name: str) -> None:
    assert main(["verify", str(GOLDEN / name)]) == 0


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_verify_reports_every_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    _table(tmp_path / "t")
    files = sorted((tmp_path / "t" / "data").iterdir())
    assert len(files) == 2
    for file in files:
        content = bytearray(file.read_bytes())
        if damage == "remove":
            file.unlink()
            continue
        content[-1] ^= 0xFF
        file.write_bytes(content if damage == "flip" else content[:-100])
    assert main(["verify", str(tmp_path / "t")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert all(any(file.name in line for line in lines) for file in files)


@pytest.mark.parametrize("folder", ["_deletions", "_indices"])
def test_verify_reports_missing_side_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str) -> None:
    table = _table(tmp_path / "t")
    table.delete("a < 3")
    table.create_scalar_index("a", "BTREE")
    for file in (tmp_path / "t" / folder).rglob("*.*"):
        if file.is_file():
            file.unlink()
    assert main(["verify", str(tmp_path / "t")]) == 1
    assert ("index a_idx" if folder == "_indices" else "_deletions/") in capsys.readouterr().out


def test_diff_shows_schema_and_fragments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    table.delete("a < 3")
    table.add_columns({"b": "a + 1"})
    found = _json(capsys, "diff", str(tmp_path / "t"), "1", "3")
    assert [field["name"] for field in found["schema"]["added"]] == ["b"]
    assert found["fragments"] == {"added": [], "removed": [], "changed": [0, 1]}
    assert found["rows"] == {"from": 100, "to": 97}


def test_versions_lists_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _table(tmp_path / "t").delete("a < 3")
    found = _json(capsys, "versions", str(tmp_path / "t"))
    assert [(v["version"], v["rows"]) for v in found["versions"]] == [(1, 100), (2, 97)]


def test_partitioned_table_shows_specs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = create_partitioned(str(tmp_path / "p"), SCHEMA, BY_COUNTRY)
    for country in ("at", "de"):
        table = save_rows(table, rows(1, 2, country=country))
    found = _json(capsys, "inspect", str(tmp_path / "p"), "--fragments")
    assert [spec["fields"][0]["field_id"] for spec in found["partitioning"]["specs"]] == ["country"]
    partitions = found["partitioning"]["partitions"]
    assert sorted(value for item in partitions for value in item["values"].values()) == ["at", "de"]
    assert [item["table"]["summary"]["rows"] for item in partitions] == [2, 2]
    assert main(["verify", str(tmp_path / "p")]) == 0
    next((tmp_path / "p" / partitions[1]["location"] / "data").iterdir()).unlink()
    assert main(["verify", str(tmp_path / "p")]) == 1
    assert partitions[1]["location"] in capsys.readouterr().out


def test_output_in_a_pipe_has_no_control_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lance.write_dataset(pa.table({"a\x1b[31m": [1]}), str(tmp_path / "t"))
    assert main(["inspect", str(tmp_path / "t")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert escaped("a\x1b\n") == "a\\x1b\\n"


def test_bad_input_is_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--version", "0"], ["--storage", "key"], []):
        assert main(["verify", str(tmp_path / "none"), *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
