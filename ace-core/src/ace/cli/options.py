"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from ace.cli.errors import UsageError
from ace.cli.settings import SettingValue

__all__ = ["TASK_OPTION", "Flag", "JsonFlag", "ModelOptions", "SkillbookOption", "YesFlag", "check_from_one"]

Flag = Parameter(negative="", show_default=False)
"""An option without a value, off by default."""

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
"""Print the result as one JSON object."""

YesFlag = Annotated[bool, Flag]
"""Do not ask for confirmation."""

TASK_OPTION: Final = ["--task", "--bead", "--beads"]
"""The names of the option for the ids of tasks; in the issue tracker beads, tasks are beads."""

SkillbookOption = Annotated[str | None, Parameter(name="--skillbook")]
"""The skillbook."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How the model is reached."""

    model: str | None = None
    """The model, in LiteLLM notation: anthropic/NAME or openai/NAME; local/NAME runs on this machine.
    [env: ACE_MODEL] [default: local/qwen2.5-coder-1.5b]"""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server, such as http://localhost:11434/v1; "" ignores the one in the
    settings files. [env: ACE_API_BASE]"""
    max_tokens: int | None = None
    """The maximum length of an answer, in tokens. [env: ACE_MAX_TOKENS] [default: 2048]"""
    temperature: float | None = None
    """The sampling temperature. [env: ACE_TEMPERATURE] [default: 0]"""
    timeout: float | None = None
    """The timeout of a model call, in seconds. [env: ACE_TIMEOUT] [default: 120, or 600 for a model on this machine]"""

    def flags(self) -> dict[str, SettingValue]:
        """Return the values by the names of the settings."""
        return dict(self.__dict__)


def check_from_one(numbers: Mapping[str, int | None]) -> None:
    """Reject an option that counts something and is less than 1.

    Args:
        numbers: The options with their dashes, and their values; None for an option that was not given.

    Raises:
        UsageError: One of them is less than one.
    """
    for option, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"the option {option} must be a whole number of at least 1, got {number}")
