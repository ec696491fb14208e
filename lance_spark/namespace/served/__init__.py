"""Catalogs of the Lance namespace specification: REST servers, and classes with the interface `LanceNamespace`."""
