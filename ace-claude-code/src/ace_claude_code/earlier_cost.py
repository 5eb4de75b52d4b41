"""The cost of a session before it is resumed."""

from __future__ import annotations

import json
from pathlib import Path

from ace.json_fields import number_in

__all__ = ["earlier_cost"]


def earlier_cost(session_id: str, config_folder: Path) -> float:
    """Return the cost of a stored session in US dollars; 0 if it is not recorded, as in older releases.

    Args:
        session_id: The id of the session.
        config_folder: The folder of Claude Code.
    """
    for folder in (config_folder / "projects").glob("*"):
        try:
            lines = (folder / f"{session_id}.jsonl").read_bytes().split(b"\n")
        except OSError:  # it is a session of another project
            continue
        for line in reversed(lines):
            if b'"cost-state"' in line and (cost := _cost_in(line)) is not None:
                return cost
    return 0.0


def _cost_in(line: bytes) -> float | None:
    try:
        record = json.loads(line)
    except ValueError:  # a truncated line
        return None
    if not isinstance(record, dict) or record.get("type") != "cost-state":
        return None
    return number_in(record, "totalCostUSD")
