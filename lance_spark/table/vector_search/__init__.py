"""Search for the rows whose vectors are nearest to a query."""
