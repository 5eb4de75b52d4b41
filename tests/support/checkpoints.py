"""Checkpoints of runs, to be compared."""

from __future__ import annotations

import json
from pathlib import Path


def without_run(checkpoint: Path) -> dict[str, object]:
    """Return a checkpoint without the name of its run and the time when it was written."""
    data: dict[str, object] = json.loads(checkpoint.read_bytes())
    assert isinstance(data["checkpoint"], dict)
    del data["checkpoint"]["run_id"], data["checkpoint"]["written_at"]
    return data
