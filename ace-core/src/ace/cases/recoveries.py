"""Finds the calls of tools that failed, and the later calls that repaired them, by the structure of a trace alone.

Nothing here reads a language: a call is compared with a later one for the same end, and a value is explained by where
it was seen before. The readers of logs decide which results are errors.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace.skill import CaseCheck, SkillCase
from ace.traces import TraceStep

__all__ = [
    "FailedCall",
    "call_cases",
    "call_lacks",
    "call_terms",
    "call_text",
    "failed_calls",
    "is_about_call",
    "named_by_error",
    "shows_failed_call",
]

_TERM: Final = re.compile(
    r"""(?P<quote>['"])(?P<quoted>-?\d+(?:\.\d+)?|true|false|null)(?P=quote)|[^\s"'`(){}\[\],;=&?|<>/\\]+"""
)
"""A part of a call: a name, a value, or a part of a path. A number in quotes is another value than the number."""
_CODE_FENCE: Final = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z|\A\s*`([^`]+)`\s*\Z", re.DOTALL)
_SETTING: Final = re.compile(r"\w+=\S*\Z")
_NOT_THE_PERSON: Final = ("assistant", "harness")
"""Other messages come from a person, or from a program that plays one."""
_LONGEST_TASK: Final = 1200
_LONGEST_STEP: Final = 300
_STEPS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a tool that failed, and the call that repaired it, if one did.

    Example:
        >>> from ace.traces import trace_step
        >>> steps = [
        ...     trace_step("call", "rooms", '{"hall": 4}', "1"),
        ...     trace_step("result", "rooms", "unknown field hall: use room", "2", is_error=True),
        ...     trace_step("call", "rooms", '{"room": 4}', "3"),
        ...     trace_step("result", "rooms", "free", "4"),
        ... ]
        >>> found = failed_calls(steps)[0]
        >>> found.failed, found.worked, found.needed, found.rejected
        ('rooms(hall=4)', 'rooms(room=4)', ('room',), ('hall',))
    """

    tool: str
    """The name of the tool."""
    failed: str
    """The call that failed, see `call_text`."""
    error: str
    """The result of that call."""
    worked: str
    """The call that worked; empty if nothing repaired the failure."""
    needed: tuple[str, ...]
    """The values of the call that worked that the failed one lacks, and that decide."""
    rejected: tuple[str, ...]
    """The values of the failed call that the one that worked lacks, and that decide; all values if nothing worked."""
    at: int
    """The position of the failed call among the steps."""
    place: str
    """The place of the failed call in the source."""


def failed_calls(steps: Sequence[TraceStep], task: str = "") -> list[FailedCall]:
    """Return the failed calls in a trace that teach something, in order, without using a model.

    A later call repairs a failed one if it succeeded and is for the same end: it has the same tool and, for a tool that
    takes commands, the same command. Several failed attempts count as one. A repair teaches something if the two calls
    differ in a value that the person did not say after the failure, and that was not looked up for this one task. A
    failure that nothing repaired teaches something if its error names a value of the call with which no other call
    succeeded. A call that succeeds when it is repeated unchanged teaches nothing.

    Args:
        steps: What the agent did, as in a standard trace.
        task: The task of the agent.
    """
    calls = _calls(steps)
    found: list[FailedCall] = []
    done: set[int] = set()
    for number, call in enumerate(calls):
        if not call.is_error or number in done:
            continue
        attempts = [number]
        repair = None
        for later in range(number + 1, len(calls)):
            if not _same_end(call, calls[later]):
                continue
            if not calls[later].is_error:
                repair = calls[later]
                break
            attempts.append(later)
        done.update(attempts)
        error = "\n".join(dict.fromkeys(calls[attempt].result for attempt in attempts))
        before = _Seen(task, steps[: call.at])
        lesson = (
            _failure(call, error, calls)
            if repair is None
            else _recovery(call, repair, error, before, calls, steps, task)
        )
        if lesson is not None:
            found.append(lesson)
    unique = {(item.tool, item.worked, item.needed, item.rejected): item for item in reversed(found)}
    return sorted(unique.values(), key=lambda item: item.at)


def call_cases(steps: Sequence[TraceStep], task: str) -> list[SkillCase]:
    """Return a case for each failed call of a trace that teaches something.

    The case asks for the next action at the point of the failed call, so no tool is run to ask it again.

    Args:
        steps: What the agent did, as in a standard trace.
        task: The task of the agent.

    Example:
        >>> from ace.traces import trace_step
        >>> steps = [
        ...     trace_step("call", "rooms", '{"hall": 4}', "1"),
        ...     trace_step("result", "rooms", "unknown field hall: use room", "2", is_error=True),
        ...     trace_step("call", "rooms", '{"room": 4}', "3"),
        ...     trace_step("result", "rooms", "free", "4"),
        ... ]
        >>> case = call_cases(steps, "Is hall 4 free?")[0]
        >>> case.check.value.splitlines(), case.evidence
        (['rooms', '+room', '-hall'], 'recovery')
    """
    return [
        SkillCase.make(
            _question(task, item.tool),
            _check(item),
            context=_before(steps[: item.at], task),
            wrong=item.failed,
            correction=_cut(item.error, _LONGEST_TASK),
            expected=item.worked,
            evidence="recovery" if item.worked else "failure",
        )
        for item in failed_calls(steps, task)
    ]


def call_lacks(value: str, answer: str) -> str:
    """Return why an answer does not pass a check of kind `call`; empty if it passes.

    Args:
        value: The value of the check: the tool, and on further lines what the call must have after a `+`, and what it
            must not have after a `-`. A line with several values after a `-` rejects a call with all of them.
        answer: The answer: the call and nothing else, as `tool(name=value)`, as JSON with the name of the tool, or in a
            code block.

    Example:
        >>> check = "rooms\\n+room\\n-hall"
        >>> call_lacks(check, "rooms(room=4)"), call_lacks(check, '{"name": "rooms", "arguments": {"hall": 4}}')
        ('', "lacks 'room'")
        >>> call_lacks(check, "Ask the front desk for a room.")
        "is not a call of 'rooms'"
    """
    tool, *lines = value.splitlines() or [""]
    fenced = _CODE_FENCE.match(answer)
    call = ((fenced[1] or fenced[2]) if fenced else answer).strip()
    if not _is_call(call, tool):
        return f"is not a call of {tool!r}"
    terms = set(call_terms(call))
    for line in lines:
        sign, wanted = line[:1], line[1:].split()
        if sign == "+" and not terms.issuperset(wanted):
            return f"lacks {' and '.join(repr(term) for term in wanted if term not in terms)}"
        if sign == "-" and wanted and terms.issuperset(wanted):
            return f"has {' and '.join(map(repr, wanted))}, with which the call failed"
    return ""


def call_text(tool: str, content: str) -> str:
    """Return a call as one line, such as `book(hall=4, day='2026-05-03')`.

    Args:
        tool: The name of the tool.
        content: The arguments as JSON, or the text that was passed.

    Example:
        >>> call_text("book", '{"hall": 4, "paid": true}'), call_text("bash", "ls -l")
        ('book(hall=4, paid=True)', "bash('ls -l')")
    """
    arguments = _arguments(content)
    if isinstance(arguments, dict):
        return f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return f"{tool}({arguments!r})" if arguments else f"{tool}()"


def is_about_call(text: str, case: SkillCase) -> bool:
    """Return whether a rule names anything of the call that a case asks for; True for a case about something else.

    Args:
        text: What the rule says.
        case: A case of any kind.

    Example:
        >>> case = SkillCase.make("Is it free?", CaseCheck("call", "rooms\\n+room"), wrong="rooms(hall=4)")
        >>> is_about_call("Use room, not hall.", case), is_about_call("Ask before you plan.", case)
        (True, False)
    """
    return case.check.kind != "call" or not {*call_terms(case.wrong), *call_terms(case.expected)}.isdisjoint(
        call_terms(text)
    )


def shows_failed_call(text: str, case: SkillCase) -> bool:
    """Return whether a rule shows the call that failed, with all of its values, where no other call is known to work.

    Whatever the rule says about the call, an agent would copy it.

    Args:
        text: What the rule says.
        case: A case of any kind.

    Example:
        >>> case = SkillCase.make("Is it free?", CaseCheck("call", "rooms\\n-hall 4"), wrong="rooms(hall=4)")
        >>> shows_failed_call("Ask as rooms(hall=4).", case), shows_failed_call("Do not ask for a hall.", case)
        (True, False)
    """
    if case.check.kind != "call" or case.expected:
        return False
    shown = set(call_terms(text))
    rejected = [line[1:].split() for line in case.check.value.splitlines()[1:] if line[:1] == "-"]
    return any(len(values) > 1 and shown.issuperset(values) for values in rejected)


def named_by_error(case: SkillCase) -> tuple[str, ...]:
    """Return the values that a call needs and that the error named, without those that only this question needs.

    A value of the question, and a form of a value of the failed call, belong to this one case.

    Args:
        case: A case whose check is of kind `call`.

    Example:
        >>> case = SkillCase.make("Is it free?", CaseCheck("call", "rooms\\n+room\\n+7"), correction="use room")
        >>> named_by_error(case)
        ('room',)
    """
    said, asked = set(call_terms(case.correction)), set(call_terms(case.question))
    wanted = [term for line in case.check.value.splitlines()[1:] if line[:1] == "+" for term in line[1:].split()]
    failed = [term.casefold() for term in call_terms(case.wrong)]
    return tuple(
        term
        for term in wanted
        if term in said and term not in asked and not any(value in term.casefold() for value in failed)
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with its result."""

    at: int
    tool: str
    content: str
    place: str
    result_at: int
    result: str
    is_error: bool

    @property
    def text(self) -> str:
        return call_text(self.tool, self.content)

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(call_terms(self.text))


class _Seen:
    """What was seen before a call: the task and messages of the person, and the results of tools."""

    def __init__(self, task: str, steps: Sequence[TraceStep]) -> None:
        self.of_person = {*call_terms(task), *_said_by_person(steps)}
        self.all = self.of_person | {
            term
            for step in steps
            if step["kind"] == "result" and not step["is_error"]
            for term in call_terms(step["content"])
        }


def _calls(steps: Sequence[TraceStep]) -> list[_Call]:
    """Return the calls that have a result, in order."""
    waiting: list[tuple[int, TraceStep]] = []
    found: list[_Call] = []
    for at, step in enumerate(steps):
        if step["kind"] == "call":
            waiting.append((at, step))
        elif step["kind"] == "result" and waiting:
            named = [item for item in waiting if item[1]["name"] == step["name"]]
            if not named and step["name"]:
                continue
            made_at, call = (named or waiting)[0]
            waiting.remove((made_at, call))
            tool = call["name"].partition(" #")[0]
            found.append(_Call(made_at, tool, call["content"], call["place"], at, step["content"], step["is_error"]))
    return sorted(found, key=lambda call: call.at)


def _same_end(call: _Call, later: _Call) -> bool:
    if call.tool != later.tool or later.at < call.result_at:
        return False
    first, second = _texts(call), _texts(later)
    # The first argument that is a text of words, and the whole text of a call without names, begin with a command.
    command = next((name for name in first if not name or " " in first[name] or " " in second.get(name, "")), None)
    return command is None or _command(first[command]) == _command(second.get(command, ""))


def _texts(call: _Call) -> Mapping[str, str]:
    """Return the texts that a call passes, by the names of the arguments."""
    arguments = _arguments(call.content)
    if isinstance(arguments, dict):
        return {name: value for name, value in arguments.items() if isinstance(value, str)}
    return {"": arguments}


def _command(text: str) -> str:
    """Return the first word of a command, without settings of its environment."""
    words = [word for word in re.split(r"&&|;", text)[-1].split() if not _SETTING.match(word)]
    return words[0] if words else ""


def _recovery(
    call: _Call,
    repair: _Call,
    error: str,
    before: _Seen,
    calls: Sequence[_Call],
    steps: Sequence[TraceStep],
    task: str,
) -> FailedCall | None:
    """Return what a repaired call teaches; None if its values came from a person or are only those of this task."""
    failed, worked = dict.fromkeys(call.terms), dict.fromkeys(repair.terms)
    gained = [term for term in worked if term not in failed]
    lost = [term for term in failed if term not in worked]
    between = steps[call.result_at + 1 : repair.at]
    said = _said_by_person(between)
    of_error = set(call_terms(error))
    general, of_case = _looked_up(calls, call, repair, before.of_person | said)
    new = [
        term
        for term in gained
        if term in of_error
        or (term not in said and term not in of_case and (term not in before.all or _is_form_of(term, lost)))
    ]
    unexplained = [term for term in gained if term not in of_error and term not in general]
    common = len(worked) - len(gained)
    other_acts = any(
        not other.is_error and call.at < other.at < repair.at and not _same_end(call, other) for other in calls
    )
    if not new or len(unexplained) > common or (other_acts and not set(new) & (of_error | general)):
        return None
    return FailedCall(
        call.tool,
        call.text,
        error,
        repair.text,
        _deciding(new, of_error),
        _deciding(lost, of_error),
        call.at,
        call.place,
    )


def _failure(call: _Call, error: str, calls: Sequence[_Call]) -> FailedCall | None:
    """Return what a call teaches that nothing repaired: not to make it again with all of its values.

    None if a later call of the tool succeeded, which may have repaired it in another way.
    """
    if any(other.tool == call.tool and other.at > call.at and not other.is_error for other in calls):
        return None
    worked = {term for other in calls if other.tool == call.tool and not other.is_error for term in other.terms}
    own = tuple(dict.fromkeys(term for term in call.terms if term != call.tool))
    named = set(call_terms(_ends_of(error))) - worked
    return FailedCall(call.tool, call.text, error, "", (), own, call.at, call.place) if named & set(own) else None


def _ends_of(error: str) -> str:
    """Return an error in JSON, or the first and the last line of another one: what is between may be any output."""
    lines = error.strip().splitlines()
    return error if error.lstrip()[:1] in ("{", "[") or not lines else f"{lines[0]}\n{lines[-1]}"


def _deciding(terms: Sequence[str], of_error: Collection[str]) -> tuple[str, ...]:
    """Return the values that the error names, or all of them if it names none."""
    return tuple(term for term in terms if term in of_error) or tuple(terms)


def _looked_up(
    calls: Sequence[_Call], call: _Call, repair: _Call, of_person: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the values in results between two calls: those of general lookups, and those of lookups for this task.

    A lookup is for this task if it asks for a value of the person, or for one that such a lookup has returned.
    """
    general: set[str] = set()
    of_case = set(of_person)
    for other in calls:
        if other.at >= repair.at or other.is_error:
            continue
        if any(term in of_case for term in other.terms):
            of_case.update(call_terms(other.result))
        elif other.at > call.at:
            general.update(call_terms(other.result))
    return general, of_case - general


def _is_form_of(term: str, lost: Iterable[str]) -> bool:
    """Return whether a value is another form of one that failed, such as `#W12` of `W12`."""
    value = term.casefold()
    return any(value != term or other.casefold() in value or value in other.casefold() for other in lost)


def _said_by_person(steps: Iterable[TraceStep]) -> set[str]:
    return {
        term
        for step in steps
        if step["kind"] == "message" and step["name"] not in _NOT_THE_PERSON
        for term in call_terms(step["content"])
    }


def _arguments(content: str) -> Any:
    """Return the arguments of a call: a dict, or the text that was passed."""
    text = content.strip()
    if text[:1] in ("{", '"'):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return found if isinstance(found, dict | str) else text
    return text


def call_terms(text: str) -> list[str]:
    """Return the names, values and parts of paths in a call or in a text about one, in order.

    Args:
        text: The call or the text.

    Example:
        >>> call_terms("get(path='/v3/beds', id='4', day=4)")
        ['get', 'path', 'v3', 'beds', 'id', "'4'", 'day', '4']
    """
    found = []
    for match in _TERM.finditer(text):
        term = f"'{match['quoted']}'" if match["quoted"] else match[0].rstrip(".:!")
        if any(character.isalnum() for character in term):
            found.append(term)
    return found


def _is_call(text: str, tool: str) -> bool:
    """Return whether a text is a call of a tool and nothing else."""
    if text.startswith("{"):
        return tool in call_terms(text) and isinstance(_arguments(text), dict)
    if not text.startswith(tool):
        return False
    rest = text[len(tool) :].strip()
    if rest.startswith("("):
        return _is_expression(f"call{rest}")
    return rest.startswith("{") and isinstance(_arguments(rest), dict)


def _is_expression(text: str) -> bool:
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _check(item: FailedCall) -> CaseCheck:
    rejected = [f"-{term}" for term in item.rejected] if item.worked else [f"-{' '.join(item.rejected)}"]
    return CaseCheck("call", "\n".join([item.tool, *(f"+{term}" for term in item.needed), *rejected]))


def _question(task: str, tool: str) -> str:
    """Return the question for the next call; it begins with what to write, because a small model answers the task."""
    said = _cut(" ".join(task.split()), _LONGEST_TASK)
    return f"Write only the call of the tool {tool}, as {tool}(name='value'), for this task: {said}"


def _before(steps: Sequence[TraceStep], task: str) -> str:
    """Return the last steps before a call as text; empty if the task is all that came before it."""
    shown = [
        f"{step['name']}: {_cut(step['content'], _LONGEST_STEP)}"
        if step["kind"] in ("message", "result")
        else call_text(step["name"].partition(" #")[0], _cut(step["content"], _LONGEST_STEP))
        for step in steps
        if step["kind"] != "thought" and step["content"].strip() != task.strip()
    ][-_STEPS_SHOWN:]
    return "\n".join(["Steps so far:", *shown]) if shown else ""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]} [...] {text[-(longest // 2) :]}"
