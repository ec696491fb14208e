"""Indexes that a table carries: scalar indexes answer filters, `text` and `vector` find the best rows of a query."""
