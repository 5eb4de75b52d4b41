"""The errors of the tools, with a code, a message that says what to do, and details for programs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, JsonValue

from ace import redact

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["ErrorCode", "ErrorOutput", "MCPToolError", "refused_arguments"]

_MOST_PROBLEMS = 20
_LONGEST_NAME = 100


class ErrorCode(StrEnum):
    """The codes of all errors."""

    VALIDATION_ERROR = "ACE_MCP_VALIDATION_ERROR"
    """The arguments do not match the schema, or contradict each other."""
    SESSION_NOT_FOUND = "ACE_MCP_SESSION_NOT_FOUND"
    """There is no such session, or it cannot be opened."""
    FORBIDDEN_IN_SAFE_MODE = "ACE_MCP_FORBIDDEN_IN_SAFE_MODE"
    """The server only answers questions and shows skills."""
    SAVE_LOAD_DISABLED = "ACE_MCP_SAVE_LOAD_DISABLED"
    """Saving and loading are disabled, or not allowed at this path."""
    PROVIDER_ERROR = "ACE_MCP_PROVIDER_ERROR"
    """The model could not be reached, refused the request, or gave no usable answer."""
    TIMEOUT = "ACE_MCP_TIMEOUT"
    """The call took too long and was stopped."""
    INTERNAL_ERROR = "ACE_MCP_INTERNAL_ERROR"
    """A bug in the server, or a skillbook that cannot be opened or written; never caused by arguments."""


class ErrorOutput(BaseModel):
    """An error, as clients receive it."""

    code: ErrorCode
    """The kind of error."""
    message: str
    """What happened and what to do."""
    details: dict[str, JsonValue]
    """Further fields for programs."""


class MCPToolError(Exception):
    """A tool call has failed.

    Args:
        code: The kind of error.
        message: What happened and what to do. Keys in it are redacted.
        **details: Further fields for programs.

    Example:
        >>> MCPToolError(ErrorCode.TIMEOUT, "took too long; send fewer samples", seconds=300).output.code.value
        'ACE_MCP_TIMEOUT'
    """

    def __init__(self, code: ErrorCode, message: str, **details: JsonValue) -> None:
        super().__init__(message)
        self.output = ErrorOutput(code=code, message=redact(message), details=details)
        """The error as sent to the client."""


def refused_arguments(tool: str, error: ValidationError) -> MCPToolError:
    """Return the error for arguments that do not match the schema of a tool, without their values.

    Args:
        tool: The name of the tool.
        error: The error of pydantic.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]
    # The name of an unknown field comes from the client, too.
    fields = [redact(".".join(str(part) for part in problem["loc"]))[:_LONGEST_NAME] for problem in found]
    problems: list[JsonValue] = [
        {"field": field, "problem": problem["msg"]} for field, problem in zip(fields, found, strict=True)
    ]
    return MCPToolError(
        ErrorCode.VALIDATION_ERROR,
        f"{tool}: {fields[0] or 'the arguments'}: {found[0]['msg']}; tools/list describes the arguments",
        problems=problems,
    )
