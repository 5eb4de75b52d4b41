"""What can be set, with the type, the range and the default of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ace.skill import PROVENANCES
from ace.steps.copy_guard import guarded_kinds

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
    """The value if no source sets another one."""
    least: float | None = None
    """The smallest number that is accepted."""
    above: float | None = None
    """The number that a value must be greater than."""
    most: float | None = None
    """The largest number that is accepted."""
    can_be_unset: bool = False
    """Whether an empty text overrides an earlier source with no value."""
    is_secret: bool = False
    """Whether the value is never shown."""
    choices: Sequence[str] = ()
    """The texts that a value may be; none if it may be any."""
    words: Sequence[str] = ()
    """What a value is made of, with commas between them; a settings file may also have a list."""

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"ACE_{self.name.upper()}"

    def checked(self, value: object) -> SettingValue:
        """Return a value from a settings file or a flag. An empty text unsets a setting that can be unset.

        Args:
            value: What was given.

        Raises:
            ValueError: It has another type, or is out of range. The text says what is accepted.
        """
        if self.words:
            return self._checked_words(value)
        if self.choices and isinstance(value, str) and value.strip() not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, got {_short(value)}")
        if self.kind is str and isinstance(value, str):
            if value.strip():
                return value.strip() if self.choices else value
            if self.can_be_unset:
                return None
            raise ValueError("must not be empty")
        if self.kind is not str and isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError(f"must be {self._wanted}, got one of {value.bit_length()} bits")
            if (self.kind is int and not isinstance(value, int)) or not self._is_in_range(value):
                raise ValueError(f"must be {self._wanted}, got {value:g}")
            return self.kind(value)
        shown = "" if self.is_secret else f", got {_short(value)}"
        raise ValueError(f"must be {self._wanted}{shown}")

    def _checked_words(self, value: object) -> str | None:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            raise ValueError(f"must be a list of words, got {_short(value)}")
        found = [word.strip() for word in given if word.strip()]
        for word in found:
            if word not in self.words:
                raise ValueError(f"knows {', '.join(self.words)}, not {_short(word)}")
        return ",".join(found) or None

    def _is_in_range(self, value: float) -> bool:
        return (
            float("-inf") < value < float("inf")
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )

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
            raise ValueError(f"must be {self._wanted}, got {_short(text)}") from None
        return self.checked(number)

    @property
    def _wanted(self) -> str:
        what = {str: "a text", int: "a whole number", float: "a number"}[self.kind]
        if self.least is not None and self.most is not None:
            return f"{what} from {self.least:g} to {self.most:,.0f}"
        if self.above is not None:
            return f"{what} greater than {self.above:g}" + (f" and at most {self.most:,.0f}" if self.most else "")
        return what if self.least is None else f"{what} of at least {self.least:g}"


def _short(value: object) -> str:
    """Return how a value looks in an error: a nested table can be long, and too deep to be written at all."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # ValueError: a number with thousands of digits
        return f"a {type(value).__name__}"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


FIELDS: Final[Sequence[SettingField]] = (
    SettingField(name="model", kind=str, help="The model, in LiteLLM notation: openai/NAME, anthropic/NAME."),
    SettingField(
        name="api_base",
        kind=str,
        help="The base URL of an OpenAI-compatible server.",
        can_be_unset=True,
    ),
    SettingField(name="api_key", kind=str, help="The API key; not allowed in a project file.", is_secret=True),
    SettingField(
        name="skillbook", kind=str, help="The skillbook: .db keeps a history, .json does not.", default="skills.db"
    ),
    SettingField(
        name="max_tokens", kind=int, help="The maximum length of an answer, in tokens.", default=2048, least=1
    ),
    SettingField(name="temperature", kind=float, help="The sampling temperature.", default=0.0, least=0),
    SettingField(
        name="timeout",
        kind=float,
        help="The timeout of a model call, in seconds.",
        default=120.0,
        above=0,
        most=1_000_000,
    ),
    SettingField(
        name="epochs", kind=int, help="The number of passes over the inputs.", default=1, least=1, most=10_000
    ),
    SettingField(name="workers", kind=int, help="The number of inputs to process concurrently.", least=1, most=1000),
    SettingField(
        name="lag",
        kind=int,
        help="How many earlier inputs may not yet be learned from when an input starts; 0 makes runs reproducible.",
        least=0,
        most=1_000_000,
    ),
    SettingField(
        name="allow",
        kind=str,
        help="Classes of sensitive text that are neither redacted nor rejected.",
        words=guarded_kinds(),
    ),
    SettingField(
        name="provenance",
        kind=str,
        help="What to record about the source of a skill: full, or ids for none of its text.",
        default="full",
        choices=PROVENANCES,
    ),
    SettingField(name="max_cost", kind=float, help="The cost in USD at which a run starts no new inputs.", above=0),
    SettingField(
        name="max_input_mb",
        kind=float,
        help="The size of the largest file or stream that is read, in megabytes.",
        default=1000.0,
        above=0,
        most=1_000_000,
    ),
)
