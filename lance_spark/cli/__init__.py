"""The command line: `python -m lance_spark`. All commands but `upgrade` only read."""
