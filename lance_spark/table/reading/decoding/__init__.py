"""From windows of rows to batches: which columns are decoded when, and what the filter keeps."""
