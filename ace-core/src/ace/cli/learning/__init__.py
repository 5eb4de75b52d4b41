"""What the commands that learn share: the book, the run, its progress, its report, and breaking it off."""
