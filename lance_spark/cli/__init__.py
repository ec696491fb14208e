"""The command line: `python -m lance_spark`. It only reads."""
