"""Reads formats that differ only in the names of their fields: one engine for the built-in table and for users."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of, time_of, without_repetitions
from ace.logs.head import LogHead, Record
from ace.logs.messages import add_message, response_text
from ace.logs.outcomes import is_failed_output, is_infrastructure, number_of, success_of
from ace.logs.run import Problem, Run, Tokens
from ace.logs.source import Source

__all__ = ["LogMapping", "MappedReader", "MappingError", "StepMapping", "mappings_in"]


class MappingError(ValueError):
    """A mapping has an unknown field, or an expression that is not valid JMESPath."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMapping:
    """How the items of `messages` are read, if they are not chat messages: a JMESPath expression for each field."""

    role: str = ""
    """Who speaks, such as `user`, `assistant` or `tool`."""
    text: str = ""
    """What is said."""
    thought: str = ""
    """A thought of the agent."""
    tool: str = ""
    """The name of a tool that is called."""
    input: str = ""
    """The arguments of the call."""
    output: str = ""
    """What the tool returned; null if the item is only the call."""
    failed: str = ""
    """Whether the tool failed: true, a text with the error, or false and null."""
    id: str = ""
    """What connects a call with a result in another item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMapping:
    """A format of logs, described by JMESPath expressions over a record: https://jmespath.org/specification.html.

    Example:
        >>> from ace.logs.source import live_source
        >>> mapping = LogMapping(name="shop", when="ticket", task="ticket.text", answer="reply", success="ok")
        >>> record = {"ticket": {"text": "Refund?"}, "reply": "No.", "ok": False}
        >>> [run] = MappedReader(mapping).runs(live_source(record))
        >>> run.task, run.answer, run.success
        ('Refund?', 'No.', False)
    """

    name: str
    """The name of the format, for `--format` and reports."""
    title: str = ""
    """What people call it."""
    when: str = ""
    """An expression that is true (neither null, false nor empty) for the records of this format."""
    certainty: float = 0.9
    """How certainly a file whose records satisfy `when` is of this format, from 0 to 1."""
    path: str = ""
    """A pattern for the name of the file, as of `fnmatch`; files with other names are not of this format."""
    places: tuple[str, ...] = ()
    """Where such logs are by default."""
    side_files: tuple[str, ...] = ()
    """Patterns of files beside the logs that are not runs."""
    note: str = ""
    """What is not read or not certain."""
    runs: str = ""
    """The list of runs inside a record; without it, the record is a run."""
    group: str = ""
    """What the records of one run have in common, such as `session_id`; without it, a record is a run of its own."""
    one_run: bool = False
    """Whether all records of a file are one run."""
    messages: str = ""
    """The list of messages or steps of a run; with `group` or `one_run`, the records themselves by default."""
    step: StepMapping | None = None
    """How these are read, if they are not chat messages."""
    id: str = ""
    task: str = ""
    context: str = ""
    answer: str = ""
    success: str = ""
    score: str = ""
    reason: str = ""
    truth: str = ""
    model: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    cost: str = ""
    started: str = ""
    ended: str = ""
    cwd: str = ""
    commit: str = ""
    parent: str = ""

    def __post_init__(self) -> None:
        """Check all expressions.

        Raises:
            MappingError: One of them is not valid.
        """
        for name in _EXPRESSIONS:
            _checked(self.name, name, getattr(self, name))
        for field in fields(StepMapping) if self.step is not None else ():
            _checked(self.name, f"step.{field.name}", getattr(self.step, field.name))

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> LogMapping:
        """Return the mapping that a table of a settings file describes.

        Args:
            values: The fields; `step` is a table of its own.

        Raises:
            MappingError: A field is unknown or of the wrong type, or an expression is not valid.
        """
        name = values.get("name")
        if not isinstance(name, str) or not name:
            raise MappingError('a mapping needs a name: name = "my-format"')
        known = {field.name for field in fields(cls)}
        step = values.get("step")
        if step is not None and not isinstance(step, dict):
            raise MappingError(f"mapping {name!r}: step must be a table")
        unknown = [
            *(values.keys() - known),
            *(dict(step or {}).keys() - {field.name for field in fields(StepMapping)}),
        ]
        if unknown:
            raise MappingError(f"mapping {name!r}: unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}")
        plain = {key: value for key, value in values.items() if key != "step"}
        for key, value in plain.items():
            if not isinstance(value, _TYPES.get(key, str)):
                raise MappingError(f"mapping {name!r}: {key} has the wrong type: {value!r}")
        for key, value in dict(step or {}).items():
            if not isinstance(value, str):
                raise MappingError(f"mapping {name!r}: step.{key} has the wrong type: {value!r}")
        lists: dict[str, Any] = {key: tuple(plain[key]) for key in ("places", "side_files") if key in plain}
        values_by_name: dict[str, Any] = {**plain, **lists, "step": None if step is None else StepMapping(**step)}
        return cls(**values_by_name)


_TYPES: Final[Mapping[str, Any]] = {"certainty": int | float, "one_run": bool, "places": list, "side_files": list}
_EXPRESSIONS: Final = (
    *("when", "runs", "group", "messages", "id", "task", "context", "answer", "success", "score", "reason", "truth"),
    *("model", "input_tokens", "output_tokens", "cost", "started", "ended", "cwd", "commit", "parent"),
)


def _checked(mapping: str, name: str, expression: str) -> None:
    import jmespath

    if not expression:
        return
    try:
        _compiled(expression)
    except jmespath.exceptions.JMESPathError as error:
        reason = str(error).splitlines()[0]
        raise MappingError(f"mapping {mapping!r}: {name} is not a valid JMESPath expression: {reason}") from error


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    import jmespath

    return _Paths(expression) if _PATHS.fullmatch(expression) else jmespath.compile(expression)


_PATH: Final = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_PATHS: Final = re.compile(rf"{_PATH}(?: \|\| {_PATH})*", re.ASCII)


class _Paths:
    """Alternative paths of names, as most expressions are. The interpreter of JMESPath takes ten times as long."""

    def __init__(self, expression: str) -> None:
        self._paths = [alternative.split(".") for alternative in expression.split(" || ")]

    def search(self, record: object) -> object:
        value = record
        for path in self._paths:
            value = record
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if not (value is None or value is False or value in ("", [], {})):
                break
        return value


def value_at(expression: str, record: object) -> Any:
    """Return what an expression selects in a record; None without an expression, or if it does not apply.

    Args:
        expression: A JMESPath expression; may be empty.
        record: A JSON value.
    """
    import jmespath

    if not expression:
        return None
    try:
        return _compiled(expression).search(record)
    except jmespath.exceptions.JMESPathError:  # a function got a value of another type: the field is not there
        return None


class MappedReader:
    """Reads the logs that a mapping describes."""

    def __init__(self, mapping: LogMapping) -> None:
        self.mapping = mapping
        self.name = mapping.name
        self.title = mapping.title or mapping.name
        self.places: Sequence[str] = mapping.places
        self.side_files: Sequence[str] = mapping.side_files
        self.note = mapping.note

    def recognises(self, head: LogHead) -> float:
        """Return the certainty of the mapping if most of the first records satisfy its condition."""
        if self.mapping.path and not head.path.match(self.mapping.path):
            return 0.0
        if not self.mapping.when:
            return self.mapping.certainty if self.mapping.path else 0.0
        objects: Sequence[object] = head.objects or ([dict.fromkeys(head.keys, True)] if head.keys else [])
        fitting = sum(bool(value_at(self.mapping.when, record)) for record in objects)
        return self.mapping.certainty if objects and fitting * 2 > len(objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs of a source."""
        if self.mapping.one_run:
            records = list(source.records())
            if records:
                yield self._run([record.value for record in records], records[0].value)
        elif self.mapping.group:
            yield from self._grouped(source.records())
        else:
            yield from without_repetitions(
                self._run(value_at(self.mapping.messages, item) or [], item)
                for record in source.records()
                for item in self._items(record.value)
            )

    def _items(self, value: object) -> Sequence[object]:
        if not self.mapping.runs:
            return [value]
        found = value_at(self.mapping.runs, value)
        return found if isinstance(found, list) else []

    def _grouped(self, records: Iterator[Record]) -> Iterator[Run]:
        groups: dict[str, list[Any]] = {}
        for record in records:
            for item in self._items(record.value):
                groups.setdefault(text_of(value_at(self.mapping.group, item)), []).append(item)
        for name, items in groups.items():
            first = items[0]
            run = self._run(
                items, {"first": first, "last": items[-1], "all": items} if self.mapping.messages else first
            )
            yield run if run.id else _named(run, name)

    def _run(self, messages: Sequence[object], record: object) -> Run:
        mapping = self.mapping
        builder = RunBuilder()
        if mapping.messages and (mapping.one_run or mapping.group):
            found = value_at(mapping.messages, messages)
            messages = found if isinstance(found, list) else []
        for number, message in enumerate(messages if isinstance(messages, list) else [messages], 1):
            self._add(builder, message, str(number))

        def text(expression: str) -> str:
            return _text(value_at(expression, record))

        success = value_at(mapping.success, record)
        score = number_of(value_at(mapping.score, record))
        decided = success_of(success)
        if decided is None and score is not None and not is_infrastructure(success):
            decided = success_of(score, is_number=True)
        return builder.run(
            id=text(mapping.id),
            task=text(mapping.task),
            context=text(mapping.context),
            answer=text(mapping.answer),
            success=decided,
            score=score,
            reason=text(mapping.reason),
            outcome_from="" if decided is None and score is None else _source(mapping, record),
            truth=text(mapping.truth) or None,
            model=text(mapping.model),
            tokens=Tokens(
                input=_whole(value_at(mapping.input_tokens, record)),
                output=_whole(value_at(mapping.output_tokens, record)),
            ),
            cost=number_of(value_at(mapping.cost, record)),
            started=time_of(value_at(mapping.started, record)),
            ended=time_of(value_at(mapping.ended, record)),
            cwd=text(mapping.cwd),
            commit=text(mapping.commit),
            parent=text(mapping.parent),
        )

    def _add(self, builder: RunBuilder, item: object, place: str) -> None:
        step = self.mapping.step
        if step is None:
            if isinstance(item, dict):
                add_message(builder, item, place)
            else:
                builder.message("harness", text_of(item), place)
            return
        builder.thought(text_of(value_at(step.thought, item)), place)
        said = text_of(value_at(step.text, item))
        if said:
            add_message(builder, {"role": text_of(value_at(step.role, item)) or "assistant", "content": said}, place)
        tool, identity = text_of(value_at(step.tool, item)), text_of(value_at(step.id, item))
        if tool:
            builder.call(tool, value_at(step.input, item), identity, place)
        output, failed = value_at(step.output, item), value_at(step.failed, item)
        if output is not None or failed:
            is_error = is_failed_output(output) if failed is None else success_of(failed) is not False and bool(failed)
            shown = failed if output is None and isinstance(failed, str) else output
            builder.result(shown, identity, place, is_error=is_error)


def _source(mapping: LogMapping, record: object) -> str:
    """Return the field that tells the outcome, as an alternative of the expressions for it."""
    alternatives = [part.strip() for part in (*mapping.success.split("||"), *mapping.score.split("||")) if part]
    known = (part for part in alternatives if value_at(part, record) is not None)
    return next(known, mapping.success or mapping.score)


def _text(value: object) -> str:
    """Return a value as a text: the texts of a list one below the other, and what a model answered."""
    if isinstance(value, list) and all(isinstance(item, str) or item is None for item in value):
        return "\n".join(item for item in value if item)
    return text if (text := response_text(value)) is not None else text_of(value)


def _named(run: Run, name: str) -> Run:
    from dataclasses import replace

    return replace(run, id=name)


def _whole(value: object) -> int | None:
    number = number_of(value)
    return None if number is None else int(number)


def mappings_in(path: Path) -> list[LogMapping]:
    """Return the mappings in a TOML file: the tables `[[logs.mapping]]`, or one mapping at its top level.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be read.
        MappingError: It is not TOML, or a mapping in it is not valid.
    """
    import tomllib

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MappingError(f"{path}: {error}") from error
    logs = document.get("logs")
    tables = logs.get("mapping") if isinstance(logs, dict) else [document]
    return [LogMapping.from_fields(table) for table in tables or ()]
