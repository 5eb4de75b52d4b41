"""Keeps judged answers in a file, so that an interrupted evaluation can be resumed."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import final

from ace.arguments import checked_class
from ace.durable_file import append_line
from ace.evaluation.judged import JudgedAnswer
from ace.evaluation.kept_lines import read_kept_lines

__all__ = ["AnswerFile"]


@checked_class
@final
class AnswerFile:
    """A file of JSON lines: a key and a judged answer each.

    The key identifies everything that the answer depends on. A failed answer is kept for the record, and asked for
    again.

    Args:
        path: The file; it is created with the first answer.

    Raises:
        ValueError: A line is not a judged answer, and was not cut off by the end of a process either; the text names
            the line.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        kept = read_kept_lines(
            self.path,
            "key",
            lambda key, data: (key, JudgedAnswer.from_dict(data)),
            what="judged answer",
            instead="give the path of another file",
        )
        self._known = dict(kept)

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
