"""PLACEHOLDER for ace_server."""
