"""What tests of several modules of `vector_search` share."""
