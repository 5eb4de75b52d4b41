"""Reads JSON, tables and text of unknown formats by the structure and the usual names of their fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ace.cases import steps_of_dialogue
from ace.logs.building import RunBuilder, key_of, text_of, time_of, without_repetitions
from ace.logs.dialogues import NEVER_LISTS, add_items, as_message, is_dialogue, message_list_in
from ace.logs.head import LogHead, Record
from ace.logs.messages import add_message, add_messages, event_role, is_message, is_message_list, response_messages
from ace.logs.outcomes import number_of, outcome_in, score_of
from ace.logs.run import Problem, Run
from ace.logs.source import HEAD_RECORDS, Source
from ace.logs.usual_fields import ANSWERS, TASKS, field_in, field_text, has_pair, run_fields

__all__ = ["UnknownReader"]

_ENVELOPES: Final = (
    *("data", "runs", "results", "records", "items", "rows", "samples", "simulations", "conversations", "sessions"),
    *("traces", "trajectories", "examples", "instances", "testcases", "logs", "entries"),
)
_IDS: Final = (
    *("sessionid", "conversationid", "threadid", "chatid", "dialogueid", "dialogid", "ticketid", "caseid", "traceid"),
    *("runid", "sampleid", "customid", "conversation", "session", "thread", "dialogue", "dialog", "chat", "convid"),
)
_TURN_IDS: Final = _IDS[:6]
"""Ids of dialogues, in which several records with a task and an answer are turns; those of other ids are trials."""
_ORDERS: Final = (
    *("turn", "turnnumber", "turnid", "turnindex", "turnidx", "messageindex", "messagenumber", "index", "position"),
    *("order", "seq", "seqno", "sequence", "step", "stepnumber", "stepid", "timestamp", "ts", "createdat", "sentat"),
    *("datetime", "time", "date"),
)
_SCORES: Final = ("reward", "score", "rating", "vote", "feedbackscore", "userscore", "userrating", "finalscore")
_OUTCOMES_OF_TURNS: Final = (
    *("outcome", "resolved", "solved", "reward", "rating", "passed", "verdict", "thumbs", "success", "score"),
)
_DEEPEST: Final = 10
_DEEPEST_TEXT: Final = 40
_FEWEST_SPACES: Final = 2
"""A text with fewer is a name, an id, a type or a number, of which formats are full and which tell nothing alone."""
_MOST_TYPES: Final = 30
_FEWEST_EVENTS: Final = 5


class UnknownReader:
    """Reads what no other reader claims. A file that is one list of messages or events is one run."""

    name = "unknown"
    title = "Other JSON, CSV and text"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "Tasks, answers and outcomes are found by the usual names of fields; a mapping names others."

    def recognises(self, head: LogHead) -> float:
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
        records = _unwrapped(source.records(), shared)
        first = _some(records)
        values = [record.value for record in first]
        kind = _kind(values)
        if kind == "records":
            scales = _scales(source, values)
            has_lines = source.shape in ("lines", "values", "table")
            every = _chain(first, records)
            runs = (_from_record(record, shared, scales, has_line=has_lines) for record in every)
            if len(first) == 1:
                runs = (_with_unread_texts(run, shared) for run in runs)
            yield from without_repetitions(runs)
            return
        for name, items in _groups([*first, *records]).items():
            yield from _from_items(name, items, shared, source, is_events=kind == "events")


def _some(records: Iterator[Record]) -> list[Record]:
    """Return as many records as a head has."""
    found: list[Record] = []
    for record in records:
        found.append(record)
        if len(found) == HEAD_RECORDS:
            break
    return found


def _chain(first: Iterable[Record], others: Iterator[Record]) -> Iterator[Record]:
    yield from first
    yield from others


def _unwrapped(records: Iterator[Record], shared: dict[str, Any]) -> Iterator[Record]:
    """Yield the records in the envelopes of a document; the fields beside them are shared by all."""
    for record in records:
        value = record.value
        for _ in range(_DEEPEST):
            inner = _only_object(value) or _inner(value)
            if inner is None:
                break
            name, found = inner
            # What is "" are columns or records by their ids, so nothing is beside them.
            shared.update({other: item for other, item in value.items() if name not in ("", other)})
            value = found
        if not isinstance(value, list):
            yield Record(value, record.line)
        elif is_message_list(value):
            yield Record({"messages": value}, record.line)
        else:
            yield from (Record({"messages": item} if is_message_list(item) else item, record.line) for item in value)


def _only_object(value: object) -> tuple[str, Any] | None:
    """Return the object in an object that holds nothing else, unless this is what a run was asked or answered."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, inner),) = value.items()
    return (name, inner) if isinstance(inner, dict) and key_of(name) not in (*TASKS, *ANSWERS) else None


def _inner(value: object) -> tuple[str, Any] | None:
    """Return the records in an envelope, or a table of columns as rows, with the name of its field."""
    if not isinstance(value, dict) or is_message(as_message(value)):
        return None
    rows = _rows_of_columns(value)
    if rows is not None:
        return "", rows
    if any(is_dialogue(key_of(name), found) for name, found in value.items()):
        return None
    if field_in(value, TASKS[:-4]) is not None:
        return None
    named = _records_by_id(value)
    if named is not None:
        return "", named
    lists = {name: found for name, found in value.items() if _is_envelope(name, found)}
    if not lists:
        return None
    usual = [name for name in lists if key_of(name) in _ENVELOPES]
    if not usual:
        return next(iter(lists.items())) if len(lists) == 1 else None
    name = min(usual, key=lambda name: _ENVELOPES.index(key_of(name)))
    return name, lists[name]


def _is_envelope(name: str, value: object) -> bool:
    """Whether a field holds records; one with an unusual name only if they are surely runs."""
    if key_of(name) in NEVER_LISTS:
        return False
    if isinstance(value, dict):
        return _inner(value) is not None
    if not isinstance(value, list) or not value:
        return False
    if key_of(name) in _ENVELOPES:
        return all(isinstance(item, dict) or is_message_list(item) for item in value)
    return all(_is_run(item) for item in value) or all(is_message_list(item) for item in value)


def _is_run(value: object) -> bool:
    return isinstance(value, dict) and not is_message(value) and (has_pair(value) or message_list_in(value) is not None)


def _records_by_id(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object that holds each of them by its id."""
    if len(value) < 2 or not all(_is_run(item) for item in value.values()):
        return None
    return [{**item, "id": item.get("id") or name} for name, item in value.items()]


def _rows_of_columns(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a table that is written by columns, as pandas and datasets write it."""
    columns = list(value.values())
    if len(columns) < 2:
        return None
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and data and all(_is_row(row, names) for row in data):
        return [dict(zip(map(text_of, names), row, strict=True)) for row in data]
    if all(isinstance(column, dict) and column for column in columns):
        keys = columns[0].keys()
        if all(column.keys() == keys for column in columns) and all(str(key).isdigit() for key in keys):
            return [{name: column[key] for name, column in value.items()} for key in keys]
    lists = [column for column in columns if isinstance(column, list) and column]
    if len(lists) < len(columns) or len({len(column) for column in lists}) > 1:
        return None
    cells_are_plain = not any(isinstance(item, dict | list) for column in lists for item in column)
    tasks = field_in(value, TASKS)
    if cells_are_plain or (isinstance(tasks, list) and all(isinstance(task, str) for task in tasks)):
        return [dict(zip(value, row, strict=True)) for row in zip(*lists, strict=True)]
    return None


def _is_row(row: object, names: Sequence[Any]) -> bool:
    return isinstance(row, list) and len(row) == len(names)


def _kind(values: Sequence[Any]) -> str:
    """Return whether values are `messages` of one or several runs, their `events`, or `records` that are runs."""
    objects = [value for value in values if isinstance(value, dict)]
    if not objects:
        return "records"
    plain = [value for value in objects if message_list_in(value) is None]
    if len(plain) * 2 < len(objects):
        return "records"
    roles = sum(is_message(as_message(value)) and not _is_pair_of_run(value) for value in objects)
    if roles * 2 > len(objects):
        return "messages"
    pairs = sum(has_pair(value) for value in objects)
    if len(objects) >= _FEWEST_EVENTS and pairs * 2 < len(objects) and _are_events(objects):
        return "events"
    return "messages" if pairs == len(objects) and _are_turns(objects) else "records"


def _is_pair_of_run(value: Mapping[str, Any]) -> bool:
    """Whether a record is a run although it has a role or a type, because it has a task and an answer in texts."""
    return has_pair(value) and not any(key_of(name) == "content" for name in value)


def _are_turns(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether records with a task and an answer are turns of dialogues: most of their ids repeat, and no outcome."""
    for key in _TURN_IDS:
        names = [field_text(value, (key,)) for value in objects]
        counts = Counter(name for name in names if name)
        repeats = sum(number > 1 for number in counts.values())
        if all(names) and repeats * 2 > len(counts):
            return not any(outcome_in(value).source or run_fields(value)["truth"] for value in objects)
    return False


def _are_events(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether records have a type from a small set, and come in an order that a field tells."""
    names = ("type", "event", "kind", "action", "observation", "name", "event_type", "eventType")
    typed = [
        next((text_of(value[name]) for name in names if isinstance(value.get(name), str)), "") for value in objects
    ]
    types = {name for name in typed if name}
    has_types = sum(map(bool, typed)) * 2 > len(objects) and len(types) < _MOST_TYPES
    has_types = has_types and (len(types) < len(objects) or sum(bool(event_role(value)) for value in objects) > 1)
    ordered = sum(any(key_of(name) in (*_ORDERS, "id") for name in value) for value in objects)
    return has_types and ordered * 2 > len(objects)


def _groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each run: by a field with the id of a dialogue, if there is one that repeats."""
    for key in _present(_IDS, records):
        named = [(field_text(record.value, (key,)), record) for record in records]
        counts = Counter(name for name, _ in named if name)
        repeats = sum(number > 1 for number in counts.values())
        if repeats * 2 > len(counts) and sum(counts.values()) * 2 > len(records):
            groups: dict[str, list[Record]] = {}
            for name, record in named:
                groups.setdefault(name, []).append(record)
            return {name: _in_order(items) for name, items in groups.items()}
    return {"": _in_order(list(records))}


def _present(keys: Sequence[str], records: Sequence[Record]) -> list[str]:
    """Return those of the keys that the first records have."""
    objects = [record.value for record in records[:HEAD_RECORDS] if isinstance(record.value, dict)]
    found = {key_of(name) for value in objects for name in value}
    return [key for key in keys if key in found]


def _in_order(records: list[Record]) -> list[Record]:
    """Return records by the first field that tells their order and differs in all of them; else as they are."""
    for key in _present(_ORDERS, records[:1]):
        places = [_place(field_in(record.value, (key,))) for record in records]
        if None not in places and len(set(places)) == len(records):
            return [record for _, record in sorted(zip(places, records, strict=True), key=lambda pair: pair[0] or 0.0)]
    return records


def _oldest_first(items: list[Any]) -> list[Any]:
    """Return messages that are stored with the newest first in their order."""
    records = [Record(item, number) for number, item in enumerate(items) if isinstance(item, dict)]
    return items[::-1] if len(records) == len(items) > 1 and _in_order(records) == records[::-1] else items


def _place(value: object) -> float | None:
    number = number_of(value)
    if number is not None:
        return number
    time = time_of(value)
    return None if time is None else time.timestamp()


def _from_items(
    name: str, records: Sequence[Record], shared: Mapping[str, Any], source: Source, *, is_events: bool
) -> Iterator[Run | Problem]:
    """Yield the run that messages, events or turns are, and say so if this is only likely."""
    builder = RunBuilder()
    objects = [record.value for record in records if isinstance(record.value, dict)]
    add_items(builder, ((str(record.line or number), record.value) for number, record in enumerate(records, 1)))
    if is_events:
        yield source.problem(
            f"{len(records)} records without a task look like the events of one run, and are read as one; "
            "say how to read them with --map",
            kind="doubt",
        )
    ends = (fields for value in reversed(objects) if (fields := _no_steps(value)))
    outcome = next((found for fields in ends if (found := outcome_in(fields)).source), outcome_in({}))
    run = builder.run(
        id=name,
        success=outcome.success,
        score=outcome.score,
        outcome_from=outcome.source,
        model=next((model for value in objects if (model := field_text(value, ("model", "modelname")))), "")
        or field_text(shared, ("model", "modelname")),
        **_times(objects),
    )
    yield _with_unread_texts(run, [shared, *(record.value for record in records)])


def _times(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("timestamp", "ts", "createdat", "time", "datetime", "date")
    found = [time for value in objects if (time := time_of(field_in(value, names))) is not None]
    return {"started": min(found), "ended": max(found)} if found else {}


def _no_steps(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a row of a turn that may say how the run ended, which those of a message do not."""
    return {name: value for name, value in message.items() if key_of(name) in _OUTCOMES_OF_TURNS}


def _from_record(
    record: Record, shared: Mapping[str, Any], scales: Mapping[str, Sequence[float]], *, has_line: bool
) -> Run:
    value = record.value
    if not isinstance(value, dict):
        return _from_text(text_of(value))
    builder = RunBuilder()
    found = message_list_in(value)
    fields = run_fields(value, shared, skip=[found[0]] if found else (), scales=scales)
    if found is not None:
        add_items(builder, ((str(number), item) for number, item in enumerate(_oldest_first(found[1]), 1)))
        _add_last_turn(builder, found[0], value, fields)
    run = builder.run(**fields, place=str(record.line) if has_line else "")
    return _with_unread_texts(run, value)


def _add_last_turn(builder: RunBuilder, name: str, value: Mapping[str, Any], fields: dict[str, Any]) -> None:
    """Add what a record has beside the messages that a model got: the last question, and what the model answered."""
    said = {step.content for step in builder.steps}
    if "history" in key_of(name) and fields["task"] and fields["task"] not in said:
        builder.message("person", fields.pop("task"))
        builder.message("agent", fields["answer"])
    elif fields["answer"] not in said and (messages := response_messages(field_in(value, ANSWERS))):
        add_messages(builder, messages)


def _scales(source: Source, first: Sequence[Any]) -> dict[str, list[float]]:
    """Return the different numbers that the records have in fields with scores, if one of them may be a 1 of more.

    This goes through the source once more, but only if the meaning of a 1 depends on it.
    """
    objects = [value for value in first if isinstance(value, dict)]
    ones = {name for value in objects for name, item in value.items() if key_of(name) in _SCORES and score_of(item)}
    if not ones:
        return {}
    found: dict[str, Counter[float]] = {name: Counter() for name in ones}
    known = len(source.problems)
    for record in _unwrapped(source.records(), {}):
        for name in ones & record.value.keys() if isinstance(record.value, dict) else ():
            score = score_of(record.value[name])
            if score is not None:
                found[name][score] += 1
    del source.problems[known:]  # the other pass notes them too
    return {name: [score for score in counts for _ in range(min(counts[score], 3))] for name, counts in found.items()}


def _from_text(text: str) -> Run:
    """Return a text as one run: a dialogue by its speakers, and everything else as one message of the harness."""
    builder = RunBuilder()
    dialogue = steps_of_dialogue(text)
    for step in dialogue:
        add_message(builder, {"role": step["name"], "content": step["content"]}, step["place"])
    if not dialogue:
        builder.message("harness", text, "1")
    return builder.run()


def _with_unread_texts(run: Run, record: Any) -> Run:
    """Return the run with the texts of its record that it does not have in `rest`, by their path without numbers."""
    texts = {run.task, run.answer, run.context, run.reason, run.truth or ""}
    texts.update(step.content for step in run.steps)
    together = ""
    unread: dict[str, list[str]] = {}
    for path, text in _texts_in(record, "", 0):
        stripped = text.strip()
        if stripped.count(" ") < _FEWEST_SPACES or stripped in texts or path.partition(".")[0] in run.rest:
            continue
        # Built only where it is needed: most texts are a step as a whole.
        together = together or "\n".join(texts)
        if stripped not in together and json.dumps(stripped, ensure_ascii=False)[1:-1] not in together:
            unread.setdefault(path, []).append(text)
    return replace(run, rest={**run.rest, **unread}) if unread else run


def _texts_in(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict) and depth < _DEEPEST_TEXT:
        for name, item in value.items():
            yield from _texts_in(item, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST_TEXT:
        for item in value:
            yield from _texts_in(item, path, depth + 1)
