"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from ace.cli.errors import UsageError
from ace.cli.settings import SettingValue

__all__ = ["Flag", "JsonFlag", "ModelOptions", "SkillbookOption", "YesFlag", "check_from_one"]

Flag = Parameter(negative="", show_default=False)
"""An option without a value, off by default."""

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
"""Print the result as one JSON object."""

YesFlag = Annotated[bool, Flag]
"""Answer every question with yes."""

SkillbookOption = Annotated[str | None, Parameter(name="--skillbook")]
"""The skillbook."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How the model is reached."""

    model: str | None = None
    """The model, as LiteLLM writes it: openai/NAME with --api-base for an own server, anthropic/NAME, and so on."""
    api_base: str | None = None
    """The address of an own server that speaks the OpenAI protocol, such as http://localhost:11434/v1."""
    max_tokens: int | None = None
    """The longest answer, in tokens; 2048 by default."""
    temperature: float | None = None
    """The sampling temperature; 0 by default."""
    timeout: float | None = None
    """How long to wait for an answer, in seconds; 120 by default, 600 for a model on this machine."""

    def flags(self) -> dict[str, SettingValue]:
        """Return the values by the names of the settings."""
        return dict(self.__dict__)


def check_from_one(numbers: Mapping[str, int | None]) -> None:
    """Refuse an option that counts something, and was given less than one.

    Args:
        numbers: The options with their dashes, and what was given; None where one was not given.

    Raises:
        UsageError: One of them is less than one.
    """
    for option, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"the option {option} must be a whole number of at least 1, got {number}")
