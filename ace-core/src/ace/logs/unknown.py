"""Reads JSON, tables and text of unknown formats by the structure and the usual names of their fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.cases import steps_of_dialogue
from ace.logs.building import RunBuilder, text_of, time_of
from ace.logs.head import Head, Record
from ace.logs.messages import add_message, is_message, is_message_list
from ace.logs.outcomes import number_of, outcome_in
from ace.logs.run import Problem, Run, Tokens
from ace.logs.source import Source

__all__ = ["UnknownReader"]

_ENVELOPES: Final = (
    *("data", "runs", "results", "records", "items", "rows", "samples", "simulations", "conversations", "sessions"),
    *("traces", "trajectories", "examples", "instances", "testcases", "logs", "entries"),
)
_LISTS: Final = (
    *("messages", "history", "traj", "turns", "conversation", "conversations", "chat", "dialog", "dialogue"),
    *("transcript", "contents", "chatmessages", "trajectory", "steps", "intermediatesteps", "events"),
)
_NEVER_LISTS: Final = frozenset(
    {"query", "modelinputmessages", "replacementhistory", "compressedhistory", "tools", "examples", "demos"}
)
_IDS: Final = (
    *("sessionid", "conversationid", "threadid", "chatid", "traceid", "runid", "sampleid", "dialogueid", "dialogid"),
    *("ticketid", "caseid", "customid", "conversation", "session", "thread"),
)
_OWN_IDS: Final = ("id", "uuid", "runid", "traceid", "sessionid", "conversationid", "taskid", "instanceid")
_TASKS: Final = (
    *(
        "question",
        "query",
        "prompt",
        "input",
        "inputs",
        "instruction",
        "task",
        "problem",
        "problemstatement",
        "request",
    ),
    *("user", "usermessage", "userinput", "userquery", "human", "message", "goal", "ticket", "example"),
)
_ANSWERS: Final = (
    *("answer", "finalanswer", "response", "completion", "prediction", "result", "reply", "generatedtext"),
    *(
        "modeloutput",
        "modelanswer",
        "modelpatch",
        "actualoutput",
        "finaloutput",
        "outputs",
        "output",
        "assistant",
        "ai",
    ),
    *("botresponse", "agentresponse", "resolution", "solution"),
)
_TRUTHS: Final = (
    *(
        "groundtruth",
        "expected",
        "expectedoutput",
        "expectedanswer",
        "reference",
        "referenceanswer",
        "referenceoutputs",
    ),
    *("target", "gold", "goldenanswer", "ideal", "correctresponse", "correctanswer", "correctedanswer", "chosen"),
)
_REASONS: Final = (
    *("feedback", "userfeedback", "humanfeedback", "correction", "comment", "comments", "critique", "explanation"),
    *("reason", "rationale", "notes"),
)
_CONTEXTS: Final = ("context", "contexts", "retrievedcontexts", "documents")
_MODELS: Final = ("model", "modelname", "modelid")
_STARTS: Final = ("started", "startedat", "starttime", "start", "createdat", "timestamp", "time", "date")
_ENDS: Final = ("ended", "endedat", "endtime", "end", "finishedat", "completedat")
_ORDERS: Final = (
    "turn",
    "turnnumber",
    "turnid",
    "index",
    "position",
    "seq",
    "sequence",
    "step",
    "timestamp",
    "createdat",
    "time",
)
_DEEPEST: Final = 10
_MOST_TYPES: Final = 30
_FEWEST_EVENTS: Final = 5


class UnknownReader:
    """Reads what no other reader claims. A file that is one list of messages or events is one run."""

    name = "unknown"
    title = "Other JSON, CSV and text"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "Tasks, answers and outcomes are found by the usual names of fields; a mapping names others."

    def recognises(self, head: Head) -> float:
        """Return a certainty below that of every other reader; 0 for what only a special reader can read."""
        return 0.0 if head.shape in ("folder", "sqlite", "zip") else 0.01

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs of a source."""
        if source.shape == "text":
            text = source.text()
            if text.strip():
                yield _from_text(text)
            return
        shared: dict[str, Any] = {}
        records = _unwrapped(source.records(), source, shared)
        first: list[Record] = []
        for record in records:
            first.append(record)
            if len(first) == len(source.head.records) or len(first) == 50:
                break
        kind = _kind([record.value for record in first])
        if kind == "records":
            has_lines = source.shape in ("lines", "values", "table")
            for record in _chain(first, records):
                yield _from_record(record.value, shared, record, is_line=has_lines)
            return
        every = [*first, *records]
        for name, items in _groups(every).items():
            yield from _from_items(name, items, shared, source, is_events=kind == "events")


def _chain(first: Iterable[Record], others: Iterator[Record]) -> Iterator[Record]:
    yield from first
    yield from others


def key_of(name: object) -> str:
    """Return a name of a field without capitals, spaces, hyphens and underscores.

    Example:
        >>> key_of("actualOutput") == key_of("actual_output")
        True
    """
    return re.sub(r"[\s_-]+", "", name).lower() if isinstance(name, str) else ""


def _unwrapped(records: Iterator[Record], source: Source, shared: dict[str, Any]) -> Iterator[Record]:
    """Yield the records in the envelopes of a document; the fields beside them are shared by all."""
    for record in records:
        value, inner = record.value, None
        for _ in range(_DEEPEST):
            inner = _inner(value)
            if inner is None:
                break
            name, found = inner
            shared.update({k: v for k, v in value.items() if k != name and not isinstance(v, dict | list)})
            value = found
        if isinstance(value, list):
            yield from (Record(item, record.line) for item in value)
        else:
            yield Record(value, record.line)


def _inner(value: object) -> tuple[str, Any] | None:
    """Return the list of records in an envelope, or a table of columns as rows, with the name of its field."""
    if not isinstance(value, dict) or is_message(value):
        return None
    rows = _rows_of_columns(value)
    if rows is not None:
        return "", rows
    if any(key_of(name) in _LISTS and is_message_list(found) for name, found in value.items()):
        return None
    if _field(value, _TASKS) is not None:
        return None
    lists = {name: found for name, found in value.items() if key_of(name) in _ENVELOPES and _is_envelope(found)}
    if not lists:
        return None
    name = min(lists, key=lambda name: _ENVELOPES.index(key_of(name)))
    return name, lists[name]


def _is_envelope(value: object) -> bool:
    if isinstance(value, dict):
        return _inner(value) is not None
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _rows_of_columns(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a table that is written by columns, as pandas and datasets write it."""
    columns = list(value.values())
    if len(columns) < 2:
        return None
    if all(isinstance(column, dict) and column for column in columns):
        keys = columns[0].keys()
        if all(column.keys() == keys for column in columns) and all(str(key).isdigit() for key in keys):
            return [{name: column[key] for name, column in value.items()} for key in keys]
    lists = [column for column in columns if isinstance(column, list) and column]
    is_table = len(lists) == len(columns) and len({len(column) for column in lists}) == 1
    if is_table and not any(isinstance(item, dict | list) for column in lists for item in column):
        return [dict(zip(value, row, strict=True)) for row in zip(*lists, strict=True)]
    return None


def _kind(values: Sequence[Any]) -> str:
    """Return whether values are `messages` of one or several runs, their `events`, or `records` that are runs."""
    objects = [value for value in values if isinstance(value, dict)]
    if not objects:
        return "messages" if len(values) > 1 else "records"
    plain = [value for value in objects if _message_list(value) is None]
    if len(plain) * 2 < len(objects):
        return "records"
    roles = sum(is_message(value) and _pair(value) is None for value in objects)
    if roles * 2 > len(objects) and (len(objects) > 1 or roles == len(objects)):
        return "messages"
    if len(objects) >= _FEWEST_EVENTS and not any(_pair(value) for value in objects) and _are_events(objects):
        return "events"
    return "records"


def _are_events(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether records have a type from a small set, and come in an order that a field tells."""
    names = ("type", "event", "kind", "action", "observation", "name")
    typed = [
        next((text_of(value[name]) for name in names if isinstance(value.get(name), str)), "") for value in objects
    ]
    types = {name for name in typed if name}
    has_types = sum(map(bool, typed)) * 2 > len(objects) and len(types) < min(_MOST_TYPES, len(objects))
    ordered = sum(any(key_of(name) in (*_ORDERS, "id", "ts") for name in value) for value in objects)
    return has_types and ordered * 2 > len(objects)


def _groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each run: by a field with the id of a conversation, if there is one that repeats."""
    for key in _IDS:
        named = [(_field_text(record.value, (key,)), record) for record in records]
        counts = Counter(name for name, _ in named if name)
        if counts and sum(counts.values()) == len(records) and len(counts) < len(records):
            groups: dict[str, list[Record]] = {}
            for name, record in named:
                groups.setdefault(name, []).append(record)
            return {name: _in_order(items) for name, items in groups.items()}
    return {"": list(records)}


def _in_order(records: list[Record]) -> list[Record]:
    for key in _ORDERS:
        values = [_field(record.value, (key,)) for record in records]
        numbers = [number_of(value) for value in values]
        if all(number is not None for number in numbers):
            return [record for _, record in sorted(zip(numbers, records, strict=True), key=lambda pair: pair[0] or 0.0)]
        times = [time_of(value) for value in values]
        if all(times):
            return [record for _, record in sorted(zip(times, records, strict=True), key=lambda pair: pair[0])]  # type: ignore[arg-type,return-value]
    return records


def _from_items(
    name: str, records: Sequence[Record], shared: Mapping[str, Any], source: Source, *, is_events: bool
) -> Iterator[Run | Problem]:
    builder = RunBuilder()
    for number, record in enumerate(records, 1):
        value = record.value
        if isinstance(value, dict) and is_message(value):
            add_message(builder, value, str(record.line or number))
        else:
            builder.message("harness", text_of(value), str(record.line or number))
    if is_events:
        yield source.problem(
            f"{len(records)} records without a task look like the events of one run, and are read as one; "
            "say how to read them with --map",
            kind="doubt",
        )
    objects = [record.value for record in records if isinstance(record.value, dict)]
    outcome = next(
        (found for value in reversed(objects) if (found := outcome_in(_no_steps(value))).source), outcome_in({})
    )
    yield builder.run(
        id=name,
        success=outcome.success,
        score=outcome.score,
        outcome_from=outcome.source,
        model=next((text_of(model) for value in objects if (model := _field(value, _MODELS))), "")
        or _field_text(shared, _MODELS),
    )


def _no_steps(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a row of a turn that may say how the run ended, which those of a message do not."""
    outcomes = ("outcome", "resolved", "solved", "reward", "rating", "passed", "verdict", "thumbs")
    return {name: value for name, value in message.items() if key_of(name) in outcomes}


def _from_record(value: Any, shared: Mapping[str, Any], record: Record, *, is_line: bool) -> Run:
    if not isinstance(value, dict):
        return _from_text(value) if isinstance(value, str) else _from_text(text_of(value))
    taken: set[str] = set()
    builder = RunBuilder()
    found = _message_list(value)
    if found is not None:
        taken.add(found[0])
        for number, item in enumerate(found[1], 1):
            if isinstance(item, dict) and is_message(item):
                add_message(builder, item, str(number))
            else:
                builder.message("harness", text_of(item), str(number))

    def take(names: Sequence[str]) -> Any:
        for key in names:
            for name, item in value.items():
                if key_of(name) == key and name not in taken and item not in (None, "", [], {}):
                    taken.add(name)
                    return item
        return None

    outcome = outcome_in(value)
    taken.add(outcome.source)
    truth = take(_TRUTHS)
    task, answer = take(_TASKS), take(_ANSWERS)
    if truth is None and answer is not None:
        truth = take(("solution", "output"))
    identity = take(_OWN_IDS)
    fields = {
        "id": text_of(identity) if isinstance(identity, str | int) else "",
        "task": _described(task, _TASKS),
        "answer": _described(answer, _ANSWERS),
        "truth": _described(truth, (*_TRUTHS, *_ANSWERS)) or None,
        "reason": text_of(take(_REASONS)),
        "context": _joined(take(_CONTEXTS)),
        "model": text_of(take(_MODELS)) or _field_text(shared, _MODELS),
        "started": time_of(take(_STARTS)),
        "ended": time_of(take(_ENDS)),
        "success": outcome.success,
        "score": outcome.score,
        "outcome_from": outcome.source,
        "tokens": _tokens(value),
    }
    rest = {name: item for name, item in value.items() if name not in taken and item not in (None, "", [], {})}
    return builder.run(**fields, rest=rest, place=str(record.line) if is_line else "")


def _message_list(value: Mapping[str, Any]) -> tuple[str, list[Any]] | None:
    """Return the list of messages in a record, with the name of its field; the longest of the usual names."""
    found = []
    for name, item in value.items():
        key = key_of(name)
        if key in _NEVER_LISTS:
            continue
        if isinstance(item, str) and key in _LISTS:
            item = _parsed(item) if item.startswith("[") else _dialogue(item)
        if is_message_list(item):
            rank = _LISTS.index(key) if key in _LISTS else len(_LISTS)
            found.append((-len(item), rank, name, item))
    if not found:
        return None
    _, _, name, item = min(found, key=lambda entry: entry[:2])
    return name, item


def _dialogue(text: str) -> list[dict[str, str]]:
    return [{"role": step["name"], "content": step["content"]} for step in steps_of_dialogue(text)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _pair(value: Mapping[str, Any]) -> tuple[Any, Any] | None:
    task, answer = _field(value, _TASKS), _field(value, _ANSWERS)
    return None if task is None or answer is None else (task, answer)


def _field(value: object, names: Sequence[str]) -> Any:
    """Return the first field of these names that is not empty."""
    if not isinstance(value, dict):
        return None
    by_key = {key_of(name): item for name, item in value.items()}
    return next((by_key[name] for name in names if by_key.get(name) not in (None, "", [], {})), None)


def _field_text(value: object, names: Sequence[str]) -> str:
    found = _field(value, names)
    return text_of(found) if isinstance(found, str | int) else ""


def _described(value: object, names: Sequence[str]) -> str:
    """Return the text that a field means: a text, the only text of an object, or the field of a usual name in it."""
    if isinstance(value, dict):
        inner = _field(value, names)
        if inner is not None and not isinstance(inner, dict):
            return _described(inner, names)
        texts = [item for item in value.values() if isinstance(item, str) and item]
        if len(texts) == 1:
            return texts[0]
    if isinstance(value, list) and len(value) == 1:
        return _described(value[0], names)
    return text_of(value)


def _joined(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n\n".join(value)
    return text_of(value)


def _tokens(value: Mapping[str, Any]) -> Tokens:
    usage = _field(value, ("usage", "tokenusage", "tokens"))
    found = usage if isinstance(usage, dict) else {}
    sent = number_of(_field({**value, **found}, ("inputtokens", "prompttokens")) or _field(found, ("input",)))
    written = number_of(_field({**value, **found}, ("outputtokens", "completiontokens")) or _field(found, ("output",)))
    return Tokens(input=None if sent is None else int(sent), output=None if written is None else int(written))


def _from_text(text: str) -> Run:
    """Return a text as one run: a dialogue by its speakers, and everything else as one message of the harness."""
    builder = RunBuilder()
    dialogue = steps_of_dialogue(text)
    for step in dialogue:
        add_message(builder, {"role": step["name"], "content": step["content"]}, step["place"])
    if not dialogue:
        builder.message("harness", text, "1")
    return builder.run()
