"""Which tests run, how they are spread over the processes of `pytest -n`, and what all random tests have in common."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.durations import read_durations, scope, write_durations
from tests.support.spark_versions import skip_later
from tests.support.tiers import TIER, Tier, selected

pytest_plugins = ["pytester", "tests.support.connector.session"]

# A busy machine is no failure. Where the environment variable CI is set, hypothesis takes the same examples every time.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Spark plans thousands of different small statements here. Compiling them for speed took half of the processor time,
# and the 48 MB that a JVM with one compiler has for compiled code were full soon.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")

# A tier runs the same cases each time; whoever runs a part of the tests tries new ones. Reports name the seed.
os.environ.setdefault("LANCE_SEED", str(random.randrange(1, 1 << 31)) if TIER is Tier.ALL else "1")
SEED = int(os.environ["LANCE_SEED"])

_seconds: Counter[str] = Counter()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of the test, by the seed that a report of a failure names."""
    return random.Random(f"{SEED}-{request.node.name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the cases that the tier of this run chooses, the longest modules first if there are several processes, and
    skips those that need a later Spark.
    """
    kept = selected(items, TIER, SEED)
    if len(kept) < len(items):
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    if hasattr(config, "workerinput"):
        measured = read_durations()
        kept.sort(key=lambda item: -measured.get(scope(item.nodeid), float("inf")))
    items[:] = kept
    skip_later(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failure what runs the test again, the folder that is kept, and the last statement."""
    from tests.support.connector.session import last_statement

    report = yield
    if report.failed:
        lines = [f"LANCE_SEED={SEED} python -m pytest '{item.nodeid}'"]
        arguments = getattr(item, "funcargs", {})
        lines += [f"files: {arguments['tmp_path']}"] if "tmp_path" in arguments else []
        lines += [f"last statement: {text}" for text in last_statement if "spark" in arguments]
        report.sections.append(("to run it again", "\n".join(lines)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up the durations of modules."""
    _seconds[scope(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the durations of modules, if the environment asks for it."""
    if os.environ.get("LANCE_DURATIONS") and not hasattr(session.config, "workerinput"):
        write_durations(_seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Runs each scope in one process, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

        # xdist 3.8 gives a test that ended its process to the next process, which it ends too, and work to processes
        # that are not ready yet. A test that takes all memory then ran until CI ended.
        def remove_node(self, node: Any) -> str | None:
            work = [tests for tests in self.assigned_work[node].values() if not all(tests.values())]
            if not work:
                return super().remove_node(node)
            crashed = next(name for name, completed in work[0].items() if not completed)
            work[0][crashed] = True
            super().remove_node(node)
            return crashed

        def _reschedule(self, node: Any) -> None:
            if node in self.registered_collections:
                super()._reschedule(node)

    config.option.loadscopereorder = False
    return ByScope(config, log)
