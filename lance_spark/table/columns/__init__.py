"""Columns added, changed and dropped in tables that have rows."""
