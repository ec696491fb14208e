"""The full-zip layout of 2.1: each value lies with its levels in one row."""
