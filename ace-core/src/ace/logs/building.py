"""Collects the steps of a run while a reader goes through a log."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ace.logs.run import Run, Speaker, Step, Tokens

__all__ = [
    "RunBuilder",
    "fields_of",
    "key_of",
    "objects_of",
    "sum_of",
    "text_of",
    "time_of",
    "without_repetitions",
]

_MILLISECONDS_FROM: Final = 1e11
"""Seconds since 1970 reach this number in the year 5138, milliseconds in 1973."""
_FIRST_SECONDS: Final = 1e8
"""Smaller numbers, up to 1973, are counters and not times."""


class RunBuilder:
    """The steps of one run so far, in order. Results find the name of their call; repeated messages count once.

    Example:
        >>> builder = RunBuilder()
        >>> builder.message("person", "Free disk?")
        >>> builder.call("bash", {"command": "dff"}, "c1")
        >>> builder.result("dff: not found", "c1", is_error=True)
        >>> builder.message("agent", "Could not check.")
        >>> run = builder.run()
        >>> run.task, run.steps[2].name, run.answer
        ('Free disk?', 'bash', 'Could not check.')
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._names: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self._cancelled: set[str] = set()
        self._noted: dict[str, Any] = {}
        self._input: int | None = None
        self._output: int | None = None
        self.has_open_text_call = False
        """Whether the agent called a tool in its text, so that the next message of the role `user` is the result."""

    def message(self, speaker: Speaker, text: str, place: str = "", *, name: str = "", is_error: bool = False) -> None:
        """Add a message, unless it is empty or repeats the step before it.

        Args:
            speaker: Who said it; see `ace.logs.speakers` for messages of the role `user`.
            text: What was said.
            place: Its position in the log.
            name: The name of the speaker in the log, if it has one.
            is_error: Whether it says that the model failed.
        """
        text = text.strip()
        last = self.steps[-1] if self.steps else None
        if text and not (last and last.kind == "message" and (last.speaker, last.content) == (speaker, text)):
            self.steps.append(
                Step(kind="message", speaker=speaker, name=name, content=text, is_error=is_error, place=place)
            )

    def thought(self, text: str, place: str = "", *, name: str = "") -> None:
        """Add a thought of the agent, unless it is empty.

        Args:
            text: The thought.
            place: Its position in the log.
            name: The sub-agent that thinks, if it is one.
        """
        if text.strip():
            self.steps.append(Step(kind="thought", speaker="agent", name=name, content=text.strip(), place=place))

    def call(self, name: str, arguments: object, call_id: str = "", place: str = "", *, is_text: bool = False) -> None:
        """Add the call of a tool.

        Args:
            name: The tool.
            arguments: Its arguments: a JSON value, or a text that is kept as it is.
            call_id: The id that connects it with its result; without one, results are matched in order.
            place: Its position in the log.
            is_text: Whether the call is written in the text of a message.
        """
        self.has_open_text_call = is_text
        if call_id:
            self._names[call_id] = name
        self._open.append((call_id, name))
        content = text_of(arguments)
        self.steps.append(Step(kind="call", speaker="agent", name=name, content=content, place=place, call_id=call_id))

    def result(
        self,
        output: object,
        call_id: str = "",
        place: str = "",
        *,
        name: str = "",
        is_error: bool = False,
        is_rejected: bool = False,
    ) -> None:
        """Add the result of a call, also an empty one.

        Args:
            output: What the tool returned: a JSON value or a text.
            call_id: The id of the call; without one, it is the result of the first call that has none.
            place: Its position in the log.
            name: The tool, if the log repeats it.
            is_error: Whether the tool failed.
            is_rejected: Whether a person rejected the call.
        """
        self.has_open_text_call = False
        wanted = call_id if call_id in self._names else ""
        open_call = next((pair for pair in self._open if pair[0] == wanted or not call_id), None)
        if open_call is not None:
            self._open.remove(open_call)
            call_id, name = open_call[0], name or open_call[1]
        name = name or self._names.get(call_id, "")
        content = text_of(output)
        self.steps.append(
            Step(
                kind="result",
                speaker="tool",
                name=name,
                content=content,
                is_error=is_error,
                place=place,
                call_id=call_id,
                is_rejected=is_rejected,
            )
        )

    def knows(self, call_id: str) -> bool:
        """Return whether there was a call with this id."""
        return call_id in self._names

    def is_answered(self, call_id: str) -> bool:
        """Return whether there was a call with this id, and it has its result."""
        return call_id in self._names and all(open_id != call_id for open_id, _ in self._open)

    def cancel(self, call_id: str) -> None:
        """Remember that a person stopped a call.

        Args:
            call_id: The id of the call.
        """
        self._cancelled.add(call_id)

    @property
    def is_interrupted(self) -> bool:
        """Whether the agent did nothing after a call that has no result or was cancelled, or after a person spoke."""
        last = next((step for step in reversed(self.steps) if step.speaker != "harness"), None)
        if last is None:
            return False
        return last.kind == "call" or last.speaker == "person" or last.call_id in self._cancelled

    @property
    def has_open_calls(self) -> bool:
        """Whether a call has no result so far."""
        return bool(self._open)

    def has_step(self, kind: str, speaker: str) -> bool:
        """Return whether there is such a step.

        Args:
            kind: The kind of the step.
            speaker: Its speaker.
        """
        return any(step.kind == kind and step.speaker == speaker for step in self.steps)

    def fail_last_result(self, call_id: str = "") -> None:
        """Mark the last result as failed, for logs that say so elsewhere.

        Args:
            call_id: The id of its call; without one, it is the last result of all.
        """
        for index in range(len(self.steps) - 1, -1, -1):
            if self.steps[index].kind == "result" and call_id in ("", self.steps[index].call_id):
                self.steps[index] = replace(self.steps[index], is_error=True)
                return

    def rewind(self, length: int) -> None:
        """Remove the last steps, which the log says were undone.

        Args:
            length: How many steps are left.
        """
        removed = {step.call_id for step in self.steps[length:] if step.kind == "call"}
        del self.steps[length:]
        self._open = [pair for pair in self._open if pair[0] not in removed]
        self.has_open_text_call = False

    def note(self, **fields: Any) -> None:
        """Remember fields of the run which the log says in passing. The first value of a field counts."""
        for name, value in fields.items():
            if value not in (None, "", {}):
                self._noted.setdefault(name, value if name == "rest" else text_of(value))

    def at(self, time: object) -> None:
        """Remember when a record was written: the first time is the start of the run, the last one its end.

        Args:
            time: A time as `time_of` takes it; anything else is ignored.
        """
        if found := time_of(time):
            self._noted.setdefault("started", found)
            self._noted["ended"] = found

    def spend(self, sent: object, written: object) -> None:
        """Add the tokens of one call of the model.

        Args:
            sent: Tokens of the prompt, including cached ones; None if the log does not say.
            written: Tokens of the answer, including thoughts.
        """
        if isinstance(sent, int):
            self._input = (self._input or 0) + sent
        if isinstance(written, int):
            self._output = (self._output or 0) + written

    def run(self, **fields: Any) -> Run:
        """Return the run. Without a task or an answer among the fields, they are those of the messages.

        Args:
            **fields: Fields of `Run`. What was noted, and what the steps say, takes the place of empty ones.
        """
        tokens = Tokens(input=self._input, output=self._output)
        filled = {name: value for name, value in fields.items() if value not in (None, "", {}, Tokens())}
        fields = {"tokens": tokens, **self._noted, **filled}
        task = fields.pop("task", "") or self._first("person")
        answer = fields.pop("answer", "") or self._last_answer()
        return Run(task=task, answer=answer, steps=tuple(self.steps), **fields)

    def _first(self, speaker: Speaker) -> str:
        return next((step.content for step in self.steps if step.kind == "message" and step.speaker == speaker), "")

    def _last_answer(self) -> str:
        """Return the last message of the agent, unless a person or a tool has the last word about something new."""
        return next(
            (step.content for step in reversed(self.steps) if step.kind == "message" and step.speaker == "agent"), ""
        )


def text_of(value: object) -> str:
    """Return a text unchanged, None as an empty text, and everything else as JSON.

    Example:
        >>> text_of("Paris"), text_of(None), text_of({"a": [1]})
        ('Paris', '', '{"a": [1]}')
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def time_of(value: object) -> datetime | None:
    """Return the time that a log names in ISO 8601 or as seconds, milli-, micro- or nanoseconds since 1970.

    Example:
        >>> time_of("2026-02-09T10:00:01Z") == time_of(1770631201) == time_of(1770631201000)
        True
        >>> time_of("yesterday") is None
        True
    """
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < _FIRST_SECONDS:
        return None
    seconds = float(value)
    while seconds > _MILLISECONDS_FROM:
        seconds /= 1000
    return datetime.fromtimestamp(seconds, UTC)


@functools.lru_cache(maxsize=4096)
def key_of(name: object) -> str:
    """Return a name of a field without capitals, spaces, hyphens and underscores.

    Example:
        >>> key_of("actualOutput") == key_of("actual_output")
        True
    """
    return re.sub(r"[\s_-]+", "", name).lower() if isinstance(name, str) else ""


def sum_of(*numbers: object) -> int | None:
    """Return the sum of those values that are whole numbers, such as the tokens of several fields; None without any.

    Example:
        >>> sum_of(40, None, 2), sum_of(None)
        (42, None)
    """
    known = [number for number in numbers if isinstance(number, int)]
    return sum(known) if known else None


def objects_of(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a JSON list; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def fields_of(value: object) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def without_repetitions(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs without those whose steps the next run repeats and continues: growing histories count once.

    Args:
        runs: The runs in the order of the log.
    """
    last: Run | None = None
    for run in runs:
        if last is not None and not _continues(last, run):
            yield last
        last = run
    if last is not None:
        yield last


def _continues(earlier: Run, later: Run) -> bool:
    said = [(step.kind, step.speaker, step.content) for step in earlier.steps]
    follows = [(step.kind, step.speaker, step.content) for step in later.steps[: len(said)]]
    is_dialogue = any(step.speaker == "person" for step in earlier.steps)
    return is_dialogue and len(later.steps) > len(said) and said == follows
