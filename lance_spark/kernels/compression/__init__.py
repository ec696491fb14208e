"""Decompression and compression of general byte streams and texts."""
