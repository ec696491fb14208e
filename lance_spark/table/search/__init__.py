"""Searching a table: full-text queries over indexed and other rows."""
