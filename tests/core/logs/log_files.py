"""Writes logs for the tests of readers, and shows what is read of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ace.logs import Problem, Run, Step, read_runs

DATA = Path(__file__).parent / "data"


def written(path: Path, *records: Any) -> Path:
    """Write a file of lines, or of one JSON value if its name ends with `.json`, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = records[0] if path.suffix == ".json" else None
    text = json.dumps(lines) if lines is not None else "\n".join(json.dumps(record) for record in records)
    path.write_text(text + "\n", "utf-8")
    return path


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def runs_of(path: Path, *, format: str | None = None) -> list[Run]:
    """Return the runs of a file or folder, in which nothing is a problem."""
    found = list(read_runs(path, format=format))
    assert [item for item in found if isinstance(item, Problem)] == []
    return [item for item in found if isinstance(item, Run)]


def run_of(path: Path) -> Run:
    """Return the only run of a file."""
    [run] = runs_of(path)
    return run


def steps_of(run: Run) -> list[str]:
    """Return the steps of a run as texts: `person: Free disk?`, `bash {"command": "dff"}`, `bash failed: not found`."""
    return [_shown(step) for step in run.steps]


def _shown(step: Step) -> str:
    if step.kind == "call":
        return f"{step.name} {step.content}"
    if step.kind == "result":
        return f"{step.name} {'failed' if step.is_error else 'returned'}: {step.content}"
    return f"{step.speaker if step.kind == 'message' else 'thought'}: {step.content}"
