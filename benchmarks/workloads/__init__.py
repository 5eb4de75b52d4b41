"""Simulated learning: steps that wait as calls of models do, against the shortest possible time."""
