"""Sessions of OpenHands: events in a file or a folder, outputs of benchmarks, and events of its newer SDK."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import response_text
from ace.logs.outcomes import is_infrastructure, number_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user

__all__ = ["READERS", "OpenHandsReader"]

_FILE: Final = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")
_BESIDE_EVENTS: Final = frozenset({"metadata.json", "base_state.json", "agent_state.pkl", "conversation_stats.pkl"})
_SKIPPED: Final = frozenset(
    (
        *("system", "recall", "change_agent_state", "agent_state_changed", "null", "condensation"),
        *("condensation_request", "task_tracking", "loop_detection_stop"),
    )
)
_NOISE: Final = frozenset(
    (
        *("thought", "confirmation_state", "security_risk", "is_input", "blocking", "hidden", "keep_prompt"),
        *("image_urls", "file_urls", "wait_for_response", "is_confirmed", "kind"),
    )
)
"""Arguments that are settings of the program, not of the tool."""
_STOPPED: Final = frozenset({"error", "stopped", "paused", "rate_limited", "rejected"})
_KINDS: Final = frozenset(
    (
        *("MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent", "UserRejectObservation"),
        *("SystemPromptEvent", "ConversationStateUpdateEvent", "Condensation", "PauseEvent", "ConversationErrorEvent"),
    )
)


class OpenHandsReader:
    """Reads sessions of OpenHands. A folder of events is one run, as is a line of the output of a benchmark."""

    name = "openhands"
    title = "OpenHands sessions and benchmark outputs"
    places: Sequence[str] = ("~/.openhands/sessions/*", "~/.openhands/conversations/*")
    side_files: Sequence[str] = ("metadata.json", "base_state.json", "*.pkl", "event_cache/*")
    note = "The kinds of events of the SDK (V1) are not all checked against real files."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for events with an action or an observation, or for a folder of them."""
        if head.shape == "folder":
            return 0.9 if _is_folder(head) else 0.0
        if has_item_list(head, _is_event):
            return 0.95
        return 0.9 if {"instance_id", "history", "test_result"} <= head.keys else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each session."""
        if source.shape == "folder":
            yield from _folder_run(source)
            return
        for found in item_lists(_flat(source), _is_event):
            yield _run(found.items, found.outer)


def _is_event(value: Mapping[str, Any]) -> bool:
    if value.get("kind") in _KINDS:
        return "source" in value or "action_id" in value or "tool_call_id" in value
    has_source = value.get("source") in ("user", "agent", "environment")
    return has_source and (isinstance(value.get("action"), str) or isinstance(value.get("observation"), str))


def _is_folder(head: LogHead) -> bool:
    if "events" in head.names and _BESIDE_EVENTS & set(head.names):
        return True
    files = [name for name in head.names if _FILE.fullmatch(name)]
    if head.path.name != "events" or not files or len(files) * 2 < len(head.names):
        return False
    try:
        return _is_event(fields_of(json.loads((head.path / files[0]).read_bytes())))
    except (OSError, ValueError):
        return False


def _folder_run(source: Source) -> Iterator[Run | Problem]:
    folder = source.path / "events" if (source.path / "events").is_dir() else source.path
    files = [(int(found[1]), path) for path in folder.iterdir() if (found := _FILE.fullmatch(path.name))]
    events = []
    for _, path in sorted(files):
        try:
            events.append(json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            yield Problem(str(path), None, f"the event cannot be read: {error}")
    conversation = source.path.parent if folder == source.path else source.path
    yield _run([event for event in events if isinstance(event, dict)], {"instance_id": conversation.name})


def _flat(source: Source) -> Iterator[Any]:
    """Yield the records with histories that are pairs of an action and an observation as lists of events."""
    for record in source.records():
        value = record.value
        history = value.get("history") if isinstance(value, dict) else None
        if isinstance(history, list) and history and all(isinstance(pair, list) for pair in history):
            record = record._replace(value={**value, "history": [event for pair in history for event in pair if event]})
        yield record


def _run(events: Sequence[Mapping[str, Any]], outer: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    session = _Session(builder)
    for number, event in enumerate(events, 1):
        if isinstance(event, dict):
            session.add(event, text_of(event.get("id") if isinstance(event.get("id"), int) else number))
    result = fields_of(outer.get("test_result"))
    report = fields_of(outer.get("report") or result.get("report"))
    is_unknown = any(report.get(name) or result.get(name) for name in ("error_eval", "test_timeout"))
    resolved = None if is_unknown else report.get("resolved", result.get("resolved"))
    answer = session.answer or (builder.run().answer if builder.has_step("message", "agent") else "")
    error = text_of(outer.get("error"))
    metrics = fields_of(outer.get("metrics")) or session.metrics
    usage = fields_of(metrics.get("accumulated_token_usage"))
    builder.spend(usage.get("prompt_tokens"), usage.get("completion_tokens"))
    return builder.run(
        id=text_of(outer.get("instance_id")),
        task=session.task or text_of(outer.get("instruction")),
        answer=answer or text_of(result.get("git_patch") or outer.get("git_patch")),
        success=resolved if isinstance(resolved, bool) else None,
        outcome_from="report.resolved" if isinstance(resolved, bool) else "",
        reason=f"error: {error}" if error and not is_infrastructure(error) else error,
        is_interrupted=not session.answer and session.state in _STOPPED,
        cost=number_of(metrics.get("accumulated_cost")),
    )


class _Session:
    """Adds the events of a session to a builder, those of both generations."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self.task = ""
        self.answer = ""
        self.state = ""
        self.metrics: Mapping[str, Any] = {}

    def add(self, event: Mapping[str, Any], place: str) -> None:
        self._builder.at(event.get("timestamp"))
        self.metrics = fields_of(event.get("llm_metrics")) or self.metrics
        if event.get("kind") in _KINDS:
            self._add_of_sdk(event, place)
        elif isinstance(event.get("action"), str):
            self._add_action(event["action"], event, fields_of(event.get("args")), place)
        elif isinstance(event.get("observation"), str):
            self._add_observation(event["observation"], event, place)

    def _say(self, event: Mapping[str, Any], text: str, place: str) -> None:
        if event.get("source") == "agent":
            self._builder.message("agent", text, place)
        elif event.get("source") == "user":
            speaker, said = spoken_by_user(text)
            self.task = self.task or said
            self._builder.message(speaker, said, place)
        else:
            self._builder.message("harness", text, place)

    def _add_action(self, action: str, event: Mapping[str, Any], args: Mapping[str, Any], place: str) -> None:
        if action in _SKIPPED:
            return
        if action == "message":
            self._say(event, text_of(args.get("content") or event.get("message")), place)
        elif action in ("finish", "reject"):
            outputs = args.get("outputs")
            self._finish(text_of(args.get("final_thought") or outputs or args.get("thought")), place)
        elif action == "think":
            self._builder.thought(text_of(args.get("thought")), place)
        else:
            self._builder.thought(text_of(args.get("thought")), place)
            shown = {name: value for name, value in args.items() if name not in _NOISE and value not in (None, "")}
            name = text_of(args.get("name")) if action in ("mcp", "call_tool_mcp") and args.get("name") else action
            self._builder.call(name, shown, text_of(event.get("id")), place)

    def _finish(self, text: str, place: str) -> None:
        self.answer = text
        self._builder.message("agent", text, place)

    def _add_observation(self, kind: str, event: Mapping[str, Any], place: str) -> None:
        extras = fields_of(event.get("extras"))
        self.state = text_of(extras.get("agent_state")) if kind == "agent_state_changed" else self.state
        if kind in _SKIPPED or kind == "think":
            return
        text = text_of(event.get("content"))
        code = number_of(fields_of(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
        is_error = kind in ("error", "user_rejected") or (code is not None and code > 0)
        is_error = is_error or event.get("success") is False
        if self._builder.has_open_calls:
            self._builder.result(text, text_of(event.get("cause")), place, is_error=is_error)
        else:
            self._builder.message("harness", text, place)

    def _add_of_sdk(self, event: Mapping[str, Any], place: str) -> None:
        kind = event["kind"]
        identity = text_of(event.get("tool_call_id"))
        if kind == "MessageEvent":
            self._say(event, _said(event.get("llm_message")), place)
        elif kind == "ActionEvent":
            self._add_sdk_action(event, identity, place)
        elif kind == "ObservationEvent" and self._builder.has_open_calls:
            observation = fields_of(event.get("observation"))
            code = number_of(observation.get("exit_code", fields_of(observation.get("metadata")).get("exit_code")))
            is_error = observation.get("is_error") is True or (code is not None and code > 0)
            output = _texts(observation.get("content") or observation.get("output"))
            self._builder.result(output, identity, place, is_error=is_error or bool(observation.get("error")))
        elif kind in ("AgentErrorEvent", "UserRejectObservation"):
            text = text_of(event.get("error") or event.get("rejection_reason"))
            self._builder.result(text, identity, place, name=text_of(event.get("tool_name")), is_error=True)
        elif kind in ("PauseEvent", "ConversationErrorEvent"):
            self.state = "paused"

    def _add_sdk_action(self, event: Mapping[str, Any], identity: str, place: str) -> None:
        action = fields_of(event.get("action"))
        self._builder.thought(text_of(event.get("reasoning_content")), place)
        self._builder.thought(_texts(event.get("thought")), place)
        kind = text_of(action.get("kind"))
        if kind == "FinishAction" or event.get("tool_name") == "finish":
            self._finish(text_of(action.get("message")), place)
        elif kind == "ThinkAction":
            self._builder.thought(text_of(action.get("thought")), place)
        else:
            shown = {name: value for name, value in action.items() if name not in _NOISE and value is not None}
            call = fields_of(event.get("tool_call"))
            name = text_of(event.get("tool_name") or call.get("name") or kind.removesuffix("Action"))
            self._builder.call(name, shown or call.get("arguments"), identity, place)


def _said(message: object) -> str:
    return response_text(message) or _texts(fields_of(message).get("content"))


def _texts(content: object) -> str:
    parts: Iterable[Any] = content if isinstance(content, list) else [content]
    return "\n".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in parts)


READERS: Final = (OpenHandsReader(),)
