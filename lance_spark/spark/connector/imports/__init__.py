"""Imports of tables from elsewhere: the source, the staged table and the comparison of both."""
