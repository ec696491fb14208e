"""Filters written in SQL: from text to an expression."""
