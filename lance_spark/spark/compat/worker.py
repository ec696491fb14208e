"""The loop around one request of a planner worker, which Spark has from 4.2 on."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from io import BufferedReader
from typing import IO

from lance_spark.spark.compat import SPARK

__all__ = ["worker_run"]

if SPARK >= (4, 2):
    from pyspark.sql.worker.utils import worker_run
else:
    from pyspark.accumulators import _accumulatorRegistry
    from pyspark.core.files import SparkFiles
    from pyspark.serializers import SpecialLengths, UTF8Deserializer, read_int, write_int
    from pyspark.util import handle_worker_exception
    from pyspark.worker_util import (
        add_path,
        check_python_version,
        send_accumulator_updates,
        setup_broadcasts,
        setup_memory_limits,
    )

    def worker_run(
        main: Callable[[BufferedReader, IO[bytes]], None], infile: BufferedReader, outfile: IO[bytes]
    ) -> None:
        """Reads what Spark sends to every planner worker, then calls `main`; ends the process after an error."""
        try:
            check_python_version(infile)
            setup_memory_limits(int(os.environ.get("PYSPARK_PLANNER_MEMORY_MB", "-1")))
            _setup_files(infile)
            setup_broadcasts(infile)
            _accumulatorRegistry.clear()
            main(infile, outfile)
        except BaseException as error:  # noqa: BLE001
            # Whatever fails is reported to Spark, which raises it in the driver, and ends this process.
            handle_worker_exception(error, outfile)
            sys.exit(-1)
        send_accumulator_updates(outfile)
        if read_int(infile) == SpecialLengths.END_OF_STREAM:  # type: ignore[no-untyped-call]
            write_int(SpecialLengths.END_OF_STREAM, outfile)  # type: ignore[no-untyped-call]
        else:
            # Another number than Spark waits for: it does not use the worker again.
            write_int(SpecialLengths.END_OF_DATA_SECTION, outfile)  # type: ignore[no-untyped-call]
            sys.exit(-1)

    def _setup_files(infile: BufferedReader) -> None:
        """Reads the folder of the application's files and its Python packages, and adds them to `sys.path`.

        Spark's own function reads the directories of all zip files on the path again for each request, 0.1 s with
        pyspark.zip, until 4.2 made it do so only if the path changes.
        """
        texts = UTF8Deserializer()  # type: ignore[no-untyped-call]
        folder = texts.loads(infile)  # type: ignore[no-untyped-call]
        SparkFiles._root_directory = folder
        SparkFiles._is_running_on_worker = True
        before = list(sys.path)
        add_path(folder)
        for _ in range(read_int(infile)):  # type: ignore[no-untyped-call]
            add_path(os.path.join(folder, texts.loads(infile)))  # type: ignore[no-untyped-call]
        if sys.path != before:
            importlib.invalidate_caches()
