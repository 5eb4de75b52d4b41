"""A benchmark of learning from the sessions of coding agents; `python -m benchmarks.sleep`."""
