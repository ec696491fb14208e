"""How Spark's JVM and Python talk: requests and replies, workers, handles of tables, tasks, errors."""
