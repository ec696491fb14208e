"""Requests of a scan: pushed filters and aggregates, plans, the tasks that read."""
