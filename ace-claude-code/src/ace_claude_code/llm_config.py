"""The settings of `ClaudeCodeLLMClient`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ace.integrations import checked_class

__all__ = ["PREFIX", "ClaudeCodeLLMConfig"]

PREFIX = "claude_code"
"""What the model strings of this client begin with."""


@checked_class
@dataclass(frozen=True)
class ClaudeCodeLLMConfig:
    """The settings of a `ClaudeCodeLLMClient`.

    Raises:
        ValueError: A number is out of range.

    Example:
        >>> ClaudeCodeLLMConfig(model="sonnet").timeout
        300.0
    """

    model: str = ""
    """The model, such as `sonnet`; empty for the default of the binary."""
    claude: str | None = None
    """The path of the binary; by default the one of `find_claude`."""
    timeout: float | None = 300.0
    """The time limit of a call, in seconds; None sets no limit."""
    validation_retries: int = 2
    """How often the model is asked again if a structured answer is missing or does not validate."""
    api_base: str | None = None
    """A base URL that replaces that of the login."""
    api_key: str | None = field(default=None, repr=False)
    """An API key that is used instead of the login."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables, in addition to those of this process."""

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout!r}")
        if self.validation_retries < 0:
            raise ValueError(f"validation_retries must not be negative, got {self.validation_retries!r}")

    @property
    def model_string(self) -> str:
        """The model with the prefix of the client, as in `claude_code/sonnet`."""
        return f"{PREFIX}/{self.model}"
