"""The channel between Spark's JVM and Python: requests and replies, workers, table handles, tasks, errors."""
