"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from ace.cli.settings import SettingValue

__all__ = ["Flag", "JsonFlag", "ModelOptions", "SkillbookOption", "YesFlag"]

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
