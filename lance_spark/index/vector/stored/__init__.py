"""Contents of the files of vector indexes: codes, graphs, files of the first version."""
