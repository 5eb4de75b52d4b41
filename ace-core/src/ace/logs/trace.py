"""Read a trace of any type, or a batch of traces, into the standard trace dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NotRequired, TypedDict, TypeGuard

from ace.logs.building import RunBuilder
from ace.logs.formats.standard import is_standard_step
from ace.logs.plain import EMPTY, Plain, as_text, decoded, parsed_json, to_plain
from ace.logs.reading import read_runs, reader_for, readers
from ace.logs.run import Problem, Run
from ace.logs.source import live_source
from ace.logs.spool import StoredTrace
from ace.protocols.trace_converters import TraceConversionError, converted_trace, find_trace_converter
from ace.redaction import Redactor
from ace.skill import CHECK_KINDS
from ace.traces import AnswerTrace, StepKind, TraceCorrection, TraceStep, steps_as_text, trace_step

__all__ = [
    "StandardTrace",
    "read_batch",
    "read_trace",
    "runs_in",
    "shown_names",
    "traces_in",
    "traces_in_batch",
]


class StandardTrace(TypedDict):
    """The format into which every trace is read. `rest` contains all other fields."""

    schema: int
    question: str
    context: str
    ground_truth: str | None
    feedback: str | None
    reasoning: str
    answer: str
    success: bool | None
    skill_ids: list[str]
    steps: list[TraceStep]
    corrections: list[TraceCorrection]
    check: dict[str, str] | None
    dialogue: NotRequired[list[TraceStep]]
    rest: dict[str, Plain]


def read_trace(trace: object) -> StandardTrace:
    """Read a trace of any type, without loss.

    A registered converter that claims the trace takes precedence. Otherwise dicts, lists, dataclasses, pydantic models
    and other objects are read as the records of a log are, and so are texts and bytes.

    Args:
        trace: Any object.

    Returns:
        The standard trace; its question is empty if the trace does not contain one.

    Raises:
        AmbiguousTraceError: Two converters claim the trace with the same score.
        TraceConversionError: The converter that claims it cannot convert it, it holds several runs, or a reader
            recognises it and says why it cannot read it.

    Example:
        >>> trace = read_trace({"task": "2+2?", "output": 4, "temperature": 1})
        >>> trace["question"], trace["answer"], trace["rest"]
        ('2+2?', '4', {'temperature': 1})
    """
    if isinstance(trace, StoredTrace):
        return _from_fields(_fields_of(trace.load()))
    if trace is None:
        return _empty()
    converter = None if isinstance(trace, AnswerTrace) else find_trace_converter(trace)
    if converter is not None:
        trace = converted_trace(converter, trace)
    plain = _plain(trace)
    if isinstance(plain, dict) and (isinstance(trace, AnswerTrace) or _is_standard(plain)):
        return _from_fields(plain)
    if isinstance(plain, dict) and traces_in_batch(plain) is not None:
        return _from_fields(plain)  # a reflector that reviews traces together reads each of them
    found = list(_found_in(trace if isinstance(trace, Path) else plain))
    runs = _runs_or_one(found, plain)
    if not runs and (problem := next((item for item in found if isinstance(item, Problem)), None)) is not None:
        raise TraceConversionError(problem.reason)
    if len(runs) > 1:
        raise TraceConversionError(
            f"this {type(trace).__name__} holds {len(runs)} runs; give the runs to the runner one by one: "
            "ace.logs.traces_in(...) returns them"
        )
    return _from_fields(_fields_of(runs[0].to_trace())) if runs else _empty()


def traces_in(value: object) -> list[object]:
    """Return the traces of an object that may hold several runs, such as the export of a tracing tool.

    Args:
        value: Any object.

    Returns:
        A standard trace for each run; an object that is one trace is returned as it is.

    Example:
        >>> found = traces_in([{"task": "2+2?", "output": "4"}, {"task": "1+1?", "output": "2"}])
        >>> [trace["question"] for trace in found]
        ['2+2?', '1+1?']
        >>> traces_in({"task": "2+2?", "output": "4"})
        [{'task': '2+2?', 'output': '4'}]
    """
    if value is None or isinstance(value, StoredTrace | AnswerTrace) or find_trace_converter(value) is not None:
        return [value]
    plain = _plain(value)
    runs = [] if isinstance(plain, dict) and _is_standard(plain) else _runs_or_one(_found_in(plain), plain)
    return [_from_fields(_fields_of(run.to_trace())) for run in runs] if len(runs) > 1 else [value]


def _runs_or_one(found: Iterable[Run | Problem], plain: Plain) -> list[Run]:
    """Return the runs in a value. A list whose items are not all runs is one: the caller says that it is one trace."""
    runs = [item for item in found if isinstance(item, Run)]
    if len(runs) < 2 or all(run.task for run in runs):
        return runs
    return [_of_items(plain) if isinstance(plain, list) else Run(rest={"record": plain})]


def _of_items(items: list[Plain]) -> Run:
    """Return a list as one run."""
    builder = RunBuilder()
    for number, item in enumerate(items, 1):
        builder.message("harness", as_text(item), str(number))
    return builder.run()


def runs_in(value: object) -> list[Run]:
    """Return the runs in an object in memory, such as the parsed content of a log.

    Args:
        value: Any object; of a `Path`, the log there is read.

    Example:
        >>> [run.task for run in runs_in([{"question": "2+2?", "answer": "4"}, {"question": "3+3?", "answer": "6"}])]
        ['2+2?', '3+3?']
    """
    return [found for found in _found_in(value if isinstance(value, Path) else _plain(value)) if isinstance(found, Run)]


def _found_in(value: Path | Plain) -> Iterator[Run | Problem]:
    if isinstance(value, Path):
        yield from read_runs(value)
        return
    source = live_source(value)
    reader = reader_for(source.head, readers())
    if reader is not None:
        yield from reader.runs(source)


def _plain(value: object) -> Plain:
    if isinstance(value, Run):
        value = value.to_trace()
    if isinstance(value, bytes | bytearray | memoryview):
        value = decoded(bytes(value))
    if isinstance(value, str):
        document = parsed_json(value)
        return value if document is None else to_plain(document)
    return to_plain(value)


def _fields_of(trace: Mapping[str, object]) -> dict[str, Plain]:
    plain = to_plain(trace)
    assert isinstance(plain, dict)
    return plain


def _is_standard(fields: Mapping[str, Plain]) -> bool:
    """Whether a dict is a standard trace, as converters return it, or has steps like one."""
    return fields.get("schema") == 1 or _are_steps(fields.get("steps"))


def _empty() -> StandardTrace:
    return StandardTrace(
        schema=1,
        question="",
        context="",
        ground_truth=None,
        feedback=None,
        reasoning="",
        answer="",
        success=None,
        skill_ids=[],
        steps=[],
        corrections=[],
        check=None,
        rest={},
    )


def _from_fields(fields: dict[str, Plain]) -> StandardTrace:
    rest = {name: value for name, value in fields.items() if name != "schema"}
    trace = _empty()
    trace["steps"] = steps = _take_steps(rest)
    trace["question"] = as_text(rest.pop("question", None))
    trace["context"] = as_text(rest.pop("context", None))
    trace["reasoning"] = as_text(rest.pop("reasoning", None))
    trace["answer"] = as_text(rest.pop("answer", None))
    trace["feedback"] = as_text(rest.pop("feedback", None)) or None
    trace["ground_truth"] = as_text(rest.pop("ground_truth", None)) or None
    success = rest.get("success")
    if success is None or isinstance(success, bool):
        trace["success"] = success
        rest.pop("success", None)
    trace["reasoning"] = trace["reasoning"] or steps_as_text(steps)
    trace["skill_ids"] = _take_ids(rest)
    trace["corrections"] = _take_corrections(rest)
    trace["check"] = _take_check(rest)
    if (dialogue := _take_dialogue(rest)) is not None:
        trace["dialogue"] = dialogue
    inner = rest.pop("rest", None)
    rest |= inner if isinstance(inner, dict) else {}
    trace["rest"] = {key: value for key, value in rest.items() if value not in EMPTY}
    return trace


def _take_steps(rest: dict[str, Plain]) -> list[TraceStep]:
    steps = rest.get("steps")
    if not _are_steps(steps):
        return []
    del rest["steps"]
    return [_kept(item) for item in steps]


def _are_steps(value: Plain) -> TypeGuard[list[dict[str, Plain]]]:
    return isinstance(value, list) and bool(value) and all(map(is_standard_step, value))


def _take_ids(rest: dict[str, Plain]) -> list[str]:
    value = rest.get("skill_ids")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        del rest["skill_ids"]
        return [item for item in value if isinstance(item, str)]
    return []


def _take_corrections(rest: dict[str, Plain]) -> list[TraceCorrection]:
    """Remove and return the corrections found by a converter; any other value of that field remains in the rest."""
    value = rest.get("corrections")
    names = TraceCorrection.__annotations__.keys()
    if not isinstance(value, list):
        return []
    found = [item for item in value if isinstance(item, dict) and set(item) == names]
    if len(found) != len(value) or not all(isinstance(text, str) for item in found for text in item.values()):
        return []
    del rest["corrections"]
    return [TraceCorrection(**{name: as_text(item[name]) for name in names}) for item in found]  # type: ignore[typeddict-item]  # the names are its own


def _take_dialogue(rest: dict[str, Plain]) -> list[TraceStep] | None:
    """Remove and return the dialogue that a converter found; None if there is none."""
    value = rest.get("dialogue")
    if not isinstance(value, list) or not all(map(is_standard_step, value)):
        return None
    del rest["dialogue"]
    return [_kept(item) for item in value if isinstance(item, dict)]


def _take_check(rest: dict[str, Plain]) -> dict[str, str] | None:
    """Remove and return the check of an environment; any other value of that field remains in the rest."""
    value = rest.get("check")
    if not isinstance(value, dict) or set(value) != {"kind", "value"} or value["kind"] not in CHECK_KINDS:
        return None
    if not isinstance(value["value"], str):
        return None
    del rest["check"]
    return {"kind": as_text(value["kind"]), "value": value["value"]}


_OF_TRACES = frozenset({"question", "task", "steps", "messages"})


def traces_in_batch(trace: object) -> dict[str, object] | None:
    """Return the traces in a batch by their names; None if it is a single trace.

    A batch is a dict with nothing but `items` or `traces`, or a list of dicts that are traces: messages and steps, of
    which a single trace may be a list, have neither a question nor steps or messages of their own.

    Args:
        trace: The record, of any type.

    Example:
        >>> traces_in_batch({"items": {"run-1": {"question": "2+2?"}}})
        {'run-1': {'question': '2+2?'}}
        >>> traces_in_batch([{"trace_id": "a", "question": "2+2?"}, {"question": "1+1?"}]).keys()
        dict_keys(['a', '2'])
        >>> print(traces_in_batch([{"role": "user", "content": "2+2?"}]))
        None
    """
    found = trace
    if isinstance(trace, Mapping):
        if len(trace) != 1 or next(iter(trace)) not in ("items", "traces"):
            return None
        found = next(iter(trace.values()))
        if isinstance(found, Mapping):
            return {str(name): item for name, item in found.items()}
    if not isinstance(found, list | tuple) or not found:
        return None
    if found is trace and not all(isinstance(item, Mapping) and _OF_TRACES.intersection(item) for item in found):
        return None
    items: dict[str, object] = {}
    for number, item in enumerate(found, 1):
        own_name = (item.get("trace_id") or item.get("id")) if isinstance(item, Mapping) else None
        name = str(own_name or number)
        items[name if name not in items else f"{name}#{number}"] = item
    return items


def read_batch(batch: Mapping[str, object]) -> tuple[dict[str, StandardTrace], dict[str, Exception]]:
    """Read the traces in a batch: one that cannot be read costs only itself.

    Args:
        batch: The traces by their names.

    Returns:
        What was read, and why the others cannot be read; both by name.
    """
    read: dict[str, StandardTrace] = {}
    problems: dict[str, Exception] = {}
    for name, trace in batch.items():
        try:
            read[name] = read_trace(trace)
        except Exception as error:  # of a file, or of a converter that a plugin has registered
            problems[name] = error
    return read, problems


def shown_names(names: Iterable[str], redactor: Redactor) -> dict[str, str]:
    """Return the names of the traces in a batch by the names that a model is shown, in the same order.

    Args:
        redactor: Redacts what is sensitive in them. Names that become equal get a number.

    Example:
        >>> list(shown_names(["ann@acme.com", "bob@acme.com", "run-3"], Redactor()))
        ['[hidden: email_address]', '[hidden: email_address] (2)', 'run-3']
    """
    shown: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        redacted = redactor.redact_name(name)
        shown[redacted if redacted not in shown else f"{redacted} ({number})"] = name
    return shown


_KINDS: dict[str, StepKind] = {"thought": "thought", "call": "call", "result": "result", "message": "message"}


def _kept(item: dict[str, Plain]) -> TraceStep:
    return trace_step(
        _KINDS[as_text(item["kind"])],
        as_text(item.get("name")),
        as_text(item["content"]),
        as_text(item.get("place")),
        is_error=item.get("is_error") is True,
    )
