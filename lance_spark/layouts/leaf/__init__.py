"""Leaf columns: decoded values before their validity is known, and whole columns of leaves."""
