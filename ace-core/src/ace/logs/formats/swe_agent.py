"""Trajectories of SWE-agent and mini-SWE-agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import add_message, response_text
from ace.logs.outcomes import is_failed_output, number_of
from ace.logs.run import Problem, Run, Tokens
from ace.logs.source import Source

__all__ = ["READERS", "MiniSWEAgentReader", "SWEAgentReader"]

_SUBMITTED: Final = "submitted"
_TOOL: Final = "bash"
_FENCE: Final = re.compile(r"```(?:bash|sh|mswea_bash_command)?[ \t]*\n(?P<command>.*?)\n?```", re.DOTALL)
_RETURN_CODE: Final = re.compile(r"\s*<returncode>(-?\d+)</returncode>")
_TIMED_OUT: Final = re.compile(r"(?:<error>\s*)?The (?:last )?command .{0,2000}timed out", re.DOTALL)


class SWEAgentReader:
    """Reads trajectories of SWE-agent. Whether the issue was resolved is recorded elsewhere."""

    name = "swe-agent"
    title = "SWE-agent trajectories"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ("*.config.yaml", "*.info.log", "*.debug.log", "*.trace.log")
    note = "The trajectory does not say whether the issue is resolved."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for a trajectory beside its history."""
        return 0.95 if {"trajectory", "history", "info"} <= head.keys else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run of a trajectory."""
        for record in source.records():
            if isinstance(record.value, dict):
                yield _trajectory_run(record.value, source.path.stem)


def _trajectory_run(value: Mapping[str, Any], name: str) -> Run:
    builder = RunBuilder()
    task = _first_task(value)
    builder.message("person", task, "1")
    for number, step in enumerate(value.get("trajectory") or (), 1):
        _add_step(builder, fields_of(step), str(number))
    info = fields_of(value.get("info"))
    return builder.run(task=task, answer=text_of(info.get("submission")), id=name, **_info_fields(info))


def _first_task(value: Mapping[str, Any]) -> str:
    """Return the first message of a user that is not an example for the model."""
    steps = value.get("trajectory") or [{}]
    for message in (*(value.get("history") or ()), *(fields_of(steps[0]).get("query") or ())):
        is_demo = message.get("is_demo") or message.get("message_type") == "demonstration"
        if message.get("role") == "user" and not is_demo:
            return response_text(message) or ""
    return ""


def _add_step(builder: RunBuilder, step: Mapping[str, Any], place: str) -> None:
    action = text_of(step.get("action")).strip()
    observation = text_of(step.get("observation"))
    builder.thought(text_of(step.get("thought") or ("" if action else step.get("response"))), place)
    if action:
        builder.call(_TOOL, action, place=place)
        builder.result(observation, place=place, is_error=is_failed_output(observation))
    else:
        builder.message("harness", observation, place)


def _info_fields(info: Mapping[str, Any]) -> dict[str, Any]:
    status = text_of(info.get("exit_status"))
    stats = fields_of(info.get("model_stats"))
    config = fields_of(fields_of(info.get("config")).get("model"))
    return {
        "is_interrupted": bool(status) and not status.lower().startswith(_SUBMITTED),
        "reason": f"exit status: {status}" if status and status.lower() != _SUBMITTED else "",
        "cost": number_of(stats.get("instance_cost")),
        "model": text_of(config.get("model_name")),
        "tokens": Tokens(input=stats.get("tokens_sent"), output=stats.get("tokens_received")),
    }


class MiniSWEAgentReader:
    """Reads trajectories of mini-SWE-agent, also those that are only a list of messages."""

    name = "mini-swe-agent"
    title = "mini-SWE-agent trajectories"
    places: Sequence[str] = ("~/.config/mini-swe-agent/*.traj.json",)
    side_files: Sequence[str] = ()
    note = "The trajectory does not say whether the issue is resolved."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for the name of the format, or for messages with codes that commands returned."""
        formats = [text_of(value.get("trajectory_format")) for value in head.objects]
        if any(name.startswith("mini-swe-agent") for name in formats):
            return 1.0
        if {"info", "messages", "trajectory_format"} <= head.keys:
            return 0.9
        if not any(mark in head.text for mark in ("<returncode>", "COMPLETE_TASK_AND_SUBMIT")):
            return 0.0
        return 0.8 if has_item_list(head, _is_message) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run of each list of messages."""
        for found in item_lists(source.records(), _is_message):
            yield _mini_run(found.items, fields_of(found.outer.get("info")), source.path.name.partition(".traj")[0])


def _is_message(value: Mapping[str, Any]) -> bool:
    return value.get("role") in ("system", "user", "assistant", "tool", "exit") and "content" in value


def _mini_run(messages: Sequence[Any], info: Mapping[str, Any], name: str) -> Run:
    builder = RunBuilder()
    for number, message in enumerate(messages, 1):
        _add_message(builder, message, str(number))
    last = fields_of(fields_of(messages[-1]).get("extra")) if messages else {}
    info = {**{key: last[key] for key in ("exit_status", "submission") if last.get(key)}, **info}
    return builder.run(id=name, answer=text_of(info.get("submission")), **_info_fields(info))


def _add_message(builder: RunBuilder, message: Mapping[str, Any], place: str) -> None:
    role, text = message.get("role"), response_text(message) or text_of(message.get("content"))
    extra = fields_of(message.get("extra"))
    if role == "assistant":
        _add_action(builder, message, text, extra, place)
    elif builder.has_open_calls and role != "system":
        code = extra.get("returncode")
        found = _RETURN_CODE.match(text)
        code = int(found[1]) if code is None and found else code
        is_error = code not in (0, None) or bool(_TIMED_OUT.match(text)) or (code is None and is_failed_output(text))
        builder.result(text, text_of(message.get("tool_call_id")), place, is_error=is_error)
    elif role == "user" and not builder.has_step("message", "person"):
        add_message(builder, message, place)
    elif role != "exit":
        builder.message("harness", text, place)


def _add_action(
    builder: RunBuilder, message: Mapping[str, Any], text: str, extra: Mapping[str, Any], place: str
) -> None:
    """Add what the model thought, and the commands that it gave: as data, as calls of a tool, or in a fence."""
    found = _FENCE.search(text)
    thought = text[: found.start()] if found else text
    commands = [fields_of(action) for action in extra.get("actions") or ()]
    if not commands and message.get("tool_calls"):
        builder.thought(text.removeprefix("THOUGHT:"), place)
        add_message(builder, {"role": "assistant", "tool_calls": message["tool_calls"]}, place)
        return
    if not commands and found:
        commands = [{"command": found["command"]}]
    if not commands:
        builder.message("agent", text, place)
        return
    builder.thought(thought.strip().removeprefix("THOUGHT:"), place)
    for command in commands:
        builder.call(_TOOL, text_of(command.get("command")), text_of(command.get("tool_call_id")), place)


READERS: Final = (SWEAgentReader(), MiniSWEAgentReader())
