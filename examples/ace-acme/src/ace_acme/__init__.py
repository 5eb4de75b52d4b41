"""ACE for Acme: its agents learn from their own runs. Importing this package does not load the framework."""
