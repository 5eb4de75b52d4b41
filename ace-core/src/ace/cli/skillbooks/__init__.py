"""What the commands of `ace skillbook` share."""
