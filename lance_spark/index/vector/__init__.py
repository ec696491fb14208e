"""Vectors: metrics, and the rows nearest to a query."""
