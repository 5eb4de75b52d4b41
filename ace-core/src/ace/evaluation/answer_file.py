"""Keeps judged answers in a file, so that an evaluation that was broken off goes on where it was."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import final

from ace.durable_file import append_line
from ace.evaluation.judged import JudgedAnswer

__all__ = ["AnswerFile"]


@final
class AnswerFile:
    """A file of JSON lines: a key and a judged answer each.

    The key stands for everything that the answer depends on. An answer that failed is kept for the record, and asked
    for again.

    Args:
        path: The file; it is made when the first answer comes.

    Raises:
        ValueError: A line other than the last is no judged answer; the text names it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._known = _read(self.path)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str) -> JudgedAnswer | None:
        """Return the answer that was kept under a key, if it did not fail."""
        found = self._known.get(key)
        return None if found is None or found.error is not None else found

    def keep(self, key: str, answer: JudgedAnswer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Args:
            key: What it depends on.
            answer: The answer.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            append_line(self.path, json.dumps({"key": key, **answer.to_dict()}))
            self._known[key] = answer


def _read(path: Path) -> dict[str, JudgedAnswer]:
    if not path.exists():
        return {}
    known = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            key = str(data.pop("key"))
            known[key] = JudgedAnswer.from_dict(data)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            if _was_cut_off(line):
                continue  # written when the process was killed
            raise ValueError(
                f"{path}, line {number}: this is no judged answer ({error}); give the path of another file"
            ) from error
    return known


def _was_cut_off(line: str) -> bool:
    return not line.strip() or (line.startswith('{"key"') and not line.rstrip().endswith("}"))
