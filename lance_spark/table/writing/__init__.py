"""Writes rows into new fragments, and the versions that add or replace them."""
