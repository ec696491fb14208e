"""Maintenance of partitioned tables."""
