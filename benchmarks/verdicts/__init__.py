"""Pairs of a right answer and an answer to be judged, with the right verdict."""
