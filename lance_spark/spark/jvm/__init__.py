"""The connector's Java side: sources, the jar made of them, and where it is."""
