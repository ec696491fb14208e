"""Documents in columns: VARIANT and JSON."""
