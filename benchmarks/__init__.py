"""What the engine costs, as ratios to plain code that is measured in the same process: `python -m benchmarks`."""
