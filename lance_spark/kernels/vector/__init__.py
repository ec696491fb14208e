"""Kernels of vector search and of building vector indexes."""
