"""Catalogs, namespaces, definitions of tables and their metadata."""
