"""The notebooks run, and their outputs are those that they are stored with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from tests.support.notebooks import code_cells, execute, pictures, texts

pytestmark = pytest.mark.slow

NOTEBOOKS = Path(__file__).parents[3] / "examples" / "notebooks"
PICTURES = {
    "document-search": 1,
    "first-steps": 1,
    "partitioned-joins": 1,
    "pictures": 3,
    "streaming-upserts": 1,
}
"""The number of pictures of each notebook."""

SEARCH_MARKS = [pytest.mark.since("4.3", "the functions whose documentation is searched")]
if sys.version_info >= (3, 14):
    SEARCH_MARKS.append(pytest.mark.skip(reason="wordllama, the model of the notebook, has wheels for 3.11 to 3.13"))


def stored(name: str) -> nbformat.NotebookNode:
    """A notebook as it is in the repository."""
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, jar: Path) -> Iterator[dict[str, Future[nbformat.NotebookNode]]]:
    """The notebooks of the tests that run, executed two at a time."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = [item.callspec.params["name"] for item in items if not item.get_closest_marker("skip")]
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(execute, stored(name)) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("document-search", marks=SEARCH_MARKS),
        "first-steps",
        pytest.param("partitioned-joins", marks=pytest.mark.since("4.3", "the operators of the stored plans")),
        "pictures",
        pytest.param("streaming-upserts", marks=pytest.mark.since("4.2", "the CHANGES clause")),
    ],
)
def test_notebook_has_the_outputs_that_it_is_stored_with(
    name: str, runs: dict[str, Future[nbformat.NotebookNode]]
) -> None:
    run = runs[name].result()
    assert texts(run) == texts(stored(name))
    assert pictures(run) == pictures(stored(name))
    assert sum(pictures(run)) == PICTURES[name]


def test_notebooks_are_small_and_were_run_from_top_to_bottom() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        assert path.stem in PICTURES
        assert path.stat().st_size < 300_000
        cells = code_cells(stored(path.stem))
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
