"""Reads sessions of OpenClaw from wherever its releases keep them."""
