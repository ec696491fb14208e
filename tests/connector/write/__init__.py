"""Writes of DataFrames and INSERT."""
