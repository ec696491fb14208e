"""Table functions that search a table."""
