"""Building vector indexes: training, assignment to partitions, codes, graphs and files."""
