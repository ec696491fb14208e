"""Geometries: well-known binary and text, the filter functions that read them, and their relations by GEOS."""
