"""The log of a run."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Entry:
    """One line of the log."""

    kind: str
    """`said`, `called`, `returned` or `failed`."""
    name: str
    text: str


@dataclass
class RunLog:
    """The log of one run. The agent adds each action immediately, so an interrupted run has a log too."""

    assignment: str
    entries: list[Entry] = field(default_factory=list)
    answer: str | None = None

    def add(self, kind: str, name: str, text: str) -> None:
        self.entries.append(Entry(kind, name, text))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"acme_log": 2, **asdict(self)}), encoding="utf-8")
