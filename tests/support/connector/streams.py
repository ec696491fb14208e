"""Streaming queries of tests: run to the end of what is there, killed, and their checkpoints."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StreamingQuery


def run(
    frame: DataFrame, target: str, checkpoint: Path | str, mode: str = "append", **options: object
) -> StreamingQuery:
    """Runs a query over all that is there; `target` is the name of a table or a path."""
    writer = frame.writeStream.outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    for name, value in options.items():
        writer = writer.option(name, str(value))
    is_path = "/" in target
    query = writer.format("lance").start(target) if is_path else writer.toTable(target)
    query.awaitTermination()
    return query


def batches(frame: DataFrame, checkpoint: Path, most: int = 99) -> list[Row]:
    """The rows of a run, which fails after `most` batches."""
    found: list[Row] = []

    def take(batch: DataFrame, _number: int) -> None:
        if len(taken) == most:
            raise ValueError("enough")
        taken.append(1)
        found.extend(batch.collect())

    taken: list[int] = []
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    try:
        query.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        if "enough" not in str(error):
            raise
    return found


def forget_commit(checkpoint: Path | str, epoch: int | None = None) -> int:
    """Makes a checkpoint one of a driver that died between the sink's commit and the commit log; its last epoch."""
    folder = Path(checkpoint) / "commits"
    last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit()) if epoch is None else epoch
    for file in (folder / str(last), folder / f".{last}.crc"):
        file.unlink(missing_ok=True)
    return last


def data_files(root: Path | str) -> int:
    """How many data files there are below a folder, whether a version names them or not."""
    return sum(1 for _ in Path(root).rglob("*.lance"))
