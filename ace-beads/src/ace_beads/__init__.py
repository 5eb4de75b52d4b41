"""PLACEHOLDER for ace_beads."""
