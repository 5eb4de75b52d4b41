"""Reads the conversations that the proxy has recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.integrations import Record, extract_cited_skill_ids, list_in, number_in, text_in
from ace.logs import LogHead, Problem, Run, RunBuilder, Source, add_messages
from ace_proxy.dialects import DIALECTS, Dialect
from ace_proxy.recording import VERSION

__all__ = ["ProxyLogs"]

_BY_NAME: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in DIALECTS}


class ProxyLogs:
    """Reads the conversations that `ace proxy` has recorded: each file is one run."""

    name = "proxy"
    title = "Conversations recorded by ace proxy"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "Images and other data are not recorded."

    def recognises(self, head: LogHead) -> float:
        """Return the highest certainty for lines with the mark of the proxy."""
        return 1.0 if head.objects and all(value.get("ace_proxy") == VERSION for value in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run."""
        conversation = _Reading()
        for record in source.records():
            if isinstance(record.value, dict):
                conversation.add(record.value, str(record.line))
        if conversation.builder.steps:
            yield conversation.run(source.path.stem)
        else:
            yield source.problem("no call in this conversation was recorded")


class _Reading:
    """What was read of a conversation so far."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._system = ""
        self._has_answer = False
        self._outcome = ""
        self._feedback: list[str] = []
        self._model = ""

    def add(self, line: Record, place: str) -> None:
        """Add a line.

        Args:
            place: Its number.
        """
        self.builder.at(line.get("at"))
        self._outcome = text_in(line, "outcome") or self._outcome
        feedback = text_in(line, "feedback")
        if feedback:
            self._feedback.append(feedback)
            self.builder.message("person", feedback, place)
        dialect = _BY_NAME.get(text_in(line, "api"))
        if dialect is not None:
            self._add_call(line, dialect, place)

    def run(self, id: str) -> Run:
        """Return the run.

        Args:
            id: Its name.
        """
        said = "\n".join(step.content for step in self.builder.steps if step.speaker == "agent")
        return self.builder.run(
            id=id,
            success={"success": True, "failure": False}.get(self._outcome),
            outcome_from="outcome" if self._outcome else "",
            reason="\n".join(self._feedback),
            model=self._model,
            skill_ids=tuple(extract_cited_skill_ids(said)),
        )

    def _add_call(self, line: Record, dialect: Dialect, place: str) -> None:
        self._model = text_in(line, "model") or self._model
        system = text_in(line, "system")
        if system and not self._system:
            self._system = system
            add_messages(self.builder, [{"role": "system", "content": system}], place)
        items: Sequence[Record] = [item for item in list_in(line, "items") if isinstance(item, dict)]
        if self._has_answer:  # the client repeats it
            items = _without_answer(items)
        add_messages(self.builder, items, place)
        answer = _answer_in(line, dialect)
        add_messages(self.builder, answer, place)
        self._has_answer = bool(answer)
        problem = text_in(line, "problem") or ("" if answer else _error_in(line))
        if problem:
            self.builder.message("harness", problem, place, is_error=True)


def _without_answer(items: Sequence[Record]) -> Sequence[Record]:
    """Return messages without those at the beginning that the model has written."""
    first = next((place for place, item in enumerate(items) if not _is_of_model(item)), len(items))
    return items[first:]


def _is_of_model(item: Record) -> bool:
    kind = text_in(item, "type")
    return text_in(item, "role") == "assistant" or kind in ("reasoning", "compaction") or kind.endswith("_call")


def _answer_in(line: Record, dialect: Dialect) -> Sequence[Record]:
    if (number_in(line, "status") or 0) >= 400:
        return []
    text = text_in(line, "response")
    if line.get("is_stream"):
        return dialect.streamed_answer(_events_in(text))
    response = _json_in(text)
    if isinstance(response, list):  # a stream of the Gemini API that is not one of events
        return dialect.streamed_answer(item for item in response if isinstance(item, dict))
    return dialect.answer(response) if isinstance(response, dict) else []


def _error_in(line: Record) -> str:
    """Return the error of a call without an answer."""
    text = text_in(line, "response")
    response = _json_in(text)
    first = response[0] if isinstance(response, list) and response else response  # of a stream of the Gemini API
    error = first.get("error") if isinstance(first, dict) else None
    message = text_in(error, "message") if isinstance(error, dict) else ""
    return f"the model call failed with status {number_in(line, 'status') or 0:g}: {message or text[:500]}".strip()


def _events_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in a stream of events."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:"))
        event = _object_in(data)
        if event is not None:
            yield event


def _object_in(text: str) -> dict[str, Any] | None:
    found = _json_in(text)
    return found if isinstance(found, dict) else None


def _json_in(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
