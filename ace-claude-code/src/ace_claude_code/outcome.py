"""Determines the outcome of a run as reported by Claude Code, and its problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.integrations import Record, list_in, number_in, text_in
from ace.protocols import LLMAuthenticationError
from ace_claude_code.conversation import Line
from ace_claude_code.messages import (
    called_tools,
    denied_calls,
    is_api_error,
    is_interruption,
    spoken_text,
    tool_results,
)

__all__ = [
    "ClaudeLoginError",
    "Outcome",
    "check_login",
    "denials_in",
    "outcome_of_lines",
    "outcome_of_result",
    "problem_in_result",
]


_REFUSED = (401, 403)
_NO_LOGIN = ("Please run /login", "Invalid API key")


class ClaudeLoginError(LLMAuthenticationError):
    """Claude Code is not logged in, or its key was refused."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    success: bool | None
    """Whether the run succeeded; None if it is not known, because a stored transcript does not contain this."""
    answer: str
    """The last text of the model."""
    problems: tuple[str, ...]
    """The problems, one sentence each."""


def outcome_of_result(result: Record, lines: Sequence[Line]) -> Outcome:
    """Determine the outcome of a run from its last `result` event.

    Neither exit code 0 nor the subtype `success` means that a task succeeded, because both also occur with denied tools
    and API errors.

    Args:
        result: The event.
        lines: The messages of the run.
    """
    problem = problem_in_result(result)
    denials = denials_in(result)
    problems = [*([problem] if problem else []), *denials]
    return Outcome(not problems, text_in(result, "result") or _last_words(lines), tuple(problems))


def outcome_of_lines(lines: Sequence[Line]) -> Outcome:
    """Determine the outcome of a turn of a stored transcript, or of a stream without a `result` event.

    Args:
        lines: The messages of the turn.
    """
    answer = _last_words(lines)
    main = [line.record for line in lines if not line.of_subagent]
    problems = [f"The API refused: {spoken_text(record).strip()}" for record in main if is_api_error(record)]
    if any(is_interruption(record) for record in main):
        problems.append("The user interrupted the run.")
    denied = [call for record in main for call in denied_calls(record)]
    if denied:
        tools = {call: name for record in main for call, name in called_tools(record).items()}
        problems += [f"The tool {tools.get(call, 'unknown')} was denied." for call in denied]
    elif not problems and not _ends_with_words(main):
        problems.append("The run ended without a final answer: it was stopped, or it reached a limit.")
    return Outcome(False if problems else None, answer, tuple(problems))


def problem_in_result(result: Record) -> str:
    """Return the problem in a `result` event; empty if there is none."""
    if not result.get("is_error") and text_in(result, "subtype") in ("success", ""):
        return ""
    reason = text_in(result, "terminal_reason") or text_in(result, "subtype")
    errors = [str(error) for error in list_in(result, "errors")] or [text_in(result, "result")]
    status = number_in(result, "api_error_status")
    code = f" (status {status:.0f})" if status is not None else ""
    return f"The run failed with {reason}{code}: {'; '.join(error for error in errors if error) or 'no reason given'}"


def check_login(result: Record, model: str) -> None:
    """Raise an error if a run failed because Claude Code is not logged in, so that no other run can succeed.

    Args:
        result: The `result` event of the run.
        model: The model string, for the error.

    Raises:
        ClaudeLoginError: The binary is not logged in, or its key was refused.
    """
    problem = problem_in_result(result)
    if not problem:
        return
    status = number_in(result, "api_error_status")
    code = None if status is None else int(status)
    text = text_in(result, "result")
    if code in _REFUSED or any(phrase in text for phrase in _NO_LOGIN):
        raise ClaudeLoginError(
            "Claude Code is not logged in, or its key was refused; run 'claude' and log in with /login, or set "
            f"ANTHROPIC_API_KEY. Reason: {problem}",
            model=model,
            status_code=code,
        )


def denials_in(result: Record) -> list[str]:
    """Return one sentence for each tool call that was denied."""
    denials = [item for item in list_in(result, "permission_denials") if isinstance(item, dict)]
    return [f"The tool {text_in(item, 'tool_name') or 'unknown'} was denied." for item in denials]


def _last_words(lines: Sequence[Line]) -> str:
    for line in reversed(lines):
        if not line.of_subagent and line.record.get("type") == "assistant" and (text := spoken_text(line.record)):
            return text.strip()
    return ""


def _ends_with_words(main: Sequence[Record]) -> bool:
    last = next(
        (record for record in reversed(main) if record.get("type") == "assistant" or tool_results(record)), None
    )
    return last is not None and bool(spoken_text(last)) and not called_tools(last) and not tool_results(last)
