"""What tests of several modules of `partitioned` share."""
