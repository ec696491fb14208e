"""Kernels of the layouts of pages: levels, chunks and slots (see `lance_spark.layouts`)."""
