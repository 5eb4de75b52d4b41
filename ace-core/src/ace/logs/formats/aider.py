"""Reads the chat history of Aider."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ace.logs.building import RunBuilder
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.sessions import sections_of
from ace.logs.source import Source

__all__ = ["READERS", "AiderReader"]

_START: Final = re.compile(r"^# aider chat started at (.*)$", re.MULTILINE)
_MODEL: Final = re.compile(r"^> (?:Main model|Model): (\S+)", re.MULTILINE)
_REQUEST: Final = re.compile(r"\A/(?:ask|code|architect)\s+")
"""Commands whose rest is a request to the model."""


class AiderReader:
    """Reads the chat history of a project: all its sessions, each of which is a run."""

    name = "aider"
    title = "Aider chat history"
    places = (".aider.chat.history.md",)
    side_files = (".aider.input.history",)
    note = "Whether a command failed is not in this file. The file of --llm-history-file is not read."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the line with which a session starts."""
        return 0.95 if _START.search(head.text) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions in which something was said."""
        text = source.text()
        line, counted = 1, 0
        for start, session in sections_of(_START, text):
            line, counted = line + text.count("\n", counted, start.end()), start.end()
            run = _session(start.group(1).strip(), session, line)
            if any(step.speaker in ("person", "agent") for step in run.steps):
                yield run


def _session(time: str, text: str, line: int) -> Run:
    builder = RunBuilder()
    builder.note(id=time)
    builder.at(time)
    model = _MODEL.search(text)
    builder.note(model=model.group(1) if model else "")
    kind, lines, place = "", list[str](), line
    for number, content in enumerate(text.split("\n"), line):
        found = next((mark for mark in ("#### ", "> ") if f"{content} ".startswith(mark)), "")
        is_blank = not content.strip()
        if found != kind and (not is_blank or kind == "#### "):
            _add(builder, kind, lines, str(place))
            kind, lines, place = found, [], number
        lines.append(content if is_blank else content.removeprefix(found.strip()).removeprefix(" "))
    _add(builder, kind, lines, str(place))
    return builder.run()


def _add(builder: RunBuilder, kind: str, lines: list[str], place: str) -> None:
    text = "\n".join(line.rstrip() for line in lines).strip()
    if kind == "> ":
        builder.message("tool", text, place)
    elif kind == "":
        builder.message("agent", text, place)
    else:
        request = _REQUEST.sub("", text)
        builder.message("harness" if request.startswith("/") else "person", request, place)


READERS: Final = (AiderReader(),)
