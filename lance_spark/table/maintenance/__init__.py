"""Compaction and lists of indices: no row changes."""
