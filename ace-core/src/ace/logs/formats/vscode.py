"""Reads the chats of VS Code: one JSON object, or a log of the operations that change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, text_of
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.sqlite import json_in

__all__ = ["READERS", "VSCodeReader"]

_STATE, _SET, _PUSH, _DELETE = 0, 1, 2, 3


class VSCodeReader:
    """Reads chat sessions of VS Code."""

    name = "vscode"
    title = "VS Code chats"
    places = tuple(
        f"{base}/User/{folder}/{name}"
        for base in ("~/.config/Code", "~/Library/Application Support/Code", "$APPDATA/Code")
        for folder in ("workspaceStorage/*/chatSessions", "globalStorage/emptyWindowChatSessions")
        for name in ("*.json", "*.jsonl")
    )
    side_files: tuple[str, ...] = ()
    note = "Chats without requests are skipped. The details of tool calls were not checked against a real file."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of a session, or of the first operation."""
        first = head.objects[0] if head.objects else {}
        if first.get("kind") == _STATE and isinstance(first.get("v"), dict):
            return 0.95 if _is_session(first["v"]) else 0.0
        return 0.95 if _is_session(first) or {"requests", "sessionId"} <= head.keys else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the chat."""
        state: Any = {}
        for record in source.records():
            value = fields_of(record.value)
            if "requests" in value:
                state = value
                continue
            try:
                state = _changed(state, value)
            except (LookupError, TypeError, ValueError) as error:
                yield source.problem(f"an operation that does not fit what is there: {error}", record.line)
        run = _chat(fields_of(state))
        if run.steps:
            yield run


def _is_session(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("requests"), list) and bool(value.keys() & {"sessionId", "requesterUsername"})


def _changed(state: Any, operation: Mapping[str, Any]) -> Any:
    """Return the state after an operation, which changes it in place."""
    kind, value = operation.get("kind"), operation.get("v")
    if kind == _STATE:
        return value
    *above, last = operation["k"]
    target = state
    for key in above:
        target = target[key]
    if kind == _SET:
        if isinstance(target, list) and last == len(target):
            target.append(value)
        else:
            target[last] = value
    elif kind == _PUSH:
        items = target.setdefault(last, []) if isinstance(target, dict) else target[last]
        del items[operation.get("i", len(items)) :]
        items += value or []
    elif kind == _DELETE:
        del target[last]
    return state


def _chat(state: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    builder.note(id=state.get("sessionId"))
    builder.at(state.get("creationDate"))
    outcome: dict[str, Any] = {}
    is_interrupted = False
    for number, request in enumerate(objects_of(state.get("requests")), 1):
        result = fields_of(request.get("result"))
        builder.at(request.get("timestamp"))
        builder.note(model=request.get("modelId"))
        builder.message(*spoken_by_user(_text(request.get("message"))), f"{number}")
        _add_response(builder, request, fields_of(result.get("metadata")), str(number))
        error = fields_of(result.get("errorDetails")).get("message")
        builder.message("harness", text_of(error), f"{number}")
        is_interrupted = request.get("isCanceled") is True or bool(error)
        if request.get("vote") in (0, 1):
            outcome = {"success": request["vote"] == 1, "outcome_from": "vote"}
            outcome["reason"] = text_of(request.get("voteDownReason"))
    return builder.run(**outcome, is_interrupted=is_interrupted)


def _text(value: object) -> str:
    """Return a text, which may be in the fields `text` or `value` of an object."""
    if isinstance(value, list):
        return "".join(map(_text, value))
    found = fields_of(value)
    return text_of(found.get("text", found.get("value", ""))) if found else text_of(value)


def _add_response(builder: RunBuilder, request: Mapping[str, Any], metadata: Mapping[str, Any], place: str) -> None:
    """Add the parts of a response. Texts between two calls are one message, although they are written in pieces."""
    calls = _arguments(metadata)
    results = fields_of(metadata.get("toolCallResults"))
    texts: list[str] = []
    for part in objects_of(request.get("response")):
        kind = part.get("kind")
        if kind in (None, "markdownContent"):
            texts.append(_text(part.get("content", part.get("value"))))
        elif kind == "thinking":
            builder.thought(_text(part.get("value")), place)
        elif kind == "toolInvocationSerialized":
            builder.message("agent", "".join(texts), place)
            texts = []
            _add_call(builder, part, calls, results, place)
    builder.message("agent", "".join(texts), place)


def _arguments(metadata: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the arguments of the calls by their ids."""
    rounds = objects_of(metadata.get("toolCallRounds"))
    calls = [call for found in rounds for call in objects_of(found.get("toolCalls"))]
    return {text_of(call.get("id")): json_in(call.get("arguments")) or call.get("arguments") for call in calls}


def _add_call(
    builder: RunBuilder,
    part: Mapping[str, Any],
    calls: Mapping[str, object],
    results: Mapping[str, Any],
    place: str,
) -> None:
    identity = text_of(part.get("toolCallId"))
    data, details = fields_of(part.get("toolSpecificData")), fields_of(part.get("resultDetails"))
    shown = json_in(details.get("input")) or details.get("input") or data or _text(part.get("invocationMessage"))
    builder.call(text_of(part.get("toolId")), calls.get(identity) or shown, identity, place)
    if part.get("isComplete") is False:
        return
    code = fields_of(data.get("terminalCommandState")).get("exitCode")
    failed = details.get("isError") is True or code not in (None, 0) or part.get("isConfirmed") is False
    output = _text(fields_of(results.get(identity)).get("content") or details.get("output"))
    output = output or _text(data.get("terminalCommandOutput")) or _text(part.get("pastTenseMessage"))
    builder.result(output, identity, place, is_error=failed)


READERS: Final = (VSCodeReader(),)
