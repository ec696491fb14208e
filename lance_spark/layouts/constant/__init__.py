"""The constant layout of 2.1: pages with one value, or with nulls only."""
