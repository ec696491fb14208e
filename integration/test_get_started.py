"""The pages of "Get started" followed literally, each by a reader with a new environment in a new folder.

The pages install from a folder `wheels`, where the reader finds the wheel of this tree. All of them begin where the
first block of the page "Local" ends, with the package installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from integration.environments import run
from integration.reader import Reader, clean_environment, steps
from tests.docs.blocks import Block, difference
from tests.support.moto import free_port
from tests.support.notebooks import texts

TREE = Path(__file__).parents[1]
PAGES = TREE / "docs" / "get-started"

PORTS = {"local.md": [], "cluster.md": ["7077"], "connect.md": ["15002"], "stores.md": ["5000"]}
"""Ports that the pages use, where a test takes free ones."""

# A new environment has a Spark, and some pages start servers.
pytestmark = pytest.mark.timeout(1800)


@dataclass(frozen=True)
class Installed:
    """A folder as the first block of "Local" leaves it.

    Attributes:
        folder: where each page is followed, because programs of a virtual environment name its path.
        kept: a copy of the folder, of links to the same files.
        environment: the variables after that block.
    """

    folder: Path
    kept: Path
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def installed(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp("get-started")
    folder, home = place / "folder", place / "home"
    folder.mkdir()
    home.mkdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "wheels", cwd=TREE)
    install = steps((PAGES / "local.md").read_text())[:1]
    with Reader(folder, clean_environment(home, Path(sys.base_prefix) / "bin" / "python3")) as reader:
        reader.follow("local.md", install)
        environment = reader.environment
    folder.rename(place / "kept")
    yield Installed(folder, place / "kept", environment)
    # It has a gigabyte.
    shutil.rmtree(place / "kept")


@pytest.fixture
def folder(installed: Installed) -> Iterator[Path]:
    shutil.copytree(installed.kept, installed.folder, symlinks=True, copy_function=os.link)
    yield installed.folder
    shutil.rmtree(installed.folder)


def todo(page: str) -> list[Block]:
    """The steps of a page after the installation."""
    found = steps((PAGES / page).read_text())
    return found[1:] if page == "local.md" else found


@pytest.mark.parametrize("page", PORTS)
def test_a_page_is_followed(installed: Installed, folder: Path, page: str) -> None:
    ports = {port: str(free_port()) for port in PORTS[page]}
    with Reader(folder, installed.environment, ports) as reader:
        reader.follow(page, todo(page))


def test_the_cells_of_a_notebook(installed: Installed, folder: Path) -> None:
    commands = [step for step in todo("notebook.md") if step.language == "sh"]
    cells = [step for step in todo("notebook.md") if step.language == "python"]
    assert cells
    path = folder / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.code) for cell in cells]), path)
    with Reader(folder, installed.environment) as reader:
        reader.follow("notebook.md", commands)
        reader.shell("jupyter execute --inplace page.ipynb", "notebook.md")
    executed = nbformat.read(path, as_version=4)
    for cell in executed.cells:
        # Progress bars are displays.
        cell.outputs = [output for output in cell.outputs if output.output_type != "display_data"]
    printed = texts(executed)
    wrong = [
        text
        for cell, output in zip(cells, printed, strict=True)
        if cell.shown is not None
        for text in difference(f"notebook.md:{cell.line}", cell.shown, output)
    ]
    assert not wrong, "\n".join(wrong)


def test_all_pages_are_followed() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == {*PORTS, "notebook.md"}


PAGE = """
```sh
mkdir -p below
WORD=one
```

```python title="below/program.py"
print(2)
```

```sh
echo $WORD
python below/program.py
```

```text
one
2
```

```sh title="Not tested: it ends the shell"
exit 1
```

```python
import os
port = 4711
```

```python
print(os.environ["WORD"], port)
```

```text
one 4711
```
"""


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path, clean_environment(tmp_path, Path(sys.executable)), {"4711": "4712"}) as reader:
        yield reader


def test_a_reader_keeps_variables_names_and_ports(newcomer: Reader) -> None:
    newcomer.follow("page", steps(PAGE))
    assert newcomer.python("print(port)", "page") == "4712\n"


@pytest.mark.parametrize(("text", "words"), [("one\n2", "page:12 shows"), ("one 4711", "page:31 shows")])
def test_a_reader_finds_output_that_differs(newcomer: Reader, text: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        newcomer.follow("page", steps(PAGE.replace(f"```text\n{text}", "```text\nother")))


@pytest.mark.parametrize("code", ["```sh\nfalse\n```\n", "```python\n1 / 0\n```\n"])
def test_a_reader_stops_at_a_step_that_fails(newcomer: Reader, code: str) -> None:
    with pytest.raises(AssertionError, match="page:2 fails"):
        newcomer.follow("page", steps(code))
