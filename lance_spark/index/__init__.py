"""Scalar indexes that a table carries: which rows of a fragment can match a filter."""
