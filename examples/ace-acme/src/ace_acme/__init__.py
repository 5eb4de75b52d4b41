"""ACE for Acme: its agents learn from their own runs. Importing this loads no framework."""
