"""What a session had cost before it is resumed."""

from __future__ import annotations

import json
from pathlib import Path

from ace.json_fields import number_in

__all__ = ["earlier_cost"]


def earlier_cost(session_id: str, config_folder: Path) -> float:
    """Return the dollars that a stored session has cost; 0 where it does not tell, as older releases do not.

    Args:
        session_id: The session.
        config_folder: Where Claude Code keeps its things.
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
    except ValueError:  # a line that was cut
        return None
    if not isinstance(record, dict) or record.get("type") != "cost-state":
        return None
    return number_in(record, "totalCostUSD")
