"""Adds, changes and drops columns of tables with rows."""
