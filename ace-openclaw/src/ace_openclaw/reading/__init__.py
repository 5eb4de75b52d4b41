"""Reads the sessions of OpenClaw from the files and databases of its releases."""
