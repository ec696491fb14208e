"""Differences between the minor versions of PySpark, from 4.0 on.

Only these modules ask for the version and import names that some minor version lacks; all others use names that every
one has.
"""

import pyspark

VERSION: str = pyspark.__version__
"""The version of PySpark, such as 4.3.0."""

SPARK: tuple[int, int] = (int(VERSION.split(".")[0]), int(VERSION.split(".")[1]))
"""The minor version of PySpark, such as (4, 3). Spark's workers have that of their session."""

SPARK_NAME = f"Spark {SPARK[0]}.{SPARK[1]}"
"""The minor version in messages."""
