"""Logs of CrewAI, as `output_log_file` writes them: JSON, or lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.sessions import sections_of
from ace.logs.source import Source

__all__ = ["READERS", "CrewAIReader"]

_LINE: Final = re.compile(r"^(\d{4}-\d\d-\d\d[ T][\d:.]+): (?=\w+=\")", re.MULTILINE)
_FIELD: Final = re.compile(r'(\w+)="(.*?)"(?=,\s*\w+="|\s*\Z)', re.DOTALL)


class CrewAIReader:
    """Reads the logs of crews. A run is all tasks of a crew, until its first task begins again."""

    name = "crewai"
    title = "CrewAI task logs"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for tasks with an agent that were started and completed."""
        objects = head.objects
        if objects:
            return 0.9 if sum(map(_is_entry, objects)) * 2 > len(objects) else 0.0
        entries = list(_entries_of(head.text)) if head.shape == "text" else []
        return 0.9 if entries and _is_entry(entries[0]) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each time that the crew was started."""
        entries: Iterable[Any] = (
            _entries_of(source.text()) if source.shape == "text" else (record.value for record in source.records())
        )
        run: list[Mapping[str, Any]] = []
        for entry in entries:
            if not isinstance(entry, dict) or not _is_entry(entry):
                continue
            if run and entry["status"] == "started" and _task(entry) == _task(run[0]):
                yield _run(run)
                run = []
            run.append(entry)
        if run:
            yield _run(run)


def _is_entry(value: Mapping[str, Any]) -> bool:
    return "task" in value and "agent" in value and value.get("status") in ("started", "completed")


def _entries_of(text: str) -> Iterator[dict[str, Any]]:
    for mark, fields in sections_of(_LINE, text):
        yield {"timestamp": mark[1], **dict(_FIELD.findall(fields.strip()))}


def _task(entry: Mapping[str, Any]) -> tuple[str, str]:
    return text_of(entry.get("task_name")), text_of(entry["task"])


def _run(entries: Sequence[Mapping[str, Any]]) -> Run:
    """Return the run of a crew; its tasks after the first one are set by the program, not by a person."""
    builder = RunBuilder()
    begun: list[tuple[str, str]] = []
    completed = set()
    for number, entry in enumerate(entries, 1):
        task = _task(entry)
        builder.at(entry.get("timestamp"))
        if task not in begun:
            builder.message("harness" if begun else "person", task[1], str(number))
            begun.append(task)
        if entry["status"] == "completed":
            completed.add(task)
            builder.message("agent", text_of(entry.get("output")), str(number), name=text_of(entry.get("agent")))
    return builder.run(
        task=begun[0][1],
        is_interrupted=len(completed) < len(begun),
    )


READERS: Final = (CrewAIReader(),)
