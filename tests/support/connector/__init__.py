"""What tests of several modules of `connector` share."""
