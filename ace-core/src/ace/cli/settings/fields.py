"""What can be set, with the type, the range and the default of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["FIELDS", "SettingField", "SettingValue"]

_MOST_BITS: Final = 62
_LONGEST_SHOWN: Final = 80

SettingValue = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """A setting. Its variable is `ACE_` and its name in capitals."""

    name: str
    """The name in a settings file."""
    kind: type[str] | type[int] | type[float]
    """What a value is."""
    help: str
    """What it does, as a sentence."""
    default: SettingValue = None
    """The value where nothing else is said."""
    least: float | None = None
    """The smallest number that makes sense."""
    is_secret: bool = False
    """Whether the value is never shown."""

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"ACE_{self.name.upper()}"

    def checked(self, value: object) -> SettingValue:
        """Return a value from a settings file or a flag.

        Args:
            value: What was given.

        Raises:
            ValueError: It has another type, or is too small. The text says what is wanted.
        """
        if self.kind is str and isinstance(value, str):
            if not value.strip():
                raise ValueError("wants a text that is not empty")
            return value
        if self.kind is not str and isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError(f"wants {self._wanted}, not one of {value.bit_length()} bits")
            if self.kind is int and not isinstance(value, int):
                raise ValueError(f"wants {self._wanted}, not {value!r}")
            if not (float("-inf") < value < float("inf")) or (self.least is not None and value < self.least):
                raise ValueError(f"wants {self._wanted}, not {value!r}")
            return self.kind(value)
        shown = "" if self.is_secret else f", not {_short(value)}"
        raise ValueError(f"wants {self._wanted}{shown}")

    def parsed(self, text: str) -> SettingValue:
        """Return the value that a variable holds.

        Args:
            text: The value of the variable.

        Raises:
            ValueError: It is none. The text says what is wanted.
        """
        if self.kind is str:
            return self.checked(text)
        try:
            number = float(text) if self.kind is float else int(text)
        except ValueError:
            raise ValueError(f"wants {self._wanted}, not {_short(text)}") from None
        return self.checked(number)

    @property
    def _wanted(self) -> str:
        what = {str: "a text", int: "a whole number", float: "a number"}[self.kind]
        return what if self.least is None else f"{what} from {self.least:g}"


def _short(value: object) -> str:
    """Return how a value looks in an error: a nested table can be long, and too deep to be written at all."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # ValueError: a number with thousands of digits
        return f"a {type(value).__name__}"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


FIELDS: Final[Sequence[SettingField]] = (
    SettingField(name="model", kind=str, help="The model, as LiteLLM writes it: openai/NAME, anthropic/NAME."),
    SettingField(name="api_base", kind=str, help="The address of an own server that speaks the OpenAI protocol."),
    SettingField(name="api_key", kind=str, help="The key for the model; not in a project file.", is_secret=True),
    SettingField(
        name="skillbook", kind=str, help="The skillbook: .db keeps a history, .json does not.", default="skills.db"
    ),
    SettingField(name="max_tokens", kind=int, help="The longest answer, in tokens.", default=2048, least=1),
    SettingField(name="temperature", kind=float, help="The sampling temperature.", default=0.0, least=0),
    SettingField(
        name="timeout", kind=float, help="How long to wait for the model, in seconds.", default=120.0, least=0.001
    ),
    SettingField(name="epochs", kind=int, help="How often the inputs are gone through.", default=1, least=1),
    SettingField(name="workers", kind=int, help="How many inputs are worked on at once.", least=1),
    SettingField(name="lag", kind=int, help="How many earlier inputs may not be learned yet; 0 is strict.", least=0),
    SettingField(name="max_cost", kind=float, help="US dollars after which a run begins nothing new.", least=1e-6),
)
