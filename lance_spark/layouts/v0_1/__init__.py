"""Columns of file version 0.1: row groups, each with one page a field (`row_groups`), and their values (`values`)."""
