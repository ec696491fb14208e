"""Columns of file version 2.0: array encodings (`lance.encodings.ArrayEncoding`), one file per wire message."""
