"""Full-text search: queries, INVERTED index files, and scores."""
