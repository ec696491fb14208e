"""Partitioned tables: one Lance table per partition, listed in a `__manifest` table, committed together."""
