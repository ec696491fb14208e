"""Scalar indexes of a table: built, extended, remapped, described and dropped."""
