"""What the kinds of vector indexes store: codes, graphs, files of the first version."""
