"""The settings of the server: variables with the prefix `ACE_MCP_`, and the options of `ace mcp`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["MCPServerConfig", "data_folder"]


def data_folder() -> Path:
    """Return the user's data folder for ACE: `$XDG_DATA_HOME/ace`, else `~/.local/share/ace`."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local/share") / "ace"


class MCPServerConfig(BaseSettings):
    """The settings of an MCP server. The variable of each is its name in capitals with the prefix `ACE_MCP_`.

    Raises:
        pydantic.ValidationError: A setting is outside its range.

    Example:
        >>> MCPServerConfig(safe_mode=True).max_samples_per_call
        25
    """

    model_config = SettingsConfigDict(env_prefix="ACE_MCP_", extra="forbid", frozen=True, hide_input_in_errors=True)

    default_model: str | None = None
    """The model string of sessions that do not choose a model; None for the model that `ace` would use."""
    skillbook: str = Field(default_factory=lambda: str(data_folder() / "skills.db"))
    """The store that all sessions share: a file, or `scheme://...`."""
    separate_books: bool = False
    """Whether each session has its own skillbook, in a folder next to the shared one."""
    safe_mode: bool = False
    """Whether learning, saving and loading are blocked."""
    allow_save_load: bool = True
    """Whether skillbooks can be saved and loaded below `skillbook_root`."""
    skillbook_root: Path = Field(default_factory=data_folder)
    """The folder below which skillbooks are saved and loaded."""
    max_samples_per_call: int = Field(default=25, ge=1)
    """The maximum number of samples in one call."""
    max_prompt_chars: int = Field(default=100_000, ge=1)
    """The maximum length of one text in a call, in characters."""
    session_ttl_seconds: float = Field(default=3600, gt=0)
    """The time after which an idle session is closed, in seconds."""
    max_sessions: int = Field(default=100, ge=1)
    """The maximum number of open sessions."""
    learn_timeout_seconds: float = Field(default=300, gt=0)
    """The time after which a call that learns is stopped, in seconds. What was learned until then is kept."""
    max_cost: float | None = Field(default=None, gt=0)
    """Once the model calls of the server have cost this much, in US dollars, no further question or sample starts."""
    http_token: SecretStr | None = None
    """The bearer token that HTTP requests must carry. Without one, the server only listens on loopback."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The minimum severity of messages to log to standard error."""
