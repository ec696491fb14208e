"""Columns of an open file, prepared once for reads of few rows: their pages are parsed, their chunks listed.

`forms` has the tables of pages, `pick` takes rows by one call of a kernel, `leaf` and `field` are the columns of a
file, `bare_pages` those of version 2.0.
"""
