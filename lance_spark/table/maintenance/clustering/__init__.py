"""Clustering: rows in the order of a curve over some columns, so that filters over them read few zones."""
