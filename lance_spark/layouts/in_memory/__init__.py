"""Values of fixed width, and codes of dictionaries, straight from files in memory: whole columns, and single rows."""
