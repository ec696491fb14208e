"""Progress bars of long operations in Python: on terminals and in notebooks, if rich or tqdm is installed.

>>> with progress("Writing", total=3, unit="rows") as bar:
...     list(bar.track(iter([1, 2])))
[1, 2]
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO, TypeVar

Item = TypeVar("Item")

DELAY_SECONDS = 0.5
"""Operations that take less time show nothing."""

_SWITCH = "LANCE_SPARK_PROGRESS"
_OFF = ("0", "false", "off", "no")

_enabled = True
_shown = threading.Lock()


class Drawn(Protocol):
    """A bar on the screen."""

    def advance(self, count: int) -> None: ...

    def close(self) -> None: ...


def set_progress(enabled: bool) -> None:
    """Turns the progress bars of long operations of this process on or off.

    Without this call they are shown where somebody can see them: on terminals and in notebooks, not in logs nor in CI.
    The environment variable ``LANCE_SPARK_PROGRESS=0`` turns them off too.

    Args:
        enabled: whether bars are shown.
    """
    global _enabled
    _enabled = enabled


class Progress:
    """Progress of an operation. The bar is drawn once the operation has taken a while."""

    def __init__(self, draw: Callable[[], Drawn | None]) -> None:
        self._draw: Callable[[], Drawn | None] | None = draw
        self._drawn: Drawn | None = None
        self._waiting = 0
        self._start = time.monotonic()

    def advance(self, count: int) -> None:
        """Counts finished items."""
        self._waiting += count
        if self._draw is not None and time.monotonic() - self._start >= DELAY_SECONDS:
            self._drawn, self._draw = self._draw(), None
        if self._drawn is not None:
            # A terminal that was closed must not stop the operation.
            with suppress(OSError, ValueError):
                self._drawn.advance(self._waiting)
            self._waiting = 0

    def track(self, items: Iterable[Item], size: Callable[[Item], int] = lambda item: 1) -> Iterator[Item]:
        """The items, each counted by its `size` when the next one is wanted."""
        for item in items:
            yield item
            self.advance(size(item))

    def close(self) -> None:
        """Removes the bar."""
        if self._drawn is not None:
            with suppress(OSError, ValueError):
                self._drawn.close()
            self._drawn = None


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "rows", *, quiet: bool = False) -> Iterator[Progress]:
    """Shows the progress of the block, unless it is part of an operation that is shown already.

    Args:
        what: the operation, as the bar is labelled.
        total: the number of items; None if it is not known.
        unit: what is counted.
        quiet: shows nothing, nor do operations in the block: the caller shows progress in another way.
    """
    can_show = _is_visible() and _shown.acquire(blocking=False)
    bar = Progress((lambda: _drawn(what, total, unit)) if can_show and not quiet else (lambda: None))
    try:
        yield bar
    finally:
        bar.close()
        if can_show:
            _shown.release()


def _is_visible() -> bool:
    if not _enabled or os.environ.get(_SWITCH, "").lower() in _OFF or os.environ.get("CI"):
        return False
    screen = _screen()
    return _in_notebook() or (screen is not None and screen.isatty())


def _screen() -> TextIO | None:
    """The stream that bars are drawn on; None in processes without one."""
    return sys.stderr


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _drawn(what: str, total: int | None, unit: str) -> Drawn | None:
    # tqdm has the better bars for notebooks, rich for terminals.
    for draw in (_with_tqdm, _with_rich) if _in_notebook() else (_with_rich, _with_tqdm):
        try:
            return draw(what, total, unit)
        except ImportError:
            continue
    return None


class _Rich:
    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, count: int) -> None:
        self._bars.advance(self._task, count)

    def close(self) -> None:
        self._bars.stop()


def _with_rich(what: str, total: int | None, unit: str) -> Drawn:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    bars = Bars(*columns, TimeRemainingColumn(), console=Console(file=_screen()), transient=True)
    task = bars.add_task(what, total=total)
    bars.start()
    return _Rich(bars, task)


class _Tqdm:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, count: int) -> None:
        self._bar.update(count)

    def close(self) -> None:
        self._bar.close()


def _with_tqdm(what: str, total: int | None, unit: str) -> Drawn:
    from tqdm.auto import tqdm

    return _Tqdm(tqdm(desc=what, total=total, unit=f" {unit}", unit_scale=True, leave=False, file=_screen()))
