"""Random histories of several writers on one table, against a dictionary of rows; the reference library reads along.

Writers hold the version that they have read, as old as it may be, and go on from it. After each step the newest version
and one older version are read again. `make soak` runs many more of them.
"""

from __future__ import annotations

from hypothesis import settings

from tests.support.table.histories import HISTORIES, SETTINGS, SHORT, Histories


class HistoriesWithStableRowIds(Histories):
    """The same on a table whose rows keep their ids."""

    stable_row_ids = True


class HistoriesOfVersion20(Histories):
    """The same on a table of file version 2.0, which stays one."""

    file_version = "2.0"


class HistoriesOfVersion20WithStableRowIds(HistoriesOfVersion20):
    """Both."""

    stable_row_ids = True


TestHistories = Histories.TestCase
TestHistories.settings = SETTINGS
TestHistoriesWithStableRowIds = HistoriesWithStableRowIds.TestCase
TestHistoriesWithStableRowIds.settings = SETTINGS
FEWER = settings(SETTINGS, max_examples=max(HISTORIES // 5, 1) if SHORT else HISTORIES)
TestHistoriesOfVersion20 = HistoriesOfVersion20.TestCase
TestHistoriesOfVersion20.settings = FEWER
TestHistoriesOfVersion20WithStableRowIds = HistoriesOfVersion20WithStableRowIds.TestCase
TestHistoriesOfVersion20WithStableRowIds.settings = FEWER
