"""Results of tau-bench and tau2-bench, in which a model plays the customer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of, time_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message, response_text
from ace.logs.outcomes import number_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user

__all__ = ["READERS", "Tau2Reader", "TauBenchReader"]

_TOLERANCE: Final = 1e-6
_CUSTOMER: Final = "customer"
_NOT_THE_AGENT: Final = frozenset({"infrastructure_error", "unexpected_error", "user_error"})
_CUT_OFF: Final = frozenset({"max_steps", "timeout", *_NOT_THE_AGENT})


class TauBenchReader:
    """Reads results of tau-bench, each of which is a run."""

    name = "tau-bench"
    title = "tau-bench results"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "The customer is a model, and counts as the harness."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for trajectories with a reward."""
        objects = head.objects
        fitting = sum({"task_id", "reward", "info", "traj"} <= value.keys() for value in objects)
        return 0.95 if objects and fitting == len(objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each result; one without messages is a crash of the harness."""
        for record in source.records():
            value = fields_of(record.value)
            if value.get("traj"):
                yield _result(value)
            elif value:
                error = text_of(fields_of(value.get("info")).get("error")) or "no reason is given"
                yield source.problem(
                    f"task {value.get('task_id')} has no messages, and is skipped: {error}", record.line
                )


def _result(value: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    task = _add_dialogue(builder, value["traj"])
    info = fields_of(value.get("info"))
    asked = fields_of(info.get("task"))
    reward = number_of(value.get("reward"))
    outputs = [text_of(output) for output in asked.get("outputs") or ()]
    return builder.run(
        id=f"{text_of(value.get('task_id'))}/{text_of(value.get('trial') or 0)}",
        task=task,
        success=None if info.get("error") else _is_success(reward),
        score=reward,
        outcome_from="reward",
        reason=text_of(info.get("error")),
        truth="\n".join(outputs) or None,
        rest={"expected_actions": asked["actions"]} if asked.get("actions") else {},
    )


def _is_success(reward: float | None) -> bool | None:
    return None if reward is None else abs(reward - 1) <= _TOLERANCE


def _add_dialogue(builder: RunBuilder, messages: Sequence[Any]) -> str:
    """Add the messages of a dialogue, and return what the customer wants first."""
    task = ""
    for number, message in enumerate(_flat(messages), 1):
        is_customers = message.get("requestor") == "user" or (
            message.get("role") == "user" and message.get("tool_calls")
        )
        if message.get("role") == "user" and not message.get("tool_calls"):
            _, text = spoken_by_user(response_text(message) or text_of(message.get("content")))
            task = task or text
            builder.message("harness", text, str(number), name=_CUSTOMER)
        elif is_customers:
            shown = message.get("tool_calls") or message.get("content")
            builder.message("harness", f"[tool of the customer] {text_of(shown)}", str(number), name=_CUSTOMER)
        else:
            add_message(builder, message, str(number))
    return task


def _flat(messages: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(message, dict):
            inner = message.get("tool_messages")
            yield from _flat(inner) if isinstance(inner, list) else [message]


class Tau2Reader:
    """Reads simulations of tau2-bench, in one file or in a folder with a file for each."""

    name = "tau2-bench"
    title = "tau2-bench simulations"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "The customer is a model, and counts as the harness, with its own tools."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for simulations beside their tasks."""
        if head.shape == "folder":
            return 0.9 if {"results.json", "simulations"} <= set(head.names) else 0.0
        if {"tasks", "simulations"} <= head.keys:
            return 0.95
        single = all({"task_id", "messages", "termination_reason"} <= value.keys() for value in head.objects)
        return 0.9 if head.objects and single else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each simulation."""
        if source.shape == "folder":
            yield from _folder_runs(source)
            return
        for record in source.records():
            value = fields_of(record.value)
            tasks = _tasks(value)
            for simulation in value.get("simulations") or ([value] if "messages" in value else ()):
                yield _simulation(simulation, tasks, value)


def _folder_runs(source: Source) -> Iterator[Run | Problem]:
    files = [source.path / "results.json", *sorted((source.path / "simulations").glob("*.json"))]
    results: Mapping[str, Any] = {}
    for path in files:
        try:
            value = fields_of(json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            yield Problem(str(path), None, f"it cannot be read: {error}")
            continue
        results = results or value
        for simulation in value.get("simulations") or ([value] if "messages" in value else ()):
            if isinstance(simulation, dict) and "messages" in simulation:
                yield _simulation(simulation, _tasks(results), results)


def _tasks(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {text_of(task.get("id")): task for task in results.get("tasks") or () if isinstance(task, dict)}


def _simulation(
    simulation: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any]
) -> Run:
    builder = RunBuilder()
    task = _add_dialogue(builder, simulation.get("messages") or ())
    reward_info = fields_of(simulation.get("reward_info"))
    reward = number_of(reward_info.get("reward"))
    ended = text_of(simulation.get("termination_reason"))
    criteria = fields_of(tasks.get(text_of(simulation.get("task_id")), {}).get("evaluation_criteria"))
    expected = [*(criteria.get("communicate_info") or ()), *(criteria.get("nl_assertions") or ())]
    return builder.run(
        id=text_of(simulation.get("id")) or text_of(simulation.get("task_id")),
        task=task,
        success=None if ended in _NOT_THE_AGENT else _is_success(reward),
        score=reward,
        outcome_from="" if reward is None else "reward_info.reward",
        reason="\n".join([*_unmet(reward_info), *([f"It ended with {ended}."] if ended in _CUT_OFF else [])]),
        truth="\n".join(map(text_of, expected)) or None,
        is_interrupted=ended in _CUT_OFF,
        model=text_of(fields_of(fields_of(results.get("info")).get("agent_info")).get("llm")),
        cost=number_of(simulation.get("agent_cost")),
        started=time_of(simulation.get("start_time")),
        ended=time_of(simulation.get("end_time")),
        rest={"expected_actions": criteria["actions"]} if criteria.get("actions") else {},
    )


def _unmet(reward_info: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the checks of a simulation say about the expectations that were not met."""
    for name in ("nl_assertions", "communicate_checks"):
        for check in reward_info.get(name) or ():
            if isinstance(check, dict) and check.get("met") is False:
                asked = text_of(check.get("nl_assertion") or check.get("info"))
                yield text_of(check.get("justification")) or f"Not met: {asked}"
    for check in reward_info.get("action_checks") or ():
        if isinstance(check, dict) and check.get("action_match") is False:
            yield f"This action is missing: {text_of(check.get('action'))}"
    if fields_of(reward_info.get("db_check")).get("db_match") is False:
        yield "The database differs from the expected one."


READERS: Final = (TauBenchReader(), Tau2Reader())
