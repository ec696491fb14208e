"""Partition values: hashing, the partition of each row, and the partitions that may match a filter."""
