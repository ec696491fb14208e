"""The history of a table, and its other lines: tags, branches, clones, changes between versions."""
