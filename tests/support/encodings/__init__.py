"""What tests of several modules of `encodings` share."""
