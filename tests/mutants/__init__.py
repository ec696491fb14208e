"""One-line faults in the modules that may lose rows, and the share of them that the tests find: `make mutants`."""
