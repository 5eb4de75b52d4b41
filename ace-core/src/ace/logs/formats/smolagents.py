"""Steps of the agents of smolagents, as their memory returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.usual_fields import run_fields, tokens_in

__all__ = ["READERS", "SmolagentsReader"]

_OF_ACTION: Final = frozenset({"model_output", "observations", "action_output", "code_action", "is_final_answer"})


class SmolagentsReader:
    """Reads the steps of an agent: a list of them is one run."""

    name = "smolagents"
    title = "smolagents steps"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for steps with a number and what smolagents stores of them."""
        is_certain = any(_is_action(value) for value in _objects(head))
        return 0.95 if is_certain and has_item_list(head, _is_step) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each list of steps."""
        for found in item_lists(source.records(), _is_step):
            yield _run(found.items, run_fields(found.outer, skip=[found.key]))


def _objects(head: LogHead) -> Iterator[Mapping[str, Any]]:
    for value in head.records:
        inner = value if isinstance(value, list) else fields_of(value).values()
        yield from (item for item in (value, *inner) if isinstance(item, dict))
        yield from (item for items in inner if isinstance(items, list) for item in items if isinstance(item, dict))


def _is_action(value: Mapping[str, Any]) -> bool:
    return "step_number" in value and bool(value.keys() & _OF_ACTION)


def _is_step(value: Mapping[str, Any]) -> bool:
    is_task = "task" in value and value.keys() <= {"task", "task_images"}
    return is_task or _is_action(value) or "plan" in value or value.keys() == {"system_prompt"}


def _run(steps: Sequence[Any], fields: dict[str, Any]) -> Run:
    builder = RunBuilder()
    answer: object = None
    is_interrupted = False
    for number, step in enumerate(steps, 1):
        _add(builder, step, str(number))
        used, timing = tokens_in(step), fields_of(step.get("timing"))
        builder.spend(used.input, used.output)
        builder.at(timing.get("start_time"))
        builder.at(timing.get("end_time"))
        if step.get("is_final_answer"):
            answer = step.get("action_output")
        elif step.keys() == {"output"}:
            answer = step["output"]
        is_interrupted |= fields_of(step.get("error")).get("type") == "AgentMaxStepsError"
    fields["answer"] = fields["answer"] or text_of(answer)
    return builder.run(**fields, is_interrupted=is_interrupted)


def _add(builder: RunBuilder, step: Mapping[str, Any], place: str) -> None:
    if "task" in step:
        builder.message("person", text_of(step["task"]), place)
        return
    if "system_prompt" in step or "plan" in step:
        builder.message("harness", text_of(step.get("system_prompt")), place)
        builder.thought(text_of(step.get("plan")), place)
        return
    calls = [call for call in step.get("tool_calls") or () if isinstance(call, dict)]
    builder.thought(text_of(step.get("model_output")), place)
    _add_calls(builder, step, calls, place)
    if step.get("is_final_answer"):
        builder.message("agent", text_of(step.get("action_output")), place)


def _add_calls(builder: RunBuilder, step: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], place: str) -> None:
    """Add the calls of a step and what they returned, which smolagents stores in one text for all of them."""
    identity = ""
    for call in tools:
        function = fields_of(call.get("function", call))
        identity = text_of(call.get("id"))
        builder.call(text_of(function.get("name")), function.get("arguments"), identity, place)
    if not tools and step.get("code_action"):
        builder.call("python_interpreter", step["code_action"], place=place)
    error = step.get("error")
    said = text_of(error.get("message") or error) if isinstance(error, dict) else text_of(error)
    output = "\n".join(text for text in (text_of(step.get("observations")), said) if text)
    if tools or step.get("code_action"):
        builder.result(output, identity, place, is_error=bool(error))
    else:
        builder.message("harness", said, place)


READERS: Final = (SmolagentsReader(),)
