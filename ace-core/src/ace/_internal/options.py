"""The declaration of an option: `name: type = option(default, help, ...)` in a dataclass of settings.

Everything else follows from it: the keywords of the runners (generated into the source), the settings files, the
environment variables, the options of the command line, `ace config`, the reference page, and the errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ace._internal.arguments import one_of, real_number, shown, whole_number

__all__ = [
    "Option",
    "ProjectRule",
    "SettingValue",
    "at_most",
    "check_options",
    "inside_project",
    "option",
    "options_of",
    "refused",
]

SettingValue = str | int | float | bool | None
"""The value of a setting as files, variables and the command line hold it; a list is a text with commas."""


_METADATA: Final = "option"
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_WHAT: Final[Mapping[type, str]] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_KINDS: Final[Mapping[str, type]] = {kind.__name__: kind for kind in _WHAT}
_MOST_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class ProjectRule:
    """What the `ace.toml` of a project, which may come from a stranger, may set an option to."""

    allowed: str
    """What is allowed, for the reference."""
    problem: Callable[[str, str, Path], str | None]
    """Returns why a project may not set an option (its name) to a value, or None. The last argument is the folder of
    the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How an option is declared."""

    name: str = ""
    """The name of the field, which is also the keyword and the name in a settings file."""
    annotation: str = ""
    """The type of the field, as it is written."""
    default: Any = None
    help: str
    """What it does, as sentences for all users."""
    details: str = ""
    """Further sentences for users of the Python API."""
    group: str = ""
    """The heading in the help of a command."""
    commands: Collection[str] = ()
    """The commands that have it as an option."""
    common: Collection[str] = ()
    """The commands whose `--help` shows it, if they have too many options to show all; `--help-all` shows all."""
    flags: Sequence[str] = ()
    """Further names on the command line."""
    python_only: bool = False
    """Whether it is only a keyword, such as one whose value is an object."""
    project: ProjectRule | None = None
    """The rule for the `ace.toml` of a project, which may come from a stranger. None trusts every value."""
    of_run: bool = True
    """Whether the table `learning` of a settings file may contain it."""
    kind: type = str
    """What a value is outside of Python; by default, it follows from the annotation."""
    least: float | None = None
    above: float | None = None
    """The number that a value must be greater than."""
    most: float | None = None
    unit: str = ""
    """What is counted, for errors in Python."""
    choices: Sequence[str] = ()
    """The texts that a value may be; empty if it may be any."""
    words: Callable[[], Sequence[str]] | None = None
    """Returns the elements that a list may have."""
    is_list: bool = False
    is_path: bool = False
    """Whether a relative path in a settings file is relative to the folder of that file."""
    is_secret: bool = False
    """Whether the value is never shown."""
    can_be_unset: bool = False
    """Whether an empty text overrides an earlier source with no value."""
    used: str = ""
    """What is used if there is no value, for help and `ace config`."""

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"ACE_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def keyword_type(self) -> str:
        """The type of the keyword: that of the field, without the mark of a keyword that was not passed."""
        return self.annotation.replace(" | NotGiven", "")

    @property
    def takes_list(self) -> bool:
        """Whether a value is a list of texts."""
        return self.is_list or self.words is not None

    @property
    def about(self) -> str:
        """What the help of a command says about it."""
        used = self.used
        if not used and self.default not in (None, ()) and self.default is not False:
            used = "on" if self.default is True else format(self.default, "g" if self.kind is float else "")
        return f"{self.help} [env: {self.variable}]{f' [default: {used}]' if used else ''}"

    def check(self, value: object) -> None:
        """Check the value of a keyword.

        Raises:
            ValueError: It is out of range. The text names the option.
        """
        if value is None and "None" in self.annotation:
            return
        if self.choices:
            one_of(self.name, value, self.choices)  # type: ignore[arg-type]  # any value is compared
        elif self.kind is int and not self.python_only:
            whole_number(
                self.name, value, least=-(2**_MOST_BITS) if self.least is None else int(self.least), of=self.unit
            )
        elif self.kind is float:
            real_number(self.name, value, least=self.least, above=self.above, of=self.unit)
        if self.most is not None and isinstance(value, int | float) and value > self.most:
            raise ValueError(f"{self.name} must be at most {self.most:,g}, got {value!r}")

    def checked(self, value: object) -> SettingValue:
        """Return a value from a settings file or the command line. An empty text unsets an option that can be unset.

        Raises:
            ValueError: It has another type, or is out of range. The text says what is accepted.
        """
        if self.takes_list:
            return self._checked_list(value, None if self.words is None else self.words())
        if self.choices and isinstance(value, str) and value.strip() not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, got {shown(value)}")
        if self.kind is str and isinstance(value, str):
            if value.strip():
                return value.strip() if self.choices else value
            if self.can_be_unset:
                return None
            raise ValueError("must not be empty")
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
            return self._checked_number(value)
        raise ValueError(f"must be {self._wanted}{'' if self.is_secret else f', got {shown(value)}'}")

    def parsed(self, text: str) -> SettingValue:
        """Return the value that a variable or `--set` contains.

        Raises:
            ValueError: It cannot be a value. The text says what is accepted.
        """
        if self.kind is bool:
            return self.checked(_BOOLEANS.get(text.strip().lower(), text))
        if self.kind is str:
            return self.checked(text)
        try:
            number = float(text) if self.kind is float else int(text)
        except ValueError:
            raise ValueError(f"must be {self._wanted}, got {shown(text)}") from None
        return self.checked(number)

    def in_python(self, value: SettingValue) -> Any:
        """Return the value of a setting as the field of the dataclass contains it: a list as a tuple.

        Args:
            value: What `checked` returned.
        """
        if self.takes_list:
            return () if value is None else tuple(str(value).split(","))
        return value

    def _checked_number(self, value: float) -> SettingValue:
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ValueError(f"must be {self._wanted}, got one of {value.bit_length()} bits")
        is_in_range = (
            float("-inf") < value < float("inf")
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )
        if (self.kind is int and not isinstance(value, int)) or not is_in_range:
            raise ValueError(f"must be {self._wanted}, got {value:g}")
        number: int | float = self.kind(value)
        return number

    def _checked_list(self, value: object, known: Sequence[str] | None) -> str | None:
        elements = value.split(",") if isinstance(value, str) else value
        if not isinstance(elements, list) or not all(isinstance(word, str) for word in elements):
            raise ValueError(f"must be a list of words, got {shown(value)}")
        found = [word.strip() for word in elements if word.strip()]
        for word in found:
            if known is not None and word not in known:
                raise ValueError(f"knows {', '.join(known)}, not {shown(word)}")
        return ",".join(found) or None

    @property
    def accepts(self) -> str:
        """What values are accepted, if there are bounds or choices."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "" if self.least is None and self.above is None else self._wanted

    @property
    def _wanted(self) -> str:
        what = _WHAT[self.kind]
        if self.least is not None and self.most is not None:
            return f"{what} from {self.least:g} to {self.most:,.0f}"
        if self.above is not None:
            return f"{what} greater than {self.above:g}" + (f" and at most {self.most:,.0f}" if self.most else "")
        return what if self.least is None else f"{what} of at least {self.least:g}"


def option(default: Any, help: str, *, kind: type | None = None, **declared: Any) -> Any:  # noqa: A002  # as in Option
    """Declare an option as the field of a dataclass.

    Args:
        default: Its default.
        help: What it does.
        kind: What a value is outside of Python, if it does not follow from the annotation.
        **declared: The other attributes of `Option`.

    Example:
        >>> @dataclass(frozen=True)
        ... class Settings:
        ...     depth: "int" = option(2, "How deep to look.", least=1)
        >>> [found.variable for found in options_of(Settings)], Settings().depth
        (['ACE_DEPTH'], 2)
    """
    declaration = Option(default=default, help=help, kind=str if kind is None else kind, **declared)
    is_shown = not declaration.is_secret
    return dataclasses.field(default=default, repr=is_shown, metadata={_METADATA: (declaration, kind is None)})


def learning_option(default: Any, help: str, *, kind: type | None = None, **declared: Any) -> Any:  # noqa: A002
    """Declare an option of the commands that learn; see `option`.

    Args:
        default: Its default.
        help: What it does.
        kind: What a value is outside of Python, if it does not follow from the annotation.
        **declared: The other attributes of `Option`.
    """
    return option(default, help, kind=kind, **{"group": "Learning", "commands": ("learn", "train"), **declared})


@cache
def options_of(settings: type[Any]) -> tuple[Option, ...]:
    """Return the options that a dataclass declares, in their order.

    Args:
        settings: The dataclass.
    """
    return tuple(
        _named(field, *field.metadata[_METADATA])
        for field in dataclasses.fields(settings)
        if _METADATA in field.metadata
    )


def _named(field: dataclasses.Field[Any], declaration: Option, infer: bool) -> Option:
    annotation = str(field.type)
    kind = _KINDS.get(annotation.partition(" | ")[0], str) if infer else declaration.kind
    return dataclasses.replace(declaration, name=field.name, annotation=annotation, kind=kind)


def keywords_of(settings: object) -> dict[str, Any]:
    """Return the values of a dataclass of settings, without those that are only keywords of Python."""
    kind: Any = type(settings)
    return {found.name: getattr(settings, found.name) for found in options_of(kind) if not found.python_only}


def check_options(settings: object) -> None:
    """Check the values of a dataclass of settings.

    Raises:
        ValueError: A value is out of range. The text names the option.
    """
    kind: Any = type(settings)
    for declared in options_of(kind):
        declared.check(getattr(settings, declared.name))


def inside_project(what: str, why: str) -> ProjectRule:
    """Return the rule for a path that must be inside the project.

    Args:
        what: What the path names: a folder or a file.
        why: The reason.
    """

    def rule(name: str, value: str, project: Path) -> str | None:
        if (project / Path(value).expanduser()).resolve().is_relative_to(project.resolve()):
            return None
        return f"{name!r} in the file of a project must be a {what} inside the project, since {why}"

    return ProjectRule(f"a {what} inside the project", rule)


def at_most(most: int, why: str) -> ProjectRule:
    """Return the rule for a number that a project may only lower.

    Args:
        most: The largest number that it may set.
        why: The reason.
    """

    def rule(name: str, value: str, _project: Path) -> str | None:
        if int(value) <= most:
            return None
        return f"{name!r} in the file of a project must be at most {most}, since {why}"

    return ProjectRule(f"at most {most}", rule)


def refused(why: str) -> ProjectRule:
    """Return the rule for an option that no project may set.

    Args:
        why: The reason.
    """
    return ProjectRule(
        "nothing", lambda name, _value, _project: f"{name!r} may not be set in the file of a project, since {why}"
    )
