"""Partition values: hashing, the partition of each row, and which partitions a filter can match."""
