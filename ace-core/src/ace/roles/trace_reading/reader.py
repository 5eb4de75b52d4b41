"""Read a trace of any type, or a batch of traces, into the standard trace dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from ace.cases import correction_in_feedback, corrections_in, steps_of_dialogue
from ace.protocols.trace_converters import converted_trace, find_trace_converter
from ace.redaction import Redactor
from ace.roles.trace_reading.plain import EMPTY, Plain, as_text, decoded, parsed_json, to_plain
from ace.skill import CHECK_KINDS
from ace.traces import AnswerTrace, StepKind, TraceCorrection, TraceStep, steps_as_text, trace_step

__all__ = [
    "StandardTrace",
    "final_text",
    "first_user_text",
    "is_message",
    "read_batch",
    "read_trace",
    "shown_names",
    "steps_of",
    "traces_in_batch",
]

ALIASES: Final = {
    "question": ("question", "task", "input", "query", "prompt", "instruction"),
    "answer": ("answer", "final_answer", "output", "final_output", "result", "response"),
    "reasoning": ("reasoning", "thoughts", "rationale"),
    "feedback": ("feedback", "correction", "user_feedback", "human_feedback"),
    "ground_truth": (
        "ground_truth",
        "expected",
        "expected_output",
        "expected_answer",
        "correct_answer",
        "corrected_answer",
        "reference",
    ),
    "context": ("context",),
    "steps": (
        "steps",
        "messages",
        "intermediate_steps",
        "trajectory",
        "events",
        "conversation",
        "dialogue",
        "chat",
        "transcript",
    ),
}


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
    rest: dict[str, Plain]


def read_trace(trace: object) -> StandardTrace:
    """Read a trace of any type, without loss.

    A registered converter that claims the trace takes precedence. Otherwise, the fields of dicts, dataclasses, pydantic
    models and other objects are recognised by their usual names; lists are read as chat messages or steps, texts and
    bytes as JSON if they are valid JSON. All other fields are in `rest`.

    Args:
        trace: Any object.

    Returns:
        The standard trace; its question is empty if the trace does not contain one.

    Raises:
        AmbiguousTraceError: Two converters claim the trace with the same score.
        TraceConversionError: The converter that claims it cannot convert it.

    Example:
        >>> trace = read_trace({"task": "2+2?", "output": 4, "model": "m"})
        >>> trace["question"], trace["answer"], trace["rest"]
        ('2+2?', '4', {'model': 'm'})
    """
    if trace is None:
        return _empty()
    converter = None if isinstance(trace, AnswerTrace) else find_trace_converter(trace)
    if converter is not None:
        trace = converted_trace(converter, trace)
    if isinstance(trace, bytes | bytearray | memoryview):
        trace = decoded(bytes(trace))
    if isinstance(trace, str):
        held = parsed_json(trace)
        if held is None:
            return _from_text(trace) if trace else _empty()
        trace = held
    plain = to_plain(trace)
    if isinstance(plain, dict) and is_message(plain):
        plain = [plain]
    if isinstance(plain, dict):
        return _from_fields(plain)
    if isinstance(plain, list):
        return _with_steps(_empty(), plain)
    return {**_empty(), "steps": steps_of([plain])}


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


def _from_text(text: str) -> StandardTrace:
    """Return a text as one step, with its corrections if it is a dialogue."""
    corrections = corrections_in(steps_of_dialogue(text))
    return {**_empty(), "steps": steps_of([to_plain(text)]), "corrections": corrections}


def _from_fields(fields: dict[str, Plain]) -> StandardTrace:
    rest = dict(fields)
    if rest.get("schema") == 1:
        del rest["schema"]
    steps = _take_list(rest, ALIASES["steps"])
    trace = _empty()
    trace["question"] = as_text(_take(rest, ALIASES["question"]))
    trace["answer"] = as_text(_take(rest, ALIASES["answer"]))
    trace["reasoning"] = as_text(_take(rest, ALIASES["reasoning"]))
    trace["context"] = as_text(_take(rest, ALIASES["context"]))
    trace["feedback"] = as_text(_take(rest, ALIASES["feedback"])) or None
    trace["ground_truth"] = as_text(_take(rest, ALIASES["ground_truth"])) or None
    if isinstance(rest.get("success"), bool) or ("success" in rest and rest["success"] is None):
        success = rest.pop("success")
        trace["success"] = success if isinstance(success, bool) else None
    trace["skill_ids"] = _take_ids(rest)
    was_converted = fields.get("schema") == 1
    trace["corrections"] = _take_corrections(rest)
    trace["check"] = _take_check(rest)
    rest = {key: value for key, value in rest.items() if value not in EMPTY}
    inner = rest.get("rest")
    # Reading a standard trace again does not nest its rest.
    trace["rest"] = inner if isinstance(inner, dict) and len(rest) == 1 else rest
    trace = _with_steps(trace, steps) if steps else trace
    if not was_converted and not trace["corrections"]:
        trace["corrections"] = _stated_corrections(trace)
    return trace


def _stated_corrections(trace: StandardTrace) -> list[TraceCorrection]:
    """Return the corrections in a record: in a text field that is a dialogue, or in the feedback on the answer."""
    for name in ALIASES["steps"]:
        text = trace["rest"].get(name)
        if isinstance(text, str) and (found := corrections_in(steps_of_dialogue(text))):
            return found
    return correction_in_feedback(
        trace["question"], trace["answer"], trace["feedback"] or "", trace["ground_truth"] or ""
    )


def _with_steps(trace: StandardTrace, items: list[Plain]) -> StandardTrace:
    """Add steps, and take a missing question, answer or reasoning from them."""
    steps = steps_of(items)
    return {
        **trace,
        "steps": steps,
        "question": trace["question"] or first_user_text(items),
        "answer": trace["answer"] or final_text(items),
        "reasoning": trace["reasoning"] or steps_as_text(steps),
        "corrections": trace["corrections"] or corrections_in(steps),
    }


def _take(rest: dict[str, Plain], names: tuple[str, ...]) -> Plain:
    """Remove and return the first field that is present and not empty; the others remain in the rest."""
    lowered = {key.lower(): key for key in reversed(rest)}
    for name in names:
        key = lowered.get(name)
        if key is not None and rest[key] not in EMPTY:
            return rest.pop(key)
    return None


def _take_list(rest: dict[str, Plain], names: tuple[str, ...]) -> list[Plain]:
    for name in names:
        value = rest.get(name)
        if isinstance(value, list) and value:
            del rest[name]
            return value
    return []


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
    held = trace
    if isinstance(trace, Mapping):
        if len(trace) != 1 or next(iter(trace)) not in ("items", "traces"):
            return None
        held = next(iter(trace.values()))
        if isinstance(held, Mapping):
            return {str(name): item for name, item in held.items()}
    if not isinstance(held, list | tuple) or not held:
        return None
    if held is trace and not all(isinstance(item, Mapping) and _OF_TRACES.intersection(item) for item in held):
        return None
    items: dict[str, object] = {}
    for number, item in enumerate(held, 1):
        given = (item.get("trace_id") or item.get("id")) if isinstance(item, Mapping) else None
        name = str(given or number)
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
        names: The names.
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
_ROLES = {"human": "user", "ai": "assistant"}
_SPEAKERS = ("user", "assistant", "system", "developer", "tool", "function", "human", "ai", "chat")
_STEP_KEYS = frozenset(TraceStep.__annotations__)
_TEXT_BLOCKS = ("text", "input_text", "output_text")


def is_message(item: Plain) -> bool:
    """Return whether plain data is a chat message."""
    if not isinstance(item, dict):
        return False
    return _speaker(item) is not None and ("content" in item or "tool_calls" in item or "text" in item)


def steps_of(items: list[Plain]) -> list[TraceStep]:
    """Return the steps of a list of messages, steps or other objects, in order.

    Args:
        items: Plain data; an item that is not a message becomes one step with its whole content.

    Example:
        >>> [step["content"] for step in steps_of([{"role": "user", "content": "Hi"}])]
        ['Hi']
    """
    steps: list[TraceStep] = []
    for number, item in enumerate(items, start=1):
        place = str(number)
        if isinstance(item, dict) and _is_standard_step(item):
            steps.append(_kept(item))
        elif isinstance(item, dict) and is_message(item):
            steps.extend(_message_steps(item, place))
        else:
            steps.append(trace_step("message", "", as_text(item), place))
    return steps


def first_user_text(items: list[Plain]) -> str:
    """Return the text of the first user message, or an empty text."""
    for item in items:
        if isinstance(item, dict) and _speaker(item) == "user" and (text := _spoken(item)):
            return text
    return ""


def final_text(items: list[Plain]) -> str:
    """Return the text of the last assistant message, or an empty text."""
    for item in reversed(items):
        if isinstance(item, dict) and _speaker(item) == "assistant" and (text := _spoken(item)):
            return text
    return ""


def _speaker(message: dict[str, Plain]) -> str | None:
    for key in ("role", "type"):
        name = message.get(key)
        if isinstance(name, str) and _is_speaker(name):
            return _ROLES.get(name.lower(), name.lower())
    return None


def _is_speaker(name: Plain) -> bool:
    return isinstance(name, str) and name.lower() in _SPEAKERS


def _spoken(message: dict[str, Plain]) -> str:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(text for block in blocks if (text := _block_text(block)))


def _block_text(block: Plain) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") in _TEXT_BLOCKS:
        return as_text(block.get("text"))
    return ""


def _message_steps(message: dict[str, Plain], place: str) -> list[TraceStep]:
    speaker = _speaker(message) or ""
    rest = dict(message)
    rest.pop("role" if _is_speaker(rest.get("role")) else "type")
    steps = _thoughts(rest, place)
    if speaker in ("tool", "function"):
        steps.append(_tool_result(rest, speaker, place))
    else:
        content = rest.pop("content", None)
        blocks = content if isinstance(content, list) else [content]
        for number, block in enumerate(blocks, start=1):
            if block not in EMPTY:
                spot = f"{place}.{number}" if len(blocks) > 1 else place
                steps.extend(_block_steps(block, speaker, spot))
    calls = rest.pop("tool_calls", None)
    for number, call in enumerate(calls if isinstance(calls, list) else [calls], start=1):
        if call not in EMPTY:
            steps.extend(_call_steps(call, f"{place}.call{number}"))
    return steps + _other_fields(rest, speaker, place)


def _thoughts(rest: dict[str, Plain], place: str) -> list[TraceStep]:
    steps: list[TraceStep] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        thought = rest.get(key)
        if isinstance(thought, str) and thought:
            del rest[key]
            steps.append(trace_step("thought", "assistant", thought, place))
    return steps


def _tool_result(rest: dict[str, Plain], speaker: str, place: str) -> TraceStep:
    name = _named(_taken_text(rest, "name") or speaker, _taken_text(rest, "tool_call_id"))
    failed = rest.get("status") == "error" or rest.get("is_error") is True
    return trace_step("result", name, as_text(rest.pop("content", None)), place, is_error=failed)


def _block_steps(block: Plain, speaker: str, place: str) -> list[TraceStep]:
    """Return the steps of one part of a message; parts of an unknown type remain JSON."""
    if not isinstance(block, dict):
        return [trace_step("message", speaker, as_text(block), place)]
    rest = dict(block)
    kind = rest.pop("type", None)
    if kind in _TEXT_BLOCKS:
        step = trace_step("message", speaker, as_text(rest.pop("text", None)), place)
    elif kind == "thinking":
        step = trace_step("thought", speaker, as_text(rest.pop("thinking", None)), place)
    elif kind == "tool_use":
        name = _named(_taken_text(rest, "name"), _taken_text(rest, "id"))
        step = trace_step("call", name, as_text(rest.pop("input", None)), place)
    elif kind == "tool_result":
        name = _named("tool", _taken_text(rest, "tool_use_id"))
        failed = rest.get("is_error") is True
        if isinstance(rest.get("is_error"), bool):
            del rest["is_error"]
        step = trace_step("result", name, _result_text(rest.pop("content", None)), place, is_error=failed)
    else:
        return [trace_step("message", speaker, as_text(block), place)]
    return [step, *_other_fields(rest, speaker, place)]


def _call_steps(call: Plain, place: str) -> list[TraceStep]:
    """Return the steps of one tool call in the format of OpenAI (`function`) or LangChain (`args`)."""
    if not isinstance(call, dict):
        return [trace_step("call", "", as_text(call), place)]
    rest = dict(call)
    if rest.get("type") in ("function", "tool_call"):
        del rest["type"]
    function = rest.get("function")
    if isinstance(function, dict) and not set(function) & set(rest):
        del rest["function"]
        rest.update(function)
    name = _named(_taken_text(rest, "name"), _taken_text(rest, "id"))
    arguments = rest.pop("arguments" if "arguments" in rest else "args", None)
    return [trace_step("call", name, as_text(arguments), place), *_other_fields(rest, name, place)]


def _other_fields(rest: dict[str, Plain], name: str, place: str) -> list[TraceStep]:
    """Return a step with the remaining fields, if any of them is not empty."""
    left = {key: value for key, value in rest.items() if value not in EMPTY}
    return [trace_step("message", f"{name} (other fields)".strip(), as_text(left), place)] if left else []


def _result_text(content: Plain) -> str:
    """Return the text of a tool result, which may consist of blocks."""
    if isinstance(content, list) and all(isinstance(b, dict) and set(b) == {"type", "text"} for b in content):
        return "\n".join(_block_text(block) or as_text(block) for block in content)
    return as_text(content)


def _taken_text(rest: dict[str, Plain], key: str) -> str:
    value = rest.get(key)
    if not isinstance(value, str):
        return ""
    del rest[key]
    return value


def _named(name: str, call_id: str) -> str:
    """Add the id of a call to its name, to match it with its result."""
    return f"{name} #{call_id}" if call_id else name


def _is_standard_step(item: dict[str, Plain]) -> bool:
    texts = all(isinstance(item.get(key), str) for key in ("name", "content", "place"))
    return texts and set(item) == _STEP_KEYS and item["kind"] in _KINDS and isinstance(item["is_error"], bool)


def _kept(item: dict[str, Plain]) -> TraceStep:
    return trace_step(
        _KINDS[as_text(item["kind"])],
        as_text(item["name"]),
        as_text(item["content"]),
        as_text(item["place"]),
        is_error=item["is_error"] is True,
    )
