"""Names of versions: tags, branches and clones."""
