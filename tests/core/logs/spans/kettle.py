"""The conversation about a kettle that these tests record: a question, a call that fails, and an answer."""

from __future__ import annotations

from ace.logs import Run

TASK = "How many days may a customer return the blue kettle?"
ANSWER = "A customer may return it within 30 days."
ERROR = "HTTP 404: no such sku KET-2"
ASKED = ("message", "person", TASK, False)
TOLD = ("message", "agent", ANSWER, False)
CALL = ("call", "get_policy", '{"sku": "KET-2"}', False)
FAILED = ("result", "get_policy", ERROR, True)
USER = {"role": "user", "content": TASK}
SAID = {"role": "assistant", "content": ANSWER}
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "get_policy", "arguments": '{"sku": "KET-2"}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}


def steps_of(run: Run) -> list[tuple[str, str, str, bool]]:
    """The kind, the name, the content and the failure of each step."""
    return [(step.kind, step.name or step.speaker, step.content, step.is_error) for step in run.steps]
