"""Columns of file version 0.1: row groups with one page per field (`row_groups`), and their values (`values`)."""
