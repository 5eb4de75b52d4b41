"""Determines the outcome of a run as reported by Claude Code, and its problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.integrations import Record, list_in, number_in, text_in
from ace.protocols import LLMAuthenticationError
from ace_claude_code.conversation import Conversation
from ace_claude_code.messages import Message

__all__ = [
    "ClaudeLoginError",
    "Outcome",
    "check_login",
    "denials_in",
    "outcome_of_conversation",
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
    denials: tuple[str, ...] = ()
    """The calls that were denied, one sentence each."""
    is_interrupted: bool = False
    """Whether the run ended before the model was done."""
    source: str = ""
    """The field that says whether the run succeeded; empty if none does."""


def outcome_of_result(result: Record, lines: Sequence[Message]) -> Outcome:
    """Determine the outcome of a run from its last `result` event.

    Neither exit code 0 nor the subtype `success` means that a task succeeded, because both also occur with denied tools
    and API errors.

    Args:
        result: The event.
        lines: The messages of the run.
    """
    problem = problem_in_result(result)
    denials = denials_in(result)
    return Outcome(
        not (problem or denials),
        text_in(result, "result") or _last_words(lines),
        (problem,) if problem else (),
        tuple(denials),
        is_interrupted=text_in(result, "terminal_reason").startswith("aborted"),
        source="result",
    )


def outcome_of_lines(lines: Sequence[Message]) -> Outcome:
    """Determine the outcome of a turn of a stored transcript, or of a stream without a `result` event.

    Args:
        lines: The messages of the turn.
    """
    answer = _last_words(lines)
    main = [line for line in lines if not line.of_subagent]
    problems = [f"The API refused: {message.words.strip()}" for message in main if message.is_api_error]
    if any(message.is_interruption for message in main):
        problems.append("The user interrupted the run.")
    denied = [call for message in main for call in message.denied]
    tools = {call: name for message in main for call, name in message.tools.items()} if denied else {}
    denials = [f"The tool {tools.get(call, 'unknown')} was denied." for call in denied]
    is_unfinished = not _ends_with_words(main)
    if is_unfinished and not problems and not denials:
        problems.append("The run ended without a final answer: it was stopped, or it reached a limit.")
    success = False if problems or denials else None
    return Outcome(success, answer, tuple(problems), tuple(denials), is_interrupted=is_unfinished)


def outcome_of_conversation(conversation: Conversation, lines: Sequence[Message]) -> Outcome:
    """Determine the outcome of a session or stream.

    Args:
        conversation: The session.
        lines: Its messages, or those of its last turn.
    """
    # A stream with background sub-agents has several results; the last one is the result of the whole run.
    if conversation.results:
        return outcome_of_result(conversation.results[-1], lines)
    return outcome_of_lines(lines)


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


def _last_words(lines: Sequence[Message]) -> str:
    own = [line for line in lines if line.is_of_model and line.words and not line.of_subagent]
    return next((line.words for line in reversed(own) if not line.is_api_error), "").strip()


def _ends_with_words(main: Sequence[Message]) -> bool:
    last = next((line for line in reversed(main) if line.is_of_model or line.results or line.is_interruption), None)
    return last is not None and last.is_of_model and bool(last.words) and not last.calls
