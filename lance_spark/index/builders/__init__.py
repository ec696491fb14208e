"""Building the files of index segments, one module for each kind."""
