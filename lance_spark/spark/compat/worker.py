"""The loop around one request of a planner worker, which Spark has from 4.2 on."""

from __future__ import annotations

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
    from pyspark.serializers import SpecialLengths, read_int, write_int
    from pyspark.util import handle_worker_exception
    from pyspark.worker_util import (
        check_python_version,
        send_accumulator_updates,
        setup_broadcasts,
        setup_memory_limits,
        setup_spark_files,
    )

    def worker_run(
        main: Callable[[BufferedReader, IO[bytes]], None], infile: BufferedReader, outfile: IO[bytes]
    ) -> None:
        """Reads what Spark sends to every planner worker, then calls `main`; ends the process after an error."""
        try:
            check_python_version(infile)
            setup_memory_limits(int(os.environ.get("PYSPARK_PLANNER_MEMORY_MB", "-1")))
            setup_spark_files(infile)
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
