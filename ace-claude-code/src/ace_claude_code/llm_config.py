"""The settings of `ClaudeCodeLLMClient`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ace.integrations import checked_class

__all__ = ["ClaudeCodeLLMConfig"]


@checked_class
@dataclass(frozen=True)
class ClaudeCodeLLMConfig:
    """How the binary is asked.

    Raises:
        ValueError: A number is out of range.

    Example:
        >>> ClaudeCodeLLMConfig(model="sonnet").timeout
        300.0
    """

    model: str = ""
    """The model, such as `sonnet`; empty for that of the binary."""
    claude: str | None = None
    """The binary; by default it is found, see `find_claude`."""
    timeout: float | None = 300.0
    """After how many seconds a call has failed; None never."""
    validation_retries: int = 2
    """How often a structured answer that is missing or does not validate is asked for again."""
    api_base: str | None = None
    """Another address than that of the binary's login."""
    api_key: str | None = field(default=None, repr=False)
    """An API key, instead of the login."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables beside those of this process."""

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout!r}")
        if self.validation_retries < 0:
            raise ValueError(f"validation_retries must not be negative, got {self.validation_retries!r}")

    @property
    def model_string(self) -> str:
        """The model with the prefix of the client, as in `claude_code/sonnet`."""
        return f"claude_code/{self.model}"
