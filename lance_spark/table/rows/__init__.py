"""Fragments and the identity of rows: addresses, stable row ids, deletion vectors, row versions, field ids."""
