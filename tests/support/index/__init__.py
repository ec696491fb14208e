"""What tests of several modules of `index` share."""
