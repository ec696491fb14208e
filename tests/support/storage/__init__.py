"""What tests of several modules of `storage` share."""
