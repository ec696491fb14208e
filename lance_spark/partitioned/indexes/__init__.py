"""Indexes of partitioned tables."""
