"""Fragments and the identity of rows: addresses, stable ids, deletion vectors, row versions, field ids."""
