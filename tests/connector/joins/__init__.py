"""Joins: storage-partitioned joins, runtime filters and distributions."""
