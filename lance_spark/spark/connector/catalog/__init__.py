"""Requests of catalogs and tables: load, create, alter, drop, metadata tables."""
