"""The REST API: `/v1`, and what a supervisor asks."""
