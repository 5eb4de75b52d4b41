"""The parts that the commands of `ace skillbook` share."""
