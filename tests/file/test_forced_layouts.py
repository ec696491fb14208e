"""Every layout and encoding that the reference library can be made to write, and that it was written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.file import knob_files
from tests.file.reference_files import check, layouts, one_column, open_file, pages, write
from tests.support.file.forced_layouts import CASES


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_forced(tmp_path: Path, version: str, name: str) -> None:
    values, metadata, layout, words = CASES[name]
    expected = one_column(values, metadata)
    file = write(tmp_path / "x.lance", expected, version)
    if version == "2.2":
        found = layouts(file)
        assert {type(page) for page in found} == {layout}
        description = str(found[0].to_proto())
        assert all(word in description for word in words), description
    check(file, expected)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_messages_survive(tmp_path: Path, version: str) -> None:
    """A layout says the same after it was parsed and written again."""
    from lance_spark._proto import encodings_v2_1_pb2 as pb

    for name, (values, metadata, _, _) in CASES.items():
        file = write(tmp_path / f"{name}.lance", one_column(values, metadata), version)
        for page, layout in zip(pages(file), layouts(file), strict=True):
            assert layout.to_proto() == pb.PageLayout.FromString(page.message), name


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def knobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("knobs")
    subprocess.run(
        [sys.executable, "-m", "tests.file.knob_files", str(folder), request.param],
        env=os.environ | knob_files.KNOBS,
        check=True,
    )
    return folder


@pytest.mark.parametrize("name", list(knob_files.tables()))
def test_environment(knobs: Path, name: str) -> None:
    file = open_file(knobs / f"{name}.lance")
    if name == "pages":
        assert len(pages(file)) > len(file.columns)
    check(file, knob_files.tables()[name])
