"""Requests of writes: INSERT, DELETE, UPDATE, MERGE, and the tasks that write."""
