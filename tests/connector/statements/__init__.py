"""Statements that the connector adds to Spark's SQL."""
