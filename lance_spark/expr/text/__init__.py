"""Conditions on text: LIKE, tokens, and full-text search."""
