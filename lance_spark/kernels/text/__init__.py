"""Kernels of full-text search: tokens, token dictionaries, posting lists."""
