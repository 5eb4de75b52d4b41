"""Reads runs that a tracer has recorded: exports of LangSmith and events of `astream_events`.

Each is first converted to `RunPart`s, one for each model call, tool call and chain, and these to a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ace.integrations import extract_cited_skill_ids
from ace.traces import TraceStep, trace_step
from ace_langchain.messages import PlainMessage, mapping, messages_in, parsed, plain_json, plain_message, text_of
from ace_langchain.outcome import outcome_of
from ace_langchain.result import LangChainResult, ToolUse
from ace_langchain.steps import arguments_text, steps_of_message, words_of

__all__ = [
    "PartKind",
    "RunPart",
    "is_event",
    "is_langsmith_run",
    "key_of_event",
    "key_of_run",
    "parts_of_events",
    "parts_of_runs",
    "result_of_parts",
]

PartKind = Literal["model", "tool", "retriever", "chain"]

_RUN_KINDS: Mapping[str, PartKind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retriever",
    **dict.fromkeys(("chain", "prompt", "parser", "embedding"), "chain"),
}
_EVENT_KINDS: Mapping[str, PartKind] = {
    "chat_model": "model",
    "llm": "model",
    "tool": "tool",
    "retriever": "retriever",
    **dict.fromkeys(("chain", "prompt", "parser", "embeddings"), "chain"),
}
_CONTROL_FLOW = ("GraphInterrupt", "NodeInterrupt", "ParentCommand", "GraphBubbleUp")
_QUESTION_FIELDS = ("input", "question", "query", "task", "prompt", "user_input")


@dataclass(frozen=True)
class RunPart:
    """One part of a recorded run."""

    id: str
    parent: str
    """The id of the enclosing part; empty if it is not known."""
    kind: PartKind
    name: str
    order: str
    """The sort key by start time."""
    inputs: object = None
    """Its input."""
    returned: object = None
    """Its output; None if it failed, or if that is not recorded."""
    error: str = ""
    answers: tuple[PlainMessage, ...] = ()
    """The answers of a model."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The tokens of a model, if they are not in the messages."""
    call_id: str = ""
    """The id of the call that a tool answers, if it is recorded."""
    is_open: bool = False
    """Whether its end is not recorded."""
    feedback: str = ""
    """The feedback of people or evaluators."""


def is_langsmith_run(record: object) -> bool:
    """Return whether a record is a run of LangSmith: live, dumped, or as its API returns it.

    Args:
        record: Anything.

    Example:
        >>> is_langsmith_run({"id": "1", "run_type": "llm", "inputs": {}, "trace_id": "1"})
        True
    """
    run = _run_fields(record)
    named = run.get("run_type") in _RUN_KINDS and isinstance(run.get("inputs"), Mapping) and bool(run.get("id"))
    return named and any(name in run for name in ("trace_id", "dotted_order", "parent_run_id", "start_time"))


def key_of_run(run: object) -> str:
    """Return the trace of a run of LangSmith."""
    fields = _run_fields(run)
    return str(fields.get("trace_id") or fields.get("id"))


def is_event(record: object) -> bool:
    """Return whether a record is an event of `astream_events`.

    Args:
        record: Anything.

    Example:
        >>> is_event({"event": "on_tool_end", "name": "add", "run_id": "1", "data": {"output": "4"}})
        True
    """
    if not isinstance(record, Mapping) or not isinstance(record.get("event"), str):
        return False
    return record["event"].startswith("on_") and bool(record.get("run_id")) and isinstance(record.get("data"), Mapping)


def key_of_event(event: Mapping[str, object]) -> str:
    """Return the run that an event belongs to."""
    above = event.get("parent_ids")
    return str(above[0] if isinstance(above, list | tuple) and above else event["run_id"])


def parts_of_runs(runs: Iterable[object]) -> list[RunPart]:
    """Return the parts of runs of LangSmith, with the children that they hold.

    Args:
        runs: The runs of one trace, in any order.
    """
    parts: dict[str, RunPart] = {}
    waiting = [(_run_fields(run), "") for run in runs]
    while waiting:
        run, above = waiting.pop()
        children = run.get("child_runs")
        inner = children if isinstance(children, list) else ()
        waiting += [(_run_fields(child), str(run.get("id"))) for child in inner]
        part = _part_of_run(run, above)
        parts[part.id] = part
    return list(parts.values())


def parts_of_events(events: Iterable[Mapping[str, object]]) -> list[RunPart]:
    """Return the parts of a run that was watched with `astream_events`.

    Args:
        events: The events of one run, in order.
    """
    parts: dict[str, RunPart] = {}
    said: dict[str, str] = {}
    for number, event in enumerate(events):
        what, _, when = str(event["event"]).removeprefix("on_").rpartition("_")
        kind = _EVENT_KINDS.get(what)
        if kind is None:  # an event of the user's own, which names the run that sent it
            kind, when = "chain", ""
        run_id = str(event["run_id"])
        above = event.get("parent_ids")
        data = event["data"] if isinstance(event["data"], Mapping) else {}
        parent = str(above[-1]) if isinstance(above, list | tuple) and above else ""
        part = parts.get(run_id, RunPart(run_id, parent, kind, str(event.get("name") or kind), f"{number:012}"))
        if run_id not in parts:
            part = replace(part, is_open=True)
        if data.get("input") is not None:
            part = replace(part, inputs=data["input"])
        if when == "stream" and kind == "model":
            said[run_id] = said.get(run_id, "") + text_of(data.get("chunk"))
        if when == "end":
            part = replace(part, returned=data.get("output"), is_open=False)
        if when == "error":
            part = replace(part, is_open=False, error=_short_error(text_of(data.get("error")) or "it failed"))
        parts[run_id] = part
    return [_with_answers(part, said.get(part.id, "")) for part in parts.values()]


def result_of_parts(parts: Sequence[RunPart]) -> LangChainResult:
    """Return the result of a run.

    Args:
        parts: The parts of the run, at least one.
    """
    tree = _Tree(parts)
    root = tree.root
    asked = messages_in(root.inputs)
    steps = _Transcript(tree)
    for message in asked:
        if message["type"] != "system":
            steps.steps += steps_of_message(message, steps.place(""))
    steps.walk()
    question = next((message["content"] for message in asked if message["type"] == "human"), "")
    failure = tree.first_failure() if root.error else None
    answers = [answer for part in tree.in_order() for answer in part.answers]
    words = "\n".join(map(words_of, answers))
    return LangChainResult(
        task=question or _question_of(root.inputs),
        output="" if root.error else _answer_of(root) or _last_words(root, answers),
        result_type="error" if root.error else "simple",
        success=False if root.error else None,
        error=root.error or None,
        intermediate_steps=tuple(steps.uses),
        messages=(*asked, *answers),
        failed_at=tree.path(failure) if failure is not None else "",
        steps=tuple(steps.steps),
        skill_ids=tuple(extract_cited_skill_ids(words)),
        usage=steps.usage,
        feedback="\n".join(part.feedback for part in tree.in_order() if part.feedback),
    )


class _Tree:
    """The hierarchy of the parts of a run."""

    def __init__(self, parts: Sequence[RunPart]) -> None:
        self._parts = {part.id: part for part in sorted(parts, key=lambda part: part.order)}
        self._below: dict[str, list[RunPart]] = {}
        for part in self._parts.values():
            self._below.setdefault(part.parent if part.parent in self._parts else "", []).append(part)
        first = next(iter(self._parts.values()))
        # A damaged record may have parts in a circle, of which none is the first.
        self.root = self._below.setdefault("", [first])[0]

    def below(self, part_id: str) -> list[RunPart]:
        """Return the parts that run directly in a part; those of "" run in none."""
        return self._below.get(part_id, [])

    def in_order(self) -> Iterable[RunPart]:
        return self._parts.values()

    def path(self, part: RunPart) -> str:
        """Return the names from below the whole run down to a part; of the whole run, its own name."""
        names = [part.name]
        seen = {part.id}
        above = self._parts.get(part.parent)
        while above is not None and above.id not in seen and above.parent in self._parts:
            names.append(above.name)
            seen.add(above.id)
            above = self._parts.get(above.parent)
        return "/".join(reversed(names))

    def parent_path(self, part: RunPart) -> str:
        return self.path(part).rpartition("/")[0]

    def first_failure(self) -> RunPart | None:
        """Return the part that raised the first error."""
        return next((part for part in self._parts.values() if self.failed_itself(part)), None)

    def failed_itself(self, part: RunPart) -> bool:
        """Whether the error of a part arose in it, and not in a part that runs in it."""
        return bool(part.error) and not any(child.error for child in self.below(part.id))


class _Transcript:
    """The steps of a run while they are collected."""

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self._called: dict[str, str] = {}
        self.steps: list[TraceStep] = []
        self.uses: list[ToolUse] = []
        self.usage: dict[str, int] = {"model_calls": 0, "tool_calls": 0}

    def place(self, path: str) -> str:
        number = len(self.steps) + 1
        return f"{number} in {path}" if path else str(number)

    def walk(self) -> None:
        """Add all parts: each before the parts inside it, and its outcome after them."""
        seen: set[str] = set()
        waiting = [(part, False) for part in reversed(self._tree.below(""))]
        while waiting:
            part, is_done = waiting.pop()
            if is_done:
                self._end(part)
                continue
            if part.id in seen:
                continue
            seen.add(part.id)
            self._start(part)
            waiting.append((part, True))
            waiting += [(child, False) for child in reversed(self._tree.below(part.id))]

    def _start(self, part: RunPart) -> None:
        if part.kind == "retriever":
            self._add("call", part.name, _question_of(part.inputs), part)
        if part.kind != "tool":
            return
        self.usage["tool_calls"] += 1
        waiting = (call_id for call_id, name in self._called.items() if name == part.name)
        call_id = part.call_id or next(waiting, "")
        if self._called.pop(call_id, None) is None:
            self._add("call", part.name, arguments_text(plain_json(part.inputs)), part)

    def _end(self, part: RunPart) -> None:
        path = self._tree.parent_path(part)
        if part.kind == "model":
            self.usage["model_calls"] += 1
            for answer in part.answers:
                self.steps += steps_of_message(answer, self.place(path))
                self._called.update({call["id"]: call["name"] for call in answer["tool_calls"] if call["id"]})
                self._count(answer["usage"])
            if not any(answer["usage"] for answer in part.answers):
                self._count(part.usage)
        elif part.is_open:
            pass
        elif part.kind == "tool" and not part.error:
            message = next((result for result in messages_in(part.returned) if result["type"] == "tool"), None)
            output = _output_text(part.returned) if message is None else message["content"]
            failed = message is not None and message["is_error"]
            self._add("result", part.name, output, part, is_error=failed)
            self._use(part, output, output if failed else None)
        elif part.kind == "retriever" and not part.error:
            self._add("result", part.name, _output_text(part.returned), part)
        if part.error and part.kind == "tool":
            self._use(part, "", part.error)
        if self._tree.failed_itself(part):
            self._add("result", part.name, part.error, part, is_error=True)

    def _count(self, usage: Mapping[str, int]) -> None:
        for name, count in usage.items():
            self.usage[name] = self.usage.get(name, 0) + count

    def _use(self, part: RunPart, output: str, error: str | None) -> None:
        self.uses.append(ToolUse(tool=part.name, input=plain_json(part.inputs), output=output, error=error))

    def _add(
        self, kind: Literal["call", "result"], name: str, content: str, part: RunPart, *, is_error: bool = False
    ) -> None:
        place = self.place(self._tree.parent_path(part))
        self.steps.append(trace_step(kind, name, content, place, is_error=is_error))


def _run_fields(run: object) -> Mapping[str, object]:
    """Return the fields of a run of LangSmith, live or stored."""
    if isinstance(run, Mapping):
        return run
    if type(run).__module__.partition(".")[0] not in ("langsmith", "langchain_core") or not hasattr(run, "run_type"):
        return {}
    names = (
        *("id", "name", "run_type", "inputs", "outputs", "error", "start_time", "trace_id", "dotted_order"),
        *("parent_run_id", "child_runs", "extra", "prompt_tokens", "completion_tokens", "feedback_stats"),
    )
    return {name: getattr(run, name, None) for name in names}


def _part_of_run(run: Mapping[str, object], above: str) -> RunPart:
    kind = _RUN_KINDS.get(str(run.get("run_type")), "chain")
    extra = mapping(run.get("extra"))
    call_id = extra.get("tool_call_id") or mapping(extra.get("metadata")).get("tool_call_id")
    tokens = {"input_tokens": run.get("prompt_tokens"), "output_tokens": run.get("completion_tokens")}
    part = RunPart(
        id=str(run.get("id")),
        parent=str(run.get("parent_run_id") or above or ""),
        kind=kind,
        name=str(run.get("name") or kind),
        order=str(run.get("dotted_order") or run.get("start_time") or ""),
        inputs=run.get("inputs"),
        returned=run.get("outputs") or None,
        error=_short_error(str(run.get("error") or "")),
        usage={name: count for name, count in tokens.items() if isinstance(count, int)},
        call_id=str(call_id or ""),
        is_open=not run.get("end_time") and run.get("outputs") is None and not run.get("error"),
        feedback=_feedback_text(run.get("feedback_stats")),
    )
    return _with_answers(part)


def _with_answers(part: RunPart, streamed: str = "") -> RunPart:
    """Read the answers of a model; of one that was cut off, what it had streamed."""
    if part.kind != "model":
        return part
    answers = messages_in(part.returned)
    if not answers and isinstance(_answer(part.returned), str):
        answers = [plain_message({"type": "ai", "content": _answer(part.returned)})]
    if not answers and streamed:
        answers = [plain_message({"type": "ai", "content": streamed})]
    return replace(part, answers=tuple(answer for answer in answers if answer["type"] == "ai"))


def _feedback_text(stats: object) -> str:
    """Return the scores that a run of LangSmith was given, such as `user_score: 0.0 (average of 2)`."""
    lines = []
    for key, value in mapping(stats).items():
        fields = mapping(value)
        said = fields.get("comments") or fields.get("values")
        score = fields.get("avg", fields.get("score"))
        if score is not None:
            lines.append(f"{key}: {score} (average of {fields.get('n', 1)})")
        if said:
            lines.append(f"{key}: {text_of(said)}")
    return "\n".join(lines)


def _short_error(error: str) -> str:
    """Return an error without the stack that LangSmith appends; empty for what a graph raises to pause or to jump."""
    text = error.partition("Traceback (most recent call last)")[0].strip() or error.strip()
    return "" if text.startswith(_CONTROL_FLOW) else text


def _question_of(value: object) -> str:
    fields = mapping(parsed(value))
    if not fields:
        return text_of(parsed(value))
    named = next((fields[name] for name in _QUESTION_FIELDS if fields.get(name) not in (None, "")), None)
    if named is not None:
        asked = messages_in(named)
        return next((message["content"] for message in asked if message["type"] == "human"), "") or text_of(named)
    return text_of(next(iter(fields.values()))) if len(fields) == 1 else text_of(fields)


def _answer_of(root: RunPart) -> str:
    if root.answers:
        return root.answers[-1]["content"]
    returned = parsed(root.returned)
    if returned is None:
        return ""
    structured = mapping(returned).get("structured_response")
    if structured is not None:
        return text_of(structured)
    said = [message for message in messages_in(returned) if message["type"] == "ai"]
    if said:
        return said[-1]["content"]
    answer = _answer(returned)
    return answer if isinstance(answer, str) else outcome_of(returned, "simple", parsed(root.inputs)).output


def _last_words(root: RunPart, answers: Sequence[PlainMessage]) -> str:
    """Return what the last model said, where the run ended and its own output is not recorded."""
    return answers[-1]["content"] if answers and root.returned is None and not root.is_open else ""


def _answer(returned: object) -> object:
    """Return what is in the field that tracers put an output without fields into."""
    fields = mapping(returned)
    return next((fields[name] for name in ("output", "answer", "text", "content") if name in fields), returned)


def _output_text(returned: object) -> str:
    fields = mapping(returned)
    output = fields.get("documents", _answer(returned))
    if isinstance(output, list) and output and all("page_content" in mapping(document) for document in output):
        return "\n\n".join(text_of(mapping(document)["page_content"]) for document in output)
    if isinstance(output, list | tuple) and output and all(hasattr(document, "page_content") for document in output):
        return "\n\n".join(map(text_of, output))
    return text_of(output)
