"""Writes and row changes as Spark jobs: what the driver plans, what tasks do, what is committed."""
