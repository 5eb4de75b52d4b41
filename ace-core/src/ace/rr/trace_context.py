"""A trace as the code of a model explores it: the variable `trace` of a session, also usable on the host.

The source of this module runs in two interpreters: in CPython, and in the sandbox, which is fed the text of this file.
So it uses only what both support: no inheritance, no properties, no generators, no overloads, no `collections.abc`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ContextStep", "TraceContext", "TraceSteps"]

_LONGEST_LINE = 300
"""The maximum length of a line in a search result, in characters: a line may be a whole document."""
_BLOCK = 100_000
"""The number of characters that a search splits into lines at a time."""


_Path = Any
"""Where a value is in a trace: None, or the path of what contains it and its key or index."""


class ContextStep:
    """One step of a trace.

    Args:
        index: Its position in the trace, from 0.
        record: The step of a standard trace (see `ace.traces.TraceStep`), an object with other fields, or a text.

    Attributes:
        index: Its position in the trace, from 0.
        kind: `thought`, `call`, `result` or `message`; empty if the record does not say.
        name: The tool, or who speaks.
        place: Where the step is in the source, which is what a learning names as its evidence.
        action: The tool that was called; empty if the step is not a call.
        thought: The thought; empty if the step is not one.
        observation: The output of a tool; empty if the step is not a result.
        is_error: Whether the tool or the model failed.
        content: All of its text.

    Example:
        >>> step = ContextStep(0, {"kind": "call", "name": "bash", "content": "make test", "place": "1.2"})
        >>> step.action, step.content, step.thought
        ('bash', 'make test', '')
    """

    def __init__(self, index: int, record: object) -> None:
        fields: Mapping[str, object] = record if isinstance(record, dict) else {"content": record}
        content = _text_of(fields.get("content"))
        self.index = index
        self.kind = _text_of(fields.get("kind"))
        self.name = _text_of(fields.get("name"))
        self.place = _text_of(fields.get("place")) or str(index)
        self.action = _text_of(fields.get("action")) or (self.name if self.kind == "call" else "")
        self.thought = _text_of(fields.get("thought")) or (content if self.kind == "thought" else "")
        self.observation = _text_of(fields.get("observation")) or (content if self.kind == "result" else "")
        self.is_error = fields.get("is_error") is True
        if "content" in fields:
            self.content = content
        else:
            self.content = "\n".join([text for text in (self.thought, self.action, self.observation) if text])

    def preview(self, n: int = 200) -> str:
        """Return the beginning of the content on one line.

        Args:
            n: At most this many characters.

        Example:
            >>> ContextStep(0, "first line\\nsecond line").preview(14)
            'first line ...'
        """
        line = " ".join(self.content[: n + 1].split())
        return line if len(self.content) <= n else line[: max(0, n - 4)] + " ..."

    def __repr__(self) -> str:
        failed = " (failed)" if self.is_error else ""
        return f"<step {self.index}: {_joined(self.kind, self.name)}{failed}, {len(self.content)} characters>"


class TraceSteps:
    """The steps of a trace, in order: has a length, indexing, slices (which are lists) and iteration.

    A step object is made when it is asked for, because those of a long trace would need more memory than the trace.

    Args:
        records: What `ContextStep` takes.

    Example:
        >>> steps = TraceSteps(["one", "two", "three"])
        >>> steps[-1].index, [step.content for step in steps[:2]], len(steps)
        (2, ['one', 'two'], 3)
    """

    def __init__(self, records: Sequence[object]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, place: int | slice) -> Any:  # a step or a list of steps; overloads do not run in a session
        if isinstance(place, slice):
            return [ContextStep(index, self._records[index]) for index in list(range(len(self._records)))[place]]
        size = len(self._records)
        if not -size <= place < size:
            raise IndexError(f"the trace has {size} steps, numbered from 0; got {place}")
        return ContextStep(place % size, self._records[place])

    def __iter__(self) -> _StepIterator:
        return _StepIterator(self._records)

    def __repr__(self) -> str:
        return f"<{len(self._records)} steps>"


class _StepIterator:
    def __init__(self, records: Sequence[object]) -> None:
        self._records = records
        self._next = 0

    def __iter__(self) -> _StepIterator:
        return self

    def __next__(self) -> ContextStep:
        index = self._next
        if index >= len(self._records):
            raise StopIteration
        self._next = index + 1
        return ContextStep(index, self._records[index])


class TraceContext:
    """A trace with methods to explore it. It has a length (the number of steps), indexing and iteration.

    Args:
        traces: The trace: a standard trace, or another object whose list `steps` holds its steps.

    Attributes:
        steps: The steps, in order.
        raw: The whole trace.

    Example:
        >>> trace = TraceContext({"question": "Does it build?", "steps": [
        ...     {"kind": "call", "name": "bash", "content": "make", "is_error": False, "place": "1"},
        ...     {"kind": "result", "name": "bash", "content": "ld: no such file", "is_error": True, "place": "2"},
        ... ]})
        >>> len(trace), trace[0].action, [step.place for step in trace.get_errors()]
        (2, 'bash', ['2'])
        >>> trace.search_raw("no such")
        ['steps[1].content: ld: no such file']
    """

    def __init__(self, traces: Mapping[str, object]) -> None:
        records = traces.get("steps")
        self.raw = traces
        self.steps = TraceSteps(records if isinstance(records, list) else [])

    def get_step(self, index: int) -> ContextStep:
        """Return one step.

        Args:
            index: Its position, from 0; negative numbers count from the end.

        Raises:
            IndexError: The index is out of range.
        """
        step: ContextStep = self.steps[index]
        return step

    def find_steps(self, text: str) -> list[ContextStep]:
        """Return the steps whose name or content contains a text, in any case.

        Args:
            text: The text.
        """
        wanted = text.lower()
        return [step for step in self.steps if wanted in step.content.lower() or wanted in step.name.lower()]

    def find_steps_regex(self, pattern: str) -> list[ContextStep]:
        """Return the steps whose content matches a regular expression somewhere.

        Args:
            pattern: The expression; `(?i)` at its beginning ignores case.
        """
        expression = re.compile(pattern)
        return [step for step in self.steps if expression.search(step.content)]

    def get_errors(self) -> list[ContextStep]:
        """Return the steps that failed."""
        return [step for step in self.steps if step.is_error]

    def get_actions(self, kind: str = "") -> list[ContextStep]:
        """Return the steps that call a tool.

        Args:
            kind: The name of the tool, or a part of it; empty for all tools.
        """
        return [step for step in self.steps if step.action and kind.lower() in step.action.lower()]

    def summary(self) -> str:
        """Return what the trace consists of, in a few lines."""
        kinds: dict[str, int] = {}
        tools: dict[str, int] = {}
        errors = 0
        characters = 0
        for step in self.steps:
            kinds[step.kind or "step"] = kinds.get(step.kind or "step", 0) + 1
            if step.action:
                tools[step.action] = tools.get(step.action, 0) + 1
            errors += 1 if step.is_error else 0
            characters += len(step.content)
        lines = [f"{len(self.steps)} steps ({_counted(kinds)}), {errors} of them failed, {characters} characters"]
        if tools:
            lines.append(f"tools: {_counted(tools)}")
        for name in ("question", "feedback", "ground_truth"):
            text = _text_of(self.raw.get(name))
            if text:
                lines.append(f"{name}: {_around(text, 0, _LONGEST_LINE)}")
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return the whole trace as Markdown. It is as long as the trace."""
        parts = []
        for name in ("question", "feedback", "ground_truth"):
            text = _text_of(self.raw.get(name))
            if text:
                parts.append(f"**{name}**\n\n{text}")
        for step in self.steps:
            failed = " (failed)" if step.is_error else ""
            parts.append(f"## [{step.place}] {_joined(step.kind, step.name)}{failed}\n\n{step.content}")
        return "\n\n".join(parts)

    def search_raw(self, pattern: str, limit: int = 100) -> list[str]:
        """Return the lines that match a regular expression, in all texts of the trace, each after its place.

        Args:
            pattern: The expression; `(?i)` at its beginning ignores case.
            limit: At most this many lines.
        """
        expression = re.compile(pattern)
        # An expression that matches a line of a text also matches the text, unless it looks at what is before or
        # behind the match. Looking at each line alone takes ten times as long.
        looks_around = any(part in pattern for part in ("(?=", "(?!", "(?<", "\\A", "\\Z"))
        in_text = re.compile("" if looks_around else pattern, re.MULTILINE)
        lines: list[str] = []
        # Not recursive, because a trace may be nested deeply. The text of a path is made only for what is found.
        waiting: list[tuple[_Path, object]] = [(None, self.raw)]
        while waiting and len(lines) < limit:
            path, value = waiting.pop()
            if isinstance(value, str):
                if in_text.search(value):
                    found = _matching_lines(expression, value, limit - len(lines))
                    lines.extend([f"{_path_text(path)}: {line}" for line in found])
            elif isinstance(value, dict):
                waiting.extend(reversed([((path, key), child) for key, child in value.items()]))
            elif isinstance(value, list):
                waiting.extend(reversed([((path, index), child) for index, child in enumerate(value)]))
        return lines

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, place: int | slice) -> Any:  # a step or a list of steps
        return self.steps[place]

    def __iter__(self) -> _StepIterator:
        return iter(self.steps)

    def __repr__(self) -> str:
        return f"<trace of {len(self.steps)} steps>"


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _joined(kind: str, name: str) -> str:
    return f"{kind or 'step'} {name}".strip()


def _counted(numbers: Mapping[str, int]) -> str:
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join([f"{count} {name}" for name, count in ordered])


def _around(line: str, position: int, size: int) -> str:
    """Return the part of a line around a position, on one line."""
    if len(line) <= size:
        return line.replace("\n", " ")
    start = max(0, min(position - size // 2, len(line) - size))
    end = start + size
    before = "... " if start else ""
    after = " ..." if end < len(line) else ""
    return (before + line[start:end] + after).replace("\n", " ")


def _matching_lines(expression: re.Pattern[str], text: str, limit: int) -> list[str]:
    lines: list[str] = []
    start = 0
    while start < len(text) and len(lines) < limit:
        # A text may be the whole trace: its lines are made for one block at a time.
        end = text.find("\n", start + _BLOCK)
        end = len(text) if end < 0 else end
        for line in text[start:end].split("\n"):
            match = expression.search(line)
            if match and len(lines) < limit:
                lines.append(_around(line, match.start(), _LONGEST_LINE))
        start = end + 1
    return lines


def _path_text(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, key = path
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(parts)).removeprefix(".")
