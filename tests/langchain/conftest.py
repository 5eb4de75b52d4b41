from __future__ import annotations

from pathlib import Path

# It runs the blocks of a page, which is not beside the tests of a wheel.
collect_ignore = [] if (Path(__file__).parents[1] / "docs").is_dir() else ["test_how_to.py"]
