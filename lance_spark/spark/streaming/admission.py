"""Admission of versions to the next batch of a stream: which it skips, which it reads, and where its limits end it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.options.stream_names import LATEST
from lance_spark.spark.streaming.history import OlderColumns, Step, StreamFile, StreamHistory, VersionStamp
from lance_spark.spark.streaming.later_columns import LaterColumns
from lance_spark.spark.streaming.offsets import ALL_FILES, BEGINNING, Offset
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.spark.streaming.schema_check import added_columns, difference
from lance_spark.table.change_feed.version_effect import Effect


class Budget:
    """The limits of a batch. At least one file fits, however large.

    Args:
        options: the limits; None for a batch without limits.
    """

    def __init__(self, options: SourceOptions | None) -> None:
        self._options = options
        self.versions = self.files = self.bytes = self.rows = 0

    def takes_version(self) -> bool:
        """Counts a version; false if the batch has its number of them."""
        most = None if self._options is None else self._options.max_versions
        if most is not None and self.versions >= most:
            return False
        self.versions += 1
        return True

    def takes(self, file: StreamFile) -> bool:
        """Counts a file; false if the batch is full."""
        options = self._options
        if (
            options is not None
            and self.files
            and (
                _exceeds(self.files + 1, options.max_files)
                or _exceeds(self.bytes + file.size_bytes, options.max_bytes)
                or _exceeds(self.rows + file.num_rows, options.max_rows)
            )
        ):
            return False
        self.files += 1
        self.bytes += file.size_bytes
        self.rows += file.num_rows
        return True


def _exceeds(number: int, most: int | None) -> bool:
    return most is not None and number > most


@dataclass(frozen=True, slots=True)
class StreamReader:
    """A stream over the history of a table.

    Attributes:
        name: the table in messages.
        schema: the columns that the stream was planned with, as the version `planned_at` has them.
    """

    history: StreamHistory
    options: SourceOptions
    name: str
    schema: LanceSchema
    planned_at: int

    def initial(self) -> Offset:
        """The offset where a new query begins.

        Raises:
            InvalidInputError: there is no such version.
        """
        options = self.options
        if options.starting_version is None and options.starting_timestamp is None:
            return BEGINNING
        newest = self._newest()
        if options.starting_version == LATEST:
            return Offset(newest.version, newest.timestamp_nanos)
        if options.starting_timestamp is not None:
            return Offset(self._before_moment(newest))
        first = options.starting_version
        assert isinstance(first, int), "the other value is LATEST"
        if first > newest.version + 1:
            raise InvalidInputError(
                f"startingVersion is {first}, but the newest version of {self.name} is {newest.version}; use "
                f"{LATEST!r} to read only what comes"
            )
        return Offset(first - 1)

    def _before_moment(self, newest: VersionStamp) -> int:
        """The last version that was committed before startingTimestamp."""
        asked = self._starting_nanos()
        if newest.timestamp_nanos < asked:
            return newest.version
        found = newest.version
        oldest = self.history.oldest()
        while found > oldest and self.history.stamp(found - 1).timestamp_nanos >= asked:
            found -= 1
        return found - 1

    def _starting_nanos(self) -> int:
        asked = self.options.starting_timestamp
        return 0 if asked is None else int(asked.timestamp() * 1_000_000) * 1000

    def latest(self) -> Offset:
        """The end of what is there now."""
        newest = self._newest()
        return Offset(newest.version, newest.timestamp_nanos)

    def _newest(self) -> VersionStamp:
        newest = self.history.newest()
        if newest is None:
            raise NotFoundError(f"the table {self.name} was dropped")
        return newest

    def advance(self, start: Offset, ending: Offset, *, limited: bool) -> tuple[Offset, Budget]:
        """The end of the next batch, and what it holds; `start` if there is nothing new.

        Args:
            ending: the end of what the query may read.
            limited: whether the options limit the batch.

        Raises:
            NotFoundError: a version that the stream needs was cleaned up, or another table is at the place.
            IncompatibleConflictError: the next version changes what a stream cannot follow.
        """
        budget = Budget(self.options if limited else None)
        if start == BEGINNING:
            return self._snapshot(replace(ending, index=0, snapshot=True), budget), budget
        if start.snapshot:
            self._check_same(start, ending)
            return self._snapshot(start, budget), budget
        if start.version > ending.version:
            raise self._another_table()
        self._check_same(start, ending)
        return self._changes(start, ending, budget), budget

    def _check_same(self, offset: Offset, known: Offset) -> None:
        """Passes if the version of an offset is still that of the same table; without a request if `known` is it."""
        if not offset.timestamp:
            return
        found = known.timestamp if known.version == offset.version else 0
        try:
            found = found or self.history.stamp(offset.version).timestamp_nanos
        except NotFoundError:
            return  # Whether that matters is seen where its rows are needed.
        if found != offset.timestamp:
            raise self._another_table()

    def _another_table(self) -> NotFoundError:
        return NotFoundError(
            f"another table is at the place of {self.name} than the one that the checkpoint is about; start the query "
            "with another checkpoint"
        )

    def _snapshot(self, start: Offset, budget: Budget) -> Offset:
        end = start.index
        try:
            files = self.history.snapshot(start.version)
        except NotFoundError as error:
            raise self._lost(start.version, error) from error
        for file in files[start.index :]:
            if not budget.takes(file):
                return replace(start, index=end)
            end += 1
        return Offset(start.version, start.timestamp)

    def _changes(self, start: Offset, ending: Offset, budget: Budget) -> Offset:
        end = start
        for step in self._steps(start, ending):
            if not self._reads(step, end, is_first=end == start):
                return end
            files = step.files if self._brings_rows(step) else ()
            begin = end.index if end.version == step.version and not end.is_complete else 0
            counts = bool(files) or (self.options.read_change_feed and step.effect is not Effect.NOTHING)
            if counts and not budget.takes_version():
                return end
            for count, file in enumerate(files[begin:], start=begin):
                if not self.options.read_change_feed and not budget.takes(file):
                    return end if count == 0 else Offset(step.version, step.timestamp_nanos, count)
            end = Offset(step.version, step.timestamp_nanos)
        return end

    def _steps(self, start: Offset, ending: Offset) -> Iterator[Step]:
        """The versions after `start` with the rest of its own, up to `ending`."""
        first = start.version if not start.is_complete else start.version + 1
        yield from self._available(range(first, ending.version + 1))

    def _available(self, versions: Iterable[int]) -> Iterator[Step]:
        """The steps of versions. Versions that were cleaned up are an error, or left out if failOnDataLoss is false."""
        for version in versions:
            try:
                step = self.history.step(version)
            except NotFoundError as error:
                if self.options.fail_on_data_loss:
                    raise self._lost(version, error) from error
                continue
            yield step

    def _lost(self, version: int, error: NotFoundError) -> NotFoundError:
        return NotFoundError(
            f"the stream needs version {version} of {self.name}, or the one before it, which was cleaned up ({error}); "
            "start the query with another checkpoint, or with failOnDataLoss set to false to go on with the versions "
            "that are left"
        )

    def _reads(self, step: Step, end: Offset, *, is_first: bool) -> bool:
        """Whether the batch goes on into a version; if not it ends before, and the next batch stops there.

        Raises:
            IncompatibleConflictError: the batch begins with a version that the stream cannot read.
        """
        trouble = self._reason_to_stop(step)
        if trouble is None:
            return True
        if not is_first:
            return False
        raise IncompatibleConflictError(trouble, table_version=step.version)

    def _reason_to_stop(self, step: Step) -> str | None:
        if step.version in self.options.skip_versions:
            return None
        return self._schema_reason_to_stop(step) or self._row_reason_to_stop(step)

    def _schema_reason_to_stop(self, step: Step) -> str | None:
        if step.version <= self.planned_at:
            return None
        changed = difference(self.schema, step.schema)
        if changed is not None:
            return (
                f"version {step.version} of {self.name} changed the columns that the stream reads: {changed}. Start "
                "the query again with a new DataFrame; a query with state needs a new checkpoint too"
            )
        added = [] if self.options.new_columns == "ignore" else added_columns(self.schema, step.schema)
        if added:
            return (
                f"version {step.version} of {self.name} added column {added[0]}. Start the query again with a new "
                "DataFrame to read it, or with the option newColumns set to ignore; a query with state cannot change "
                "its columns"
            )
        return None

    def _row_reason_to_stop(self, step: Step) -> str | None:
        if step.effect in (Effect.NOTHING, Effect.NEW_ROWS) or not self._is_asked(step):
            return None
        if step.effect is Effect.UNKNOWN:
            hint = f"leave it out with skipVersions={step.version}"
        elif self._passes_changes(step.effect):
            return None
        else:
            hint = (
                "with skipChangeCommits=true the stream leaves such versions out as a whole, with "
                f"skipVersions={step.version} this one alone, with readChangeFeed=true it reads what they change; a "
                f"new query can begin after it with startingVersion={step.version + 1}"
            )
        return (
            f"version {step.version} of {self.name} ({step.operation}) {step.effect.value}, but a stream brings only "
            f"new rows: {hint}"
        )

    def _passes_changes(self, effect: Effect) -> bool:
        options = self.options
        ignored = effect is Effect.DELETES and options.ignore_deletes
        return options.read_change_feed or options.skip_change_commits or ignored

    def _is_asked(self, step: Step) -> bool:
        """Whether the version is not left out by its number or its time."""
        return step.version not in self.options.skip_versions and step.timestamp_nanos >= self._starting_nanos()

    def _brings_rows(self, step: Step) -> bool:
        return step.effect is Effect.NEW_ROWS and self._is_asked(step)

    def files(self, start: Offset, end: Offset) -> Iterator[StreamFile]:
        """The files between two offsets that `initial` and `advance` have given: the same ones at any time.

        Raises:
            NotFoundError: a version was cleaned up meanwhile.
        """
        if start == end:
            return
        older = OlderColumns(self.history, self.schema, self.planned_at)
        later = LaterColumns(self.history, self.schema, self.planned_at)
        if start.snapshot:
            begin = 0 if start == BEGINNING else start.index
            files = self.history.snapshot(end.version)[begin : None if end.is_complete else end.index]
            yield from self._as_planned(files, end.version, older, later)
            return
        first = start.version if not start.is_complete else start.version + 1
        for step in self._available(range(first, end.version + 1)):
            if not self._brings_rows(step):
                continue
            begin = start.index if step.version == start.version else 0
            stop = None if step.version != end.version or end.index == ALL_FILES else end.index
            yield from self._as_planned(step.files[begin:stop], step.version, older, later)

    def _as_planned(
        self, files: Sequence[StreamFile], version: int, older: OlderColumns, later: LaterColumns
    ) -> Iterator[StreamFile]:
        """The files of a version, for reading the columns of the stream."""
        yield from later.added_to(files, version, self._older(older, version))

    def older_columns(self, version: int) -> LanceSchema | None:
        """The columns of the stream as a version has them; None if they are the same. Raises as `files`."""
        return self._older(OlderColumns(self.history, self.schema, self.planned_at), version)

    def _older(self, older: OlderColumns, version: int) -> LanceSchema | None:
        try:
            return older.of(version)
        except NotFoundError as error:
            raise self._lost(version + 1, error) from error
