"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Literal

from cyclopts import Parameter

from ace._internal.options import Option
from ace.cli.errors import UsageError
from ace.cli.settings import SETTINGS, SettingValue

__all__ = [
    "TASK_OPTION",
    "Flag",
    "JsonFlag",
    "ModelOptions",
    "SettingOptions",
    "SkillbookOption",
    "YesFlag",
    "check_from_one",
]

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


class SettingOptions:
    """The settings that are options of a command, as a group of parameters; made from their declarations.

    Example:
        >>> class EvalOptions(SettingOptions, command="eval"):
        ...     pass
        >>> EvalOptions(workers=3).flags()["workers"]
        3
    """

    command: ClassVar[str]
    """The command whose options they are."""

    def __init_subclass__(cls, *, command: str) -> None:
        cls.command = command
        cls.__annotations__ = {
            name: _parameter(setting, command) for name, setting in SETTINGS.items() if command in setting.commands
        }
        for name in cls.__annotations__:
            setattr(cls, name, None)
        Parameter(name="*")(dataclass(frozen=True, kw_only=True)(cls))

    def __init__(self, **values: SettingValue) -> None:
        raise NotImplementedError("a subclass names the command")

    def flags(self) -> dict[str, SettingValue]:
        """Return the values by the names of the settings; None for an option that was not given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        return {name: ",".join(value) if isinstance(value, list) else value for name, value in values.items()}


def _parameter(setting: Option, command: str) -> Any:
    """Return the annotation with which the parser takes a setting."""
    kind: Any = setting.kind
    if setting.takes_list:
        kind = list[str]
    elif setting.choices:
        kind = Literal[tuple(setting.choices)]
    return Annotated[
        kind | None,
        Parameter(
            name=[setting.flag, *setting.flags],
            help=setting.about,
            group=setting.group,
            negative=f"--no-{setting.flag.removeprefix('--')}" if setting.kind is bool else "",
            show=command in setting.common,
            show_default=False,
        ),
    ]


class ModelOptions(SettingOptions, command="ask"):
    """How the model is reached."""

    model: str | None
    """The model; None if the option was not given."""


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
