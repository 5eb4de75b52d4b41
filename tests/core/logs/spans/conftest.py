"""What pytest does not collect here."""

# A program, not a test; it imports instrumentation libraries that are not installed everywhere.
collect_ignore = ["instrumented_agent.py"]
