"""What a table keeps of its past, and of its other lines: tags, branches, clones, changes between versions."""
