"""Values of binary JSON columns: paths, decoding, and the filter functions that read them."""
