"""Reads dataclasses from parsed JSON with pydantic, and says in one sentence what is wrong with a value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")

LARGEST_COUNT: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""

NO_OTHER_FIELDS: Final = {"extra": "forbid"}
"""The `__pydantic_config__` of a dataclass whose fields are the only ones that a file may have."""


class Exactly:
    """The schema of an annotated type, for which pydantic by default also accepts other values, such as "1" for 1.

    pydantic takes a tenth of a second to import, so a module with dataclasses cannot use its own annotations.

    Args:
        **schema: The schema, in the form of `pydantic_core.core_schema`.
    """

    def __init__(self, **schema: object) -> None:
        self._schema = schema

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> dict[str, object]:
        """Return the schema; pydantic calls this."""
        return self._schema


Count = Annotated[int, Exactly(type="int", strict=True, ge=0, le=LARGEST_COUNT)]
Truth = Annotated[bool, Exactly(type="bool", strict=True)]
Finite = Annotated[float, Exactly(type="float", strict=True, allow_inf_nan=False)]


class DecodingError(ValueError):
    """A value does not have the expected form."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place.removeprefix('.')}: {reason}" if place else reason)
        self.place = place
        """Where in the value, such as `.sources[0].epoch`; empty for the value itself."""
        self.reason = reason


_adapters: dict[Any, TypeAdapter[Any]] = {}
"""By type; making one takes as long as reading a thousand values."""


def decoded(form: type[T], value: object) -> T:
    """Return a value from parsed JSON as an instance of a type.

    Args:
        form: The type, such as a dataclass, or a list of dataclasses.

    Raises:
        DecodingError: It does not have this form.
    """
    from pydantic import TypeAdapter, ValidationError  # slow to import

    adapter: TypeAdapter[T] | None = _adapters.get(form)
    if adapter is None:
        adapter = _adapters[form] = TypeAdapter(form)
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise DecodingError(_place(problem["loc"]), _reason(problem)) from None


def shown(value: Any) -> str:
    """Return a value from a file for an error text, truncated to a readable length."""
    text = str(len(str(value))) + " digits" if type(value) is int and abs(value) > 10**30 else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _place(path: tuple[int | str, ...]) -> str:
    names = (f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in path)
    return "".join(names).removesuffix("['[key]']")  # of an invalid key, pydantic names the value and then this


_WANTED: Final = {
    "string_type": "must be a string",
    "string_unicode": "must not contain a lone surrogate",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "greater_than_equal": f"must be from 0 to {LARGEST_COUNT}",
    "less_than_equal": f"must be from 0 to {LARGEST_COUNT}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "mapping_type": "must be an object",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
    "arguments_type": "must be a list",
}
"""What a value must be, by the type of pydantic's error."""


def _reason(problem: ErrorDetails) -> str:
    kind = problem["type"]
    if kind in ("missing", "missing_argument"):
        return "this field is missing"
    if kind == "unexpected_keyword_argument":
        return "unknown field"
    if kind == "literal_error":
        allowed = re.findall("'(.*?)'", problem["ctx"]["expected"])
        wanted = (
            f"must be {' or '.join(map(repr, allowed))}"
            if len(allowed) == 2
            else f"must be one of {', '.join(allowed)}"
        )
    else:
        wanted = _WANTED.get(kind, problem["msg"])
    return f"{wanted}, got {shown(problem['input'])}"
