"""Values of fixed width, straight from files in memory: whole columns, and single rows."""
